// Package devidentity is a token endpoint for development. It issues JSON web tokens for this
// gateway to all programs on this machine, over the protocols of the Azure SDKs' credentials.
package devidentity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/crosstown-mq/crosstown/internal/durable"
)

const Issuer = "urn:crosstown:dev-identity"

const RolesClaim = "roles"

const (
	Owner    = "Owner"
	Sender   = "Sender"
	Receiver = "Receiver"
)

const (
	keyFile  = "identity.key.pem"
	keyBlock = "PRIVATE KEY"
	lifetime = time.Hour
	tenant   = "00000000-0000-0000-0000-000000000000"
)

type Identity struct {
	signer jose.Signer
	public jose.JSONWebKey
	secret string
}

// Open reads or creates the key in dir. With the same key after a restart, the tokens that clients
// keep remain valid.
func Open(dir string) (*Identity, error) {
	path := filepath.Join(dir, keyFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(dir, path); err == nil {
			data, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the key of the development identity: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		block = &pem.Block{} // without a key
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("the development identity's key file %s contains no P-256 key: remove the file, and the gateway creates a new one", path)
	}
	public := jose.JSONWebKey{Key: &key.PublicKey, Algorithm: string(jose.ES256), Use: "sig"}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("cannot open the key of the development identity: %w", err)
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: public.KeyID}},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, fmt.Errorf("cannot open the key of the development identity: %w", err)
	}
	mac := hmac.New(sha256.New, block.Bytes)
	_, _ = mac.Write([]byte("secret of the token endpoint")) // Write returns no error
	return &Identity{signer, public, base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:18])}, nil
}

// makeKey creates the key file atomically. If several processes do this at once, the first wins.
func makeKey(dir, path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(dir); err != nil {
		return err
	}
	err = durable.Create(path, 0o600, durable.Content(pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Secret returns the secret that clients must send, except as on a virtual machine.
func (i *Identity) Secret() string { return i.secret }

func (i *Identity) Keys() *jose.JSONWebKeySet {
	return &jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.public}}
}

func (i *Identity) token(client, audience string, now time.Time) (string, error) {
	role := Owner
	switch client {
	case "":
		client = "owner"
	case "sender":
		role = Sender
	case "receiver":
		role = Receiver
	}
	return jwt.Signed(i.signer).Claims(jwt.Claims{
		Issuer:    Issuer,
		Subject:   client,
		Audience:  jwt.Audience{audience},
		IssuedAt:  jwt.NewNumericDate(now),
		NotBefore: jwt.NewNumericDate(now),
		Expiry:    jwt.NewNumericDate(now.Add(lifetime)),
	}).Claims(map[string]any{RolesClaim: []string{role}, "tid": tenant, "appid": client, "oid": client}).Serialize()
}
