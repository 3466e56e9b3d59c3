package devidentity

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const resource = "https://servicebus.azure.net"

func open(t *testing.T, dir string) *Identity {
	t.Helper()
	i, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// ask sends a request and returns the status and the fields of the answer.
func ask(t *testing.T, i *Identity, method, target, form string, headers ...string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(form))
	r.Host = "localhost:8421"
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, h := range headers {
		name, text, _ := strings.Cut(h, ": ")
		if r.Header.Set(name, text); name == "Host" {
			r.Host = text
		}
	}
	w := httptest.NewRecorder()
	i.Handler().ServeHTTP(w, r)
	fields := map[string]any{}
	_ = json.Unmarshal(w.Body.Bytes(), &fields) // the mux' own refusals are text
	return w.Code, fields
}

// claims verifies a token and returns what it says.
func claims(t *testing.T, i *Identity, token any) (jwt.Claims, string) {
	t.Helper()
	text, _ := token.(string)
	parsed, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	var c jwt.Claims
	var more struct {
		Roles []string `json:"roles"`
	}
	if err := parsed.Claims(i.Keys(), &c, &more); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(jwt.Expected{Issuer: Issuer, Time: time.Now()}); err != nil {
		t.Error(err)
	}
	return c, strings.Join(more.Roles, ",")
}

func TestEveryCredentialGetsItsToken(t *testing.T) {
	t.Parallel()
	i := open(t, t.TempDir())
	secret := "client_secret=" + i.Secret() + "&grant_type=client_credentials&scope=" + url.QueryEscape(resource+"/.default")
	for name, c := range map[string]struct {
		method, target, form, header string
		role, subject                string
	}{
		"app service":          {"GET", "/msi/token?api-version=2019-08-01&resource=" + resource, "", "X-IDENTITY-HEADER: " + i.Secret(), Owner, "owner"},
		"app service, a role":  {"GET", "/msi/token?api-version=2019-08-01&client_id=sender&resource=" + resource, "", "X-IDENTITY-HEADER: " + i.Secret(), Sender, "sender"},
		"virtual machine":      {"GET", "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=" + resource, "", "Metadata: true", Owner, "owner"},
		"virtual machine by a": {"GET", "/metadata/identity/oauth2/token?client_id=abc&resource=" + resource, "", "Metadata: True", Owner, "abc"},
		"client secret":        {"POST", "/tenant/oauth2/v2.0/token", secret + "&client_id=receiver", "Host: [::1]:8421", Receiver, "receiver"},
	} {
		status, fields := ask(t, i, c.method, c.target, c.form, c.header)
		if status != http.StatusOK || fields["token_type"] != "Bearer" {
			t.Errorf("%s: got %d %v", name, status, fields)
			continue
		}
		got, role := claims(t, i, fields["access_token"])
		if role != c.role || got.Subject != c.subject || !got.Audience.Contains(resource) {
			t.Errorf("%s: got %+v and the role %s", name, got, role)
		}
	}
}

func TestTheRestIsRefused(t *testing.T) {
	t.Parallel()
	i := open(t, t.TempDir())
	const form = "grant_type=client_credentials&client_id=a&scope=r%2F.default"
	for name, c := range map[string]struct {
		method, target, form, header string
		status                       int
		word                         string
	}{
		"no secret":       {"GET", "/msi/token?resource=r", "", "", 401, "invalid_client"},
		"wrong secret":    {"GET", "/msi/token?resource=r", "", "X-IDENTITY-HEADER: x", 401, "invalid_client"},
		"no resource":     {"GET", "/msi/token", "", "X-IDENTITY-HEADER: " + i.Secret(), 400, "invalid_resource"},
		"no metadata":     {"GET", "/metadata/identity/oauth2/token?resource=r", "", "", 400, "invalid_request"},
		"other host":      {"GET", "/metadata/identity/oauth2/token?resource=r", "", "Host: rebound.example", 403, "access_denied"},
		"by a proxy":      {"GET", "/metadata/identity/oauth2/token?resource=r", "", "X-Forwarded-For: 10.0.0.1", 403, "access_denied"},
		"other grant":     {"POST", "/t/oauth2/v2.0/token", "grant_type=password", "", 400, "unsupported_grant_type"},
		"bogus secret":    {"POST", "/t/oauth2/v2.0/token", form + "&client_secret=x", "", 401, "invalid_client"},
		"no scope":        {"POST", "/t/oauth2/v2.0/token", "grant_type=client_credentials&client_secret=" + i.Secret(), "", 400, "invalid_scope"},
		"secret in query": {"POST", "/t/oauth2/v2.0/token?client_secret=" + i.Secret(), form, "", 401, "invalid_client"},
	} {
		status, fields := ask(t, i, c.method, c.target, c.form, c.header)
		if status != c.status || fields["error"] != c.word || fields["access_token"] != nil {
			t.Errorf("%s: got %d %v, want %d %s", name, status, fields, c.status, c.word)
		}
	}
}

func TestPagesOfOtherSitesGetNoToken(t *testing.T) {
	t.Parallel()
	i := open(t, t.TempDir())
	const target = "/metadata/identity/oauth2/token?resource=r"
	for header, want := range map[string]int{
		"Sec-Fetch-Site: cross-site":    http.StatusForbidden,
		"Sec-Fetch-Site: same-site":     http.StatusForbidden, // another port of this machine
		"Origin: https://evil.example":  http.StatusForbidden,
		"Origin: null":                  http.StatusForbidden,
		"Sec-Fetch-Site: none":          http.StatusOK, // typed into the address bar
		"Sec-Fetch-Site: same-origin":   http.StatusOK,
		"Origin: http://localhost:8421": http.StatusOK,
	} {
		if status, fields := ask(t, i, "GET", target, "", "Metadata: true", header); status != want {
			t.Errorf("%s: got %d %v, want %d", header, status, fields, want)
		}
	}
}

func TestDiscoveryLeadsBackHere(t *testing.T) {
	t.Parallel()
	i := open(t, t.TempDir())
	status, fields := ask(t, i, "GET", "https://localhost:8421/tenant/v2.0/.well-known/openid-configuration", "")
	if status != http.StatusOK || fields["issuer"] != "https://localhost:8421/tenant/v2.0" || fields["token_endpoint"] != "https://localhost:8421/tenant/oauth2/v2.0/token" {
		t.Errorf("got %d %v", status, fields)
	}
	keys, _ := fields["jwks_uri"].(string)
	if status, fields := ask(t, i, "GET", keys, ""); status != http.StatusOK || fields["keys"] == nil {
		t.Errorf("keys: got %d %v", status, fields)
	}
}

func TestTheKeyOutlivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second, other := open(t, dir), open(t, dir), open(t, t.TempDir())
	_, fields := ask(t, first, "GET", "/metadata/identity/oauth2/token?resource=r", "", "Metadata: true")
	claims(t, second, fields["access_token"])
	if first.Secret() != second.Secret() || len(first.Secret()) < 20 {
		t.Errorf("secrets: got %q, then %q", first.Secret(), second.Secret())
	}
	if other.Secret() == first.Secret() {
		t.Error("two directories have the same secret")
	}
	if info, err := os.Stat(filepath.Join(dir, keyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: got %v, %v", info, err)
	}
}

func TestABrokenKeyFileIsNamed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, keyFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), keyFile) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
