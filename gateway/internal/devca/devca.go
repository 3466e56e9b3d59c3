// Package devca keeps a development certificate authority and a server certificate in a directory,
// and creates both on first use. It keeps the authority, so that users need to trust it only once.
// It replaces the server certificate if that lacks a host or port, or expires soon.
package devca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/internal/durable"
)

const (
	caFile     = "ca.pem"     // everyone may read it
	caKeyFile  = "ca.key.pem" // key and certificate of the authority
	serverFile = "server.pem" // key and certificate of the server
)

// Apple's platforms refuse server certificates of more than 825 days.
const (
	caLifetime     = 10 * 365 * 24 * time.Hour
	serverLifetime = 825*24*time.Hour - backdate
	renewBefore    = 60 * 24 * time.Hour
	backdate       = time.Hour // allows for peers with slow clocks
)

type Options struct {
	Hosts []string
	// Ports adds names HOST:PORT, because go-amqp compares certificates with host and port together.
	Ports []string
	Now   func() time.Time
}

type Authority struct {
	PEM         []byte          // certificate of the authority
	Path        string          // path of the file that contains PEM
	Certificate tls.Certificate // certificate and key of the server

	ca tls.Certificate
	o  Options
}

func Path(dir string) string { return filepath.Join(dir, caFile) }

// Open opens the files in dir, and creates or replaces them if necessary. If several processes do
// this at once, they get the same authority.
func Open(dir string, o Options) (*Authority, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	ca, err := openCA(dir, o.Now())
	if err != nil {
		return nil, err
	}
	server, err := openServer(dir, &ca, o)
	if err != nil {
		return nil, err
	}
	return &Authority{PEM: certificatePEM(&ca), Path: Path(dir), Certificate: server, ca: ca, o: o}, nil
}

// Issue returns a certificate for host and, for each port, host:PORT. It stores no file.
func (a *Authority) Issue(host string) (*tls.Certificate, error) {
	server, err := issue(&a.ca, Options{Hosts: []string{host}, Ports: a.o.Ports, Now: a.o.Now})
	if err != nil {
		return nil, fmt.Errorf("cannot create the development certificate for %s: %w", host, err)
	}
	return &server, nil
}

// CA returns the authority's certificate in PEM. It creates the authority if necessary.
func CA(dir string) ([]byte, error) {
	ca, err := openCA(dir, time.Now())
	if err != nil {
		return nil, err
	}
	return certificatePEM(&ca), nil
}

func openCA(dir string, now time.Time) (tls.Certificate, error) {
	if err := durable.MkdirAll(dir); err != nil {
		return tls.Certificate{}, fmt.Errorf("cannot create the directory of the development CA: %w", err)
	}
	path := filepath.Join(dir, caKeyFile)
	ca, err := readPair(path)
	if errors.Is(err, fs.ErrNotExist) {
		if ca, err = newCA(now); err == nil {
			err = durable.Create(path, 0o600, durable.Content(pairPEM(&ca)))
		}
		if errors.Is(err, fs.ErrExist) { // another process created it first
			ca, err = readPair(path)
		}
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cannot read or create the development CA: %w", err)
	}
	if now.After(ca.Leaf.NotAfter) {
		return tls.Certificate{}, fmt.Errorf("the development CA in %s expired on %s: remove the file, start again, and install the new CA in the clients", path, ca.Leaf.NotAfter.Format(time.DateOnly))
	}
	public := Path(dir)
	if held, err := os.ReadFile(public); err != nil || !bytes.Equal(held, certificatePEM(&ca)) {
		if err := durable.Replace(public, 0o644, durable.Content(certificatePEM(&ca))); err != nil {
			return tls.Certificate{}, fmt.Errorf("cannot store the certificate of the development CA: %w", err)
		}
	}
	return ca, nil
}

func newCA(now time.Time) (tls.Certificate, error) {
	owner, err := os.Hostname()
	if err != nil {
		owner = "unnamed"
	}
	return sign(&x509.Certificate{
		Subject:               pkix.Name{Organization: []string{"Crosstown"}, CommonName: "Crosstown development CA of " + owner},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}, nil)
}

func openServer(dir string, ca *tls.Certificate, o Options) (tls.Certificate, error) {
	names, addresses := subjects(o)
	path := filepath.Join(dir, serverFile)
	// Keep the certificate in the file if it fits the options. Otherwise replace it.
	if held, err := readPair(path); err == nil && serves(held.Leaf, ca.Leaf, names, addresses, o.Now()) {
		return held, nil
	}
	server, err := issue(ca, o)
	if err == nil {
		err = durable.Replace(path, 0o600, durable.Content(pairPEM(&server)))
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cannot create the development certificate: %w", err)
	}
	return server, nil
}

func issue(ca *tls.Certificate, o Options) (tls.Certificate, error) {
	names, addresses := subjects(o)
	return sign(&x509.Certificate{
		Subject:     pkix.Name{Organization: []string{"Crosstown"}, CommonName: "Crosstown development gateway"},
		NotBefore:   o.Now().Add(-backdate),
		NotAfter:    o.Now().Add(serverLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    names,
		IPAddresses: addresses,
	}, ca)
}

func subjects(o Options) (names []string, addresses []net.IP) {
	hosts := slices.Compact(slices.Sorted(slices.Values(o.Hosts)))
	ports := slices.Compact(slices.Sorted(slices.Values(o.Ports)))
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			addresses = append(addresses, ip)
		} else {
			names = append(names, host)
		}
		for _, port := range ports {
			names = append(names, net.JoinHostPort(host, port))
		}
	}
	return names, addresses
}

func serves(cert, ca *x509.Certificate, names []string, addresses []net.IP, now time.Time) bool {
	return cert.CheckSignatureFrom(ca) == nil &&
		now.After(cert.NotBefore) && now.Add(renewBefore).Before(cert.NotAfter) &&
		slices.Equal(cert.DNSNames, names) &&
		slices.EqualFunc(cert.IPAddresses, addresses, net.IP.Equal)
}

func sign(template *x509.Certificate, ca *tls.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return tls.Certificate{}, err
	}
	issuer, issuerKey := template, crypto.PrivateKey(key)
	if ca != nil {
		issuer, issuerKey = ca.Leaf, ca.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), issuerKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

const (
	keyBlock  = "PRIVATE KEY"
	certBlock = "CERTIFICATE"
)

// pairPEM encodes a certificate and its key for one file, so that the two always match.
func pairPEM(c *tls.Certificate) []byte {
	key, _ := x509.MarshalPKCS8PrivateKey(c.PrivateKey) // no error: all keys here can be encoded
	return append(pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: key}), certificatePEM(c)...)
}

func certificatePEM(c *tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: c.Leaf.Raw})
}

func readPair(path string) (tls.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return tls.Certificate{}, err
	}
	parsed, err := tls.X509KeyPair(data, data)
	if err != nil {
		err = fmt.Errorf("%s is not a valid certificate with its key (%w): remove the file, and the gateway creates a new one", path, err)
	}
	return parsed, err
}
