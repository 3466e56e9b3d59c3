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
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
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

// AppServicePath is the path of the address that clients get in IDENTITY_ENDPOINT.
const AppServicePath = "/msi/token"

const maxForm = 64 << 10

// Handler answers these credentials of the SDKs: ManagedIdentityCredential of App Service, with the
// secret in X-IDENTITY-HEADER; ManagedIdentityCredential of a virtual machine, with "Metadata:
// true"; and ClientSecretCredential, with the secret as client secret. The client id selects the
// role: sender, receiver or, for any other id, owner. Handler refuses requests that a web page
// could make a browser send.
func (i *Identity) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+AppServicePath, i.appService)
	mux.HandleFunc("GET /metadata/identity/oauth2/token", i.virtualMachine)
	mux.HandleFunc("POST /{tenant}/oauth2/v2.0/token", i.clientSecret)
	mux.HandleFunc("GET /{tenant}/v2.0/.well-known/openid-configuration", describe)
	mux.HandleFunc("GET /{tenant}/discovery/v2.0/keys", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, i.Keys()) })
	return listen.SameSite(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A web page's domain may resolve to this machine: then Host has the domain.
		if !isLocal(r.Host) || r.Header.Get("X-Forwarded-For") != "" {
			refuse(w, http.StatusForbidden, "access_denied", "Call this endpoint directly at localhost or an IP address, not through a proxy.")
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}

func (i *Identity) appService(w http.ResponseWriter, r *http.Request) {
	if !i.knows(r.Header.Get("X-IDENTITY-HEADER")) {
		refuse(w, http.StatusUnauthorized, "invalid_client", "The header X-IDENTITY-HEADER differs from the IDENTITY_HEADER that the gateway prints when it starts.")
		return
	}
	i.managed(w, r)
}

func (i *Identity) virtualMachine(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Metadata"), "true") {
		refuse(w, http.StatusBadRequest, "invalid_request", "The header 'Metadata: true' is missing.")
		return
	}
	i.managed(w, r)
}

// managed answers as the endpoints of managed identities do: with numbers in strings.
func (i *Identity) managed(w http.ResponseWriter, r *http.Request) {
	resource, client := r.FormValue("resource"), r.FormValue("client_id")
	if resource == "" {
		refuse(w, http.StatusBadRequest, "invalid_resource", "The parameter resource is missing: set a resource such as https://servicebus.azure.net.")
		return
	}
	now := time.Now()
	token, err := i.token(client, resource, now)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error", err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]string{
		"access_token": token,
		"client_id":    client,
		"expires_in":   strconv.Itoa(int(lifetime.Seconds())),
		"expires_on":   strconv.FormatInt(now.Add(lifetime).Unix(), 10),
		"not_before":   strconv.FormatInt(now.Unix(), 10),
		"resource":     resource,
		"token_type":   "Bearer",
	})
}

// clientSecret implements the client credentials grant (RFC 6749 §4.4) as Microsoft Entra does.
func (i *Identity) clientSecret(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	client, secret := r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	switch {
	case r.PostFormValue("grant_type") != "client_credentials":
		refuse(w, http.StatusBadRequest, "unsupported_grant_type", "Only the grant type client_credentials is supported.")
		return
	case !i.knows(secret):
		refuse(w, http.StatusUnauthorized, "invalid_client", "The client secret differs from the IDENTITY_HEADER that the gateway prints when it starts.")
		return
	}
	var audience string
	for scope := range strings.FieldsSeq(r.PostFormValue("scope")) {
		if resource, ok := strings.CutSuffix(scope, "/.default"); ok {
			audience = resource
		}
	}
	if audience == "" {
		refuse(w, http.StatusBadRequest, "invalid_scope", "The scope is not valid: use a resource followed by /.default, such as https://servicebus.azure.net/.default.")
		return
	}
	token, err := i.token(client, audience, time.Now())
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error", err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]any{
		"access_token":   token,
		"expires_in":     int(lifetime.Seconds()),
		"ext_expires_in": int(lifetime.Seconds()),
		"token_type":     "Bearer",
	})
}

func describe(w http.ResponseWriter, r *http.Request) {
	base := "http://" + r.Host + "/" + r.PathValue("tenant")
	if r.TLS != nil {
		base = "https" + strings.TrimPrefix(base, "http")
	}
	answer(w, http.StatusOK, map[string]any{
		"issuer":                                base + "/v2.0",
		"authorization_endpoint":                base + "/oauth2/v2.0/authorize",
		"token_endpoint":                        base + "/oauth2/v2.0/token",
		"jwks_uri":                              base + "/discovery/v2.0/keys",
		"grant_types_supported":                 []string{"client_credentials"},
		"response_types_supported":              []string{"token"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256"},
	})
}

func (i *Identity) knows(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(secret), []byte(i.secret)) == 1
}

func refuse(w http.ResponseWriter, status int, word, text string) {
	answer(w, status, map[string]string{"error": word, "error_description": text})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // RFC 6749 §5.1
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // ignore the error: the client may have disconnected
}
