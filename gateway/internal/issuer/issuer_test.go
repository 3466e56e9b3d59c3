package issuer

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/crosstown-mq/crosstown/core"
)

var start = time.Unix(1_800_000_000, 0)

// key is a private key with the way to sign with it.
type key struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   any
	public    any
}

func newKey(tb testing.TB, id string) key {
	tb.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key{id, jose.ES256, private, &private.PublicKey}
}

func (k key) jwk() jose.JSONWebKey { return jose.JSONWebKey{Key: k.public, KeyID: k.id, Use: "sig"} }

func set(keys ...key) *jose.JSONWebKeySet {
	s := &jose.JSONWebKeySet{}
	for _, k := range keys {
		s.Keys = append(s.Keys, k.jwk())
	}
	return s
}

// sign makes a token of claims over good ones; a nil claim takes a good one away.
func (k key) sign(tb testing.TB, claims map[string]any) string {
	tb.Helper()
	all := map[string]any{
		"iss": "https://issuer.example", "aud": "https://servicebus.azure.net", "sub": "somebody",
		"iat": start.Unix(), "nbf": start.Unix(), "exp": start.Add(time.Hour).Unix(), "roles": []string{"admin"},
	}
	for name, v := range claims {
		if all[name] = v; v == nil {
			delete(all, name)
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: jose.JSONWebKey{Key: k.private, KeyID: k.id}}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

func example(keys *jose.JSONWebKeySet) Issuer {
	return Issuer{
		Name:      "https://issuer.example",
		Keys:      keys,
		Audiences: []string{"https://servicebus.azure.net", "https://servicebus.azure.net/"},
		Leeway:    time.Minute,
		Rules: []Rule{
			{"roles", "admin", core.AllRights},
			{"roles", "writer", core.Send},
			{"scp", "read", core.Listen},
			{"sub", "reader", core.Listen},
			{"realm_access.roles", "nested", core.Listen},
			{"https://claims.example/role", "dotted", core.Send},
		},
	}
}

func newSet(tb testing.TB, now *time.Time, issuers ...Issuer) *Set {
	tb.Helper()
	s, err := New(issuers, Options{Now: func() time.Time { return *now }})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestEveryKindOfKeyIsTaken(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []key{
		newKey(t, "es"), {"rs", jose.RS256, rsaKey, &rsaKey.PublicKey}, {"ps", jose.PS384, rsaKey, &rsaKey.PublicKey}, {"ed", jose.EdDSA, edPrivate, edPublic},
	} {
		now := start
		g, err := newSet(t, &now, example(set(k))).Verify(t.Context(), k.sign(t, nil))
		want := core.Grant{Policy: "https://issuer.example somebody", Rights: core.AllRights, Expires: start.Add(time.Hour + time.Minute)}
		if err != nil || g != want {
			t.Errorf("%s: got %+v, %v, want %+v", k.id, g, err, want)
		}
	}
}

func TestClaimsBecomeRights(t *testing.T) {
	t.Parallel()
	k, now := newKey(t, "k"), start
	s := newSet(t, &now, example(set(k)))
	for name, c := range map[string]struct {
		claims map[string]any
		want   core.Right
	}{
		"one role":          {map[string]any{"roles": []string{"x", "writer"}}, core.Send},
		"role as text":      {map[string]any{"roles": "writer"}, core.Send},
		"words only in scp": {map[string]any{"roles": "writer admin", "scp": "write read"}, core.Listen},
		"several":           {map[string]any{"roles": []string{"writer"}, "sub": "reader"}, core.Send | core.Listen},
		"nested":            {map[string]any{"roles": nil, "realm_access": map[string]any{"roles": []string{"nested"}}}, core.Listen},
		"name with dots":    {map[string]any{"roles": nil, "https://claims.example/role": "dotted"}, core.Send},
		"none":              {map[string]any{"roles": []string{"other"}}, 0},
		"other type":        {map[string]any{"roles": 1, "scp": true}, 0},
		"case counts":       {map[string]any{"roles": []string{"Admin"}}, 0},
	} {
		g, err := s.Verify(t.Context(), k.sign(t, c.claims))
		if refused := strings.HasPrefix(core.TextOf(err), "InvalidToken: None of the token's claims"); refused != (c.want == 0) || g.Rights != c.want || g.Scope != "" {
			t.Errorf("%s: got %+v, %v, want %v", name, g, err, c.want)
		}
	}
}

func TestRefusalsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	k, stranger, now := newKey(t, "k"), newKey(t, "k"), start
	s := newSet(t, &now, example(set(k)))
	good := k.sign(t, nil)
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."
	point, err := k.public.(*ecdsa.PublicKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	shared := key{"k", jose.HS256, point, nil} // signed with what everybody knows
	for name, c := range map[string]struct{ token, text string }{
		"empty":            {"", "MalformedToken: "},
		"no token":         {"eyJh", "MalformedToken: "},
		"too long":         {good + strings.Repeat("x", maxToken), "MalformedToken: "},
		"no signature":     {none, "MalformedToken: "},
		"shared secret":    {shared.sign(t, nil), "MalformedToken: "},
		"other issuer":     {k.sign(t, map[string]any{"iss": "https://other.example"}), "InvalidIssuer: This gateway does not accept tokens of the issuer 'https://other.example'. Ask its operator to configure the issuer."},
		"no issuer":        {k.sign(t, map[string]any{"iss": nil}), "InvalidIssuer: "},
		"forged":           {stranger.sign(t, nil), "InvalidSignature: "},
		"other claims":     {parts[0] + "." + strings.Split(k.sign(t, map[string]any{"sub": "admin"}), ".")[1] + "." + parts[2], "InvalidSignature: "},
		"unknown key":      {newKey(t, "other").sign(t, nil), "InvalidSignature: "},
		"expired":          {k.sign(t, map[string]any{"exp": start.Add(-time.Minute).Unix()}), "ExpiredToken: The token is expired. Expiration time: 2027-01-15T07:59:00Z."},
		"no expiry":        {k.sign(t, map[string]any{"exp": nil}), "InvalidToken: The token never expires"},
		"not yet valid":    {k.sign(t, map[string]any{"nbf": start.Add(61 * time.Second).Unix()}), "InvalidToken: The token is not valid before 2027-01-15T08:01:01Z."},
		"from the future":  {k.sign(t, map[string]any{"iat": start.Add(2 * time.Minute).Unix()}), "InvalidToken: "},
		"other audience":   {k.sign(t, map[string]any{"aud": []string{"https://vault.azure.net"}}), "InvalidAudience: The token is for 'https://vault.azure.net', not for 'https://servicebus.azure.net' or"},
		"no audience":      {k.sign(t, map[string]any{"aud": nil}), "InvalidAudience: "},
		"claims of a type": {k.sign(t, map[string]any{"exp": "soon"}), "MalformedToken: "},
	} {
		g, err := s.Verify(t.Context(), c.token)
		if !errors.Is(err, core.Unauthorized) || !strings.HasPrefix(core.TextOf(err), c.text) || g != (core.Grant{}) {
			t.Errorf("%s: got %+v, %v, want a refusal that begins %q", name, g, err, c.text)
		}
	}
}

func TestClocksMayDifferByTheLeeway(t *testing.T) {
	t.Parallel()
	k, now := newKey(t, "k"), start
	s := newSet(t, &now, example(set(k)))
	for _, claims := range []map[string]any{
		{"exp": start.Add(-59 * time.Second).Unix()},
		{"nbf": start.Add(59 * time.Second).Unix(), "iat": start.Add(59 * time.Second).Unix()},
	} {
		if g, err := s.Verify(t.Context(), k.sign(t, claims)); err != nil || !g.Expires.After(now) {
			t.Errorf("%v: got %+v, %v", claims, g, err)
		}
	}
}

// provider is an issuer with discovery whose keys can be changed.
type provider struct {
	*httptest.Server
	keys  atomic.Pointer[jose.JSONWebKeySet] // nil: it is out of order
	calls atomic.Int32
	claim string // what it says its name is, if not its URL
}

func newProvider(t *testing.T, keys *jose.JSONWebKeySet) *provider {
	p := &provider{}
	p.keys.Store(keys)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /tenant/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		name := p.URL + "/tenant"
		if p.claim != "" {
			name = p.claim
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": name, "jwks_uri": p.URL + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.calls.Add(1)
		if keys := p.keys.Load(); keys != nil {
			_ = json.NewEncoder(w).Encode(keys)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) issuer() Issuer {
	i := example(nil)
	i.Name = p.URL + "/tenant"
	return i
}

func (p *provider) sign(t *testing.T, k key) string {
	return k.sign(t, map[string]any{"iss": p.URL + "/tenant"})
}

func TestKeysAreDiscoveredAndFollowedWhenTheyChange(t *testing.T) {
	t.Parallel()
	first, second, now := newKey(t, "1"), newKey(t, "2"), start
	p := newProvider(t, set(first))
	s := newSet(t, &now, p.issuer())
	if p.calls.Load() != 0 {
		t.Error("keys were fetched before a token came")
	}
	for range 3 {
		if _, err := s.Verify(t.Context(), p.sign(t, first)); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.calls.Load(); got != 1 {
		t.Errorf("fetched %d times, want once", got)
	}

	p.keys.Store(set(first, second))
	for range 5 { // too soon: strangers must not make us ask at will
		if _, err := s.Verify(t.Context(), p.sign(t, second)); !errors.Is(err, core.Unauthorized) {
			t.Errorf("new key, too soon: got %v", err)
		}
	}
	now = now.Add(refetchAfter)
	if _, err := s.Verify(t.Context(), p.sign(t, second)); err != nil {
		t.Errorf("new key: got %v", err)
	}
	if got := p.calls.Load(); got != 2 {
		t.Errorf("fetched %d times, want twice", got)
	}

	p.keys.Store(set(second)) // the first is withdrawn
	now = now.Add(staleAfter - time.Minute)
	token := first.sign(t, map[string]any{"iss": p.URL + "/tenant", "exp": now.Add(time.Hour).Unix()})
	if _, err := s.Verify(t.Context(), token); err != nil {
		t.Errorf("before the keys are stale: got %v", err)
	}
	now = now.Add(time.Minute)
	if _, err := s.Verify(t.Context(), token); !errors.Is(err, core.Unauthorized) {
		t.Errorf("withdrawn key: got %v", err)
	}
}

func TestKeysThatCannotBeFetchedDelayButDoNotRefuse(t *testing.T) {
	t.Parallel()
	k, now := newKey(t, "1"), start
	p := newProvider(t, nil)
	s := newSet(t, &now, p.issuer())
	for range 3 {
		if _, err := s.Verify(t.Context(), p.sign(t, k)); !errors.Is(err, core.Busy) {
			t.Errorf("got %v, want %v", err, core.Busy)
		}
	}
	if got := p.calls.Load(); got != 1 {
		t.Errorf("asked %d times, want once", got)
	}
	p.keys.Store(set(k))
	now = now.Add(refetchAfter)
	if _, err := s.Verify(t.Context(), p.sign(t, k)); err != nil {
		t.Errorf("when it answers again: got %v", err)
	}
	p.keys.Store(nil)
	now = now.Add(staleAfter)
	token := k.sign(t, map[string]any{"iss": p.URL + "/tenant", "exp": now.Add(time.Hour).Unix()})
	if _, err := s.Verify(t.Context(), token); err != nil {
		t.Errorf("with keys that are held: got %v", err)
	}
}

func TestADiscoveryDocumentOfAnotherIssuerIsNotFollowed(t *testing.T) {
	t.Parallel()
	k, now := newKey(t, "1"), start
	p := newProvider(t, set(k))
	p.claim = "https://other.example"
	if _, err := newSet(t, &now, p.issuer()).Verify(t.Context(), p.sign(t, k)); !errors.Is(err, core.Busy) {
		t.Errorf("got %v, want %v", err, core.Busy)
	}
	if p.calls.Load() != 0 {
		t.Error("its keys were fetched")
	}
}

func TestAFileOfKeysIsReadAgainForANewKey(t *testing.T) {
	t.Parallel()
	first, second, now := newKey(t, ""), newKey(t, "2"), start
	path := filepath.Join(t.TempDir(), "keys.json")
	write := func(keys ...key) {
		data, err := json.Marshal(set(keys...))
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	i := example(nil)
	i.File = path
	s := newSet(t, &now, i)
	if _, err := s.Verify(t.Context(), first.sign(t, nil)); err != nil {
		t.Errorf("without key ids: got %v", err)
	}
	write(second)
	if _, err := s.Verify(t.Context(), second.sign(t, nil)); err != nil {
		t.Errorf("new key: got %v", err)
	}
}

func TestAFileWithoutKeysStopsTheStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys.json")
	for name, text := range map[string]string{
		"empty": `{}`, "not JSON": `keys`, "a secret": `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`, "unknown kind": `{"keys":[{"kty":"new"}]}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New([]Issuer{{Name: "i", File: path}}, Options{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error that names the file", name, err)
		}
	}
	if _, err := New([]Issuer{{Name: "i", File: path + ".missing"}}, Options{}); err == nil {
		t.Error("a missing file is accepted")
	}
}

func FuzzVerify(f *testing.F) {
	k, now := newKey(f, "k"), start
	s := newSet(f, &now, example(set(k)))
	stranger := newKey(f, "k")
	f.Add(stranger.sign(f, nil))
	f.Add("eyJhbGciOiJFUzI1NiJ9.e30.AAAA")
	f.Fuzz(func(t *testing.T, token string) {
		if g, err := s.Verify(t.Context(), token); !errors.Is(err, core.Unauthorized) || g != (core.Grant{}) || core.TextOf(err) == "" {
			t.Fatalf("got %+v, %v, want a refusal with a text", g, err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	k, now := newKey(b, "k"), start
	s := newSet(b, &now, example(set(k)))
	token := k.sign(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}
