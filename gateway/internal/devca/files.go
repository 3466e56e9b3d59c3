package devca

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

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
