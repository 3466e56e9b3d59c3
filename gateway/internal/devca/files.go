package devca

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

// pair is in one file, so that certificate and key always match.
type pair struct {
	key    crypto.Signer
	keyDER []byte
	cert   *x509.Certificate
}

const (
	keyBlock  = "PRIVATE KEY"
	certBlock = "CERTIFICATE"
)

func newPair(key crypto.Signer, certDER []byte) (pair, error) {
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return pair{}, err
	}
	return pair{key, keyDER, cert}, nil
}

func (p pair) pem() []byte {
	return append(pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: p.keyDER}), p.certificatePEM()...)
}

func (p pair) certificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: p.cert.Raw})
}

func (p pair) tls() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.cert.Raw}, PrivateKey: p.key, Leaf: p.cert}
}

func readPair(path string) (pair, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return pair{}, err
	}
	parsed, err := tls.X509KeyPair(data, data)
	if err != nil {
		return pair{}, fmt.Errorf("%s: %w: remove the file, and the gateway creates a new one", path, err)
	}
	signer, ok := parsed.PrivateKey.(crypto.Signer)
	if !ok {
		return pair{}, fmt.Errorf("%s: the key cannot sign: remove the file, and the gateway creates a new one", path)
	}
	return newPair(signer, parsed.Certificate[0])
}
