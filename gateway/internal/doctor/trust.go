package doctor

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/devca"
)

// renewSoon is how long before its end a certificate is worth a word.
const renewSoon = 30 * 24 * time.Hour

// certificates look at the certificate of a configuration, or at the development CA and whether the SDKs
// of this machine trust it.
func (r *Report) certificates(c *config.Config, environ []string) {
	if c.TLS.Cert != "" {
		if certificate := r.certificate("certificate", c.TLS.Cert, "give the gateway a file with a certificate in PEM: --tls-cert"); certificate != nil {
			r.lifetime("certificate", certificate, "renew it: the gateway takes up the new one with SIGHUP")
		}
		return
	}
	path := devca.Path(c.Data)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		r.ok("development CA", "there is none in %s yet: the first start, or crosstown ca, makes it", c.Data)
		return
	}
	ca := r.certificate("development CA", path, "remove it: the next start writes it anew")
	if ca == nil {
		return
	}
	r.lifetime("development CA", ca, "remove the files ca.* of "+c.Data+", start again, and have clients trust the new one")
	for _, t := range []struct{ sdks, variable, alone string }{
		{"Go, .NET and Rust", "SSL_CERT_FILE", "also instead of the system's store"},
		{"JavaScript", "NODE_EXTRA_CA_CERTS", ""},
		{"Python", "REQUESTS_CA_BUNDLE", "for management; for messages give the program connection_verify=" + path},
	} {
		r.trust("trust of "+t.sdks, t.variable, t.alone, path, ca, environ)
	}
	r.javaTrust(path, environ)
}

// certificate reads the first certificate of a file.
func (r *Report) certificate(check, path, remedy string) *x509.Certificate {
	all, err := readCertificates(path)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s holds no certificate in PEM", path)
	}
	if err != nil {
		r.fail(check, remedy, "%v", err)
		return nil
	}
	return all[0]
}

func readCertificates(path string) (all []*x509.Certificate, err error) {
	rest, err := os.ReadFile(path)
	for block := (*pem.Block)(nil); err == nil; {
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			all = append(all, certificate)
		}
	}
	return all, err
}

func (r *Report) lifetime(check string, certificate *x509.Certificate, remedy string) {
	ends := certificate.NotAfter.Format(time.DateOnly)
	switch left := time.Until(certificate.NotAfter); {
	case left < 0:
		r.fail(check, remedy, "%s has ended, on %s", certificate.Subject.CommonName, ends)
	case left < renewSoon:
		r.warn(check, remedy, "%s ends on %s", certificate.Subject.CommonName, ends)
	default:
		r.ok(check, "%s, good until %s", certificate.Subject.CommonName, ends)
	}
}

// trust says whether programs of some SDKs trust the CA: by a variable, or by the system's store where
// they look there, too.
func (r *Report) trust(check, variable, note, path string, ca *x509.Certificate, environ []string) {
	remedy := "export " + variable + "=" + path
	if note != "" {
		remedy += " (" + note + ")"
	}
	file := config.Variable(environ, variable)
	if file == "" {
		if variable == "SSL_CERT_FILE" && inSystem(ca) {
			r.ok(check, "the system's store has the development CA")
			return
		}
		r.warn(check, remedy, "not with TLS: %s is not set here", variable)
		return
	}
	remedy = "cat " + file + " " + path + " > with-crosstown.pem; export " + variable + "=$PWD/with-crosstown.pem"
	all, err := readCertificates(file)
	for _, held := range all {
		if bytes.Equal(held.Raw, ca.Raw) {
			r.ok(check, "%s=%s has the development CA", variable, file)
			return
		}
	}
	if err != nil {
		r.warn(check, "export "+variable+"="+path, "%s: %v", variable, err)
		return
	}
	r.warn(check, remedy, "%s=%s does not have the development CA", variable, file)
}

// inSystem reports whether this machine trusts a CA.
func inSystem(ca *x509.Certificate) bool {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return false
	}
	_, err = ca.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

var trustStore = regexp.MustCompile(`-Djavax\.net\.ssl\.trustStore=(\S+)`)

// javaTrust looks for a trust store that every JVM of this environment is told. What is in it is not read.
func (r *Report) javaTrust(path string, environ []string) {
	const check = "trust of Java"
	remedy := "keytool -importcert -noprompt -alias crosstown -file " + path + " -keystore trust.p12 -storetype PKCS12 -storepass crosstown; " +
		"export JAVA_TOOL_OPTIONS='-Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=crosstown'"
	options := cmp.Or(config.Variable(environ, "JAVA_TOOL_OPTIONS"), config.Variable(environ, "JDK_JAVA_OPTIONS"))
	named := trustStore.FindStringSubmatch(options)
	if named == nil {
		r.warn(check, remedy, "not with TLS: neither JAVA_TOOL_OPTIONS nor JDK_JAVA_OPTIONS names a trust store here")
		return
	}
	if _, err := os.Stat(named[1]); err != nil {
		r.warn(check, remedy, "the trust store: %v", err)
		return
	}
	r.ok(check, "JVMs use the trust store %s (whether it has the development CA is not read: keytool -list shows it)", named[1])
}
