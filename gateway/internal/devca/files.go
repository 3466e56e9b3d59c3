package devca

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"github.com/crosstown-mq/crosstown/internal/durable"
)

// pair is a certificate and its private key. One file holds both, so that they
// can never be out of step.
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

// readPair reads what pem wrote. An error of a file that cannot be understood
// names it and says what to do.
func readPair(path string) (pair, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return pair{}, err
	}
	parsed, err := tls.X509KeyPair(data, data)
	if err != nil {
		return pair{}, fmt.Errorf("%s: %w: remove the file to have a new one made", path, err)
	}
	signer, ok := parsed.PrivateKey.(crypto.Signer)
	if !ok {
		return pair{}, fmt.Errorf("%s: the key cannot sign: remove the file to have a new one made", path)
	}
	return newPair(signer, parsed.Certificate[0])
}

// writeNew creates path with all of data at once, or fails with fs.ErrExist.
func writeNew(path string, data []byte, mode os.FileMode) error {
	return viaTemp(path, data, mode, os.Link)
}

// replace puts data in place of what path held, at once.
func replace(path string, data []byte, mode os.FileMode) error {
	return viaTemp(path, data, mode, os.Rename)
}

func viaTemp(path string, data []byte, mode os.FileMode, publish func(from, to string) error) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // gone already after a rename
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Chmod(mode)
	}
	if err == nil {
		err = temp.Sync()
	}
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := publish(temp.Name(), path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}
