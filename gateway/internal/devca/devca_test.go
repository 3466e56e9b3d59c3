package devca_test

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/devca"
)

var local = devca.Options{Hosts: []string{"localhost", "127.0.0.1", "::1", "box"}, Ports: []string{"5671", "8443"}}

func open(t *testing.T, dir string, o devca.Options) *devca.Authority {
	t.Helper()
	ca, err := devca.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func verify(t *testing.T, ca *devca.Authority, name string) {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca.PEM) {
		t.Fatal("the CA is not PEM")
	}
	if _, err := ca.Certificate.Leaf.Verify(x509.VerifyOptions{
		Roots: pool, DNSName: name, CurrentTime: ca.Certificate.Leaf.NotBefore.Add(2 * time.Hour),
	}); err != nil {
		t.Errorf("verify as %q: %v", name, err)
	}
}

func TestTheCertificateVerifiesForEveryHostWithAndWithoutPort(t *testing.T) {
	t.Parallel()
	ca := open(t, t.TempDir(), local)
	for _, name := range []string{
		"localhost", "localhost:5671", "localhost:8443", "127.0.0.1", "127.0.0.1:5671", "[::1]", "[::1]:8443", "box", "box:8443",
	} {
		verify(t, ca, name)
	}
	if err := ca.Certificate.Leaf.VerifyHostname("localhost:1"); err == nil {
		t.Error("a port that is not served verifies")
	}
}

func TestOpenAgainKeepsBoth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, again := open(t, dir, local), open(t, dir, local)
	if !bytes.Equal(first.PEM, again.PEM) || !first.Certificate.Leaf.Equal(again.Certificate.Leaf) {
		t.Fatal("opening again made something new")
	}
}

func TestTheLeafFollowsHostsPortsAndTimeAndTheCAStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := open(t, dir, local)
	morePorts, moreHosts, later := local, local, local
	morePorts.Ports = append([]string{"9000"}, local.Ports...)
	moreHosts.Hosts = append([]string{"gateway.example"}, local.Hosts...)
	later.Now = func() time.Time { return first.Certificate.Leaf.NotAfter.Add(-24 * time.Hour) }
	for name, o := range map[string]devca.Options{"localhost:9000": morePorts, "gateway.example:5671": moreHosts, "localhost": later} {
		ca := open(t, dir, o)
		if !bytes.Equal(ca.PEM, first.PEM) {
			t.Errorf("%s: the CA changed", name)
		}
		if ca.Certificate.Leaf.Equal(first.Certificate.Leaf) {
			t.Errorf("%s: the leaf did not change", name)
		}
		verify(t, ca, name)
	}
}

func TestKeysAreForTheOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := open(t, dir, local)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 {
		t.Errorf("files: got %v, want three", files)
	}
	for _, f := range files {
		data, _ := os.ReadFile(filepath.Join(dir, f.Name()))
		info, _ := f.Info()
		want := os.FileMode(0o600)
		if !bytes.Contains(data, []byte("PRIVATE KEY")) {
			want = 0o644
		}
		if info.Mode() != want {
			t.Errorf("%s: mode %v, want %v", f.Name(), info.Mode(), want)
		}
	}
	if public, _ := os.ReadFile(ca.Path); !bytes.Equal(public, ca.PEM) {
		t.Errorf("%s does not hold the CA", ca.Path)
	}
}

func TestManyAtOnceAgreeOnOneCA(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cas := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range cas {
		wg.Go(func() {
			var err error
			if cas[i], err = devca.CA(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range cas {
		if !bytes.Equal(cas[i], cas[0]) {
			t.Fatalf("%d got another CA than 0", i)
		}
	}
	open(t, dir, local)
	if !bytes.Equal(open(t, dir, local).PEM, cas[0]) {
		t.Fatal("Open found another CA")
	}
}

func TestADamagedLeafIsReplacedAndADamagedCAIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, local)
	damage := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("-----BEGIN CERTIFICATE-----\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	damage("server.pem")
	verify(t, open(t, dir, local), "localhost")
	path := damage("ca.key.pem")
	if _, err := devca.Open(dir, local); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("damaged CA: got %v, want its path and the remedy", err)
	}
}

func TestACertificateForOneMoreHost(t *testing.T) {
	t.Parallel()
	ca := open(t, t.TempDir(), local)
	one, err := ca.Issue("suite-17.localhost")
	if err != nil {
		t.Fatal(err)
	}
	more := &devca.Authority{PEM: ca.PEM, Certificate: *one}
	for _, name := range []string{"suite-17.localhost", "suite-17.localhost:5671", "suite-17.localhost:8443"} {
		verify(t, more, name)
	}
	if err := one.Leaf.VerifyHostname("localhost"); err == nil {
		t.Error("it is for another host, too")
	}
}
