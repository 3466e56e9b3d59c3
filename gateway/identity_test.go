package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

var identityLine = regexp.MustCompile(`identity +IDENTITY_ENDPOINT=(\S+) IDENTITY_HEADER=(\S+)`)

// managedIdentity asks a token endpoint as the SDKs' credential does in App Service.
type managedIdentity struct{ endpoint, header, client string }

// GetToken implements azcore.TokenCredential.
func (m managedIdentity) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	query := url.Values{"api-version": {"2019-08-01"}, "resource": {"https://servicebus.azure.net"}, "client_id": {m.client}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.endpoint+"?"+query.Encode(), nil)
	if err != nil {
		return azcore.AccessToken{}, err
	}
	req.Header.Set("X-IDENTITY-HEADER", m.header)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return azcore.AccessToken{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Token == "" {
		return azcore.AccessToken{}, fmt.Errorf("%s: %w", resp.Status, err)
	}
	return azcore.AccessToken{Token: answer.Token, ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func TestAManagedIdentityDoesWhatItsRoleLetsIt(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--dev-identity", "--dev-identity-listen=127.0.0.1:0")
	found := identityLine.FindStringSubmatch(g.stdout.String())
	if found == nil {
		t.Fatalf("no endpoint is printed:\n%s", g.stdout)
	}
	pem, err := os.ReadFile(filepath.Join(g.data, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	trusting := &tls.Config{RootCAs: roots}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	owner := managedIdentity{found[1], found[2], ""}
	manager, err := admin.NewClient(g.address, owner, &admin.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: &http.Client{Transport: &http.Transport{TLSClientConfig: trusting}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := manager.CreateQueue(ctx, "orders", nil); err != nil {
		t.Fatal(err)
	}

	for client, may := range map[string]bool{"": true, "sender": true, "receiver": false} {
		credential := owner
		credential.client = client
		sdk, err := azservicebus.NewClient(g.address, credential, &azservicebus.ClientOptions{TLSConfig: trusting.Clone()})
		if err != nil {
			t.Fatal(err)
		}
		sender, err := sdk.NewSender("orders", nil)
		if err != nil {
			t.Fatal(err)
		}
		err = sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("hello")}, nil)
		refused, ok := errors.AsType[*azservicebus.Error](err)
		if may && err != nil || !may && (!ok || refused.Code != azservicebus.CodeUnauthorizedAccess) {
			t.Errorf("send as %q: got %v", client, err)
		}
		if err := sdk.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	managers, err := admin.NewClient(g.address, managedIdentity{found[1], found[2], "sender"}, &admin.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: &http.Client{Transport: &http.Transport{TLSClientConfig: trusting}},
		Retry:     policy.RetryOptions{MaxRetries: -1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := managers.CreateQueue(ctx, "more", nil); err == nil {
		t.Error("a sender created a queue")
	}
}

func TestWithoutDevIdentityNoTokenOfOneIsBelieved(t *testing.T) {
	t.Parallel()
	giver := startGateway(t, "--store=memory", "--dev-identity", "--dev-identity-listen=127.0.0.1:0")
	other := startGateway(t, "--store=memory")
	found := identityLine.FindStringSubmatch(giver.stdout.String())
	token, err := managedIdentity{found[1], found[2], ""}.GetToken(t.Context(), policy.TokenRequestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for g, want := range map[*gateway]int{giver: http.StatusOK, other: http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.address+"/$Resources/Queues?api-version=2021-05", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token.Token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("got %d, want %d", resp.StatusCode, want)
		}
	}
}

func TestAConfiguredIssuersTokensHaveTheRightsOfTheirClaims(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	for path, text := range map[string]string{filepath.Join(dir, "keys.json"): string(keys), file: `
queues: [{name: orders}]
issuers:
  - issuer: partner
    jwks: ` + dir + `/keys.json
    audiences: [crosstown]
    owner: [groups=staff]
    sender: [sub=till]
`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := startGateway(t, "--store=memory", "--config="+file)
	const send, list = "POST /orders/messages", "GET /$Resources/Queues?api-version=2021-05"
	for _, c := range []struct {
		claims map[string]any
		call   string
		status int
		text   string
	}{
		{map[string]any{"sub": "till"}, send, http.StatusCreated, ""},
		{map[string]any{"sub": "other"}, send, http.StatusUnauthorized, "InvalidToken: None of the token's claims grants a right here."},
		{map[string]any{"sub": "other", "groups": []string{"staff"}}, send, http.StatusCreated, ""},
		{map[string]any{"groups": []string{"staff"}}, list, http.StatusOK, "orders"},
		{map[string]any{"sub": "till", "aud": "elsewhere"}, send, http.StatusUnauthorized, "InvalidAudience: The token is for 'elsewhere', not for 'crosstown'."},
		{map[string]any{"sub": "till", "exp": 1}, send, http.StatusUnauthorized, "ExpiredToken: The token is expired."},
		{map[string]any{"sub": "till", "iss": "stranger"}, send, http.StatusUnauthorized, "InvalidIssuer: "},
	} {
		claims := map[string]any{"iss": "partner", "aud": "crosstown", "exp": time.Now().Add(time.Hour).Unix()}
		maps.Copy(claims, c.claims)
		token, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		method, path, _ := strings.Cut(c.call, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.address+path, strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.Contains(html.UnescapeString(string(body)), c.text) {
			t.Errorf("%s with %v: got %d %s, %v, want %d %s", c.call, c.claims, resp.StatusCode, body, err, c.status, c.text)
		}
	}
}

func TestAKeyFileOfAnIssuerMustBeReadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte("issuers: [{issuer: partner, jwks: /none/keys.json, sender: [sub=a]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := invoke(t, nil, "--data="+dir, "--listen=127.0.0.1:0", "--store=memory", "--config="+file)
	if code != exitFailure || !regexp.MustCompile(`partner.*/none/keys\.json`).MatchString(stderr) {
		t.Errorf("got %d:\n%s", code, stderr)
	}
}
