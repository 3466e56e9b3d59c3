package auth

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func FuzzToken(f *testing.F) {
	f.Add(SignSAS("sb://host/q", "root", "SAS_KEY_VALUE", start.Add(time.Hour)), "q")
	f.Add("SharedAccessSignature sig=a&se=9223372036854775807&skn=&sr=%2f", "")
	f.Add("sr=&sr=", "sb://")
	a := New(Options{
		Policies: []core.AccessRule{{Name: "root", PrimaryKey: "not in the corpus", Rights: core.AllRights}},
	})
	f.Fuzz(func(t *testing.T, token, audience string) {
		g, err := a.Token(t.Context(), nil, token, audience)
		if !errors.Is(err, core.Unauthorized) || g != (core.Grant{}) || core.TextOf(err) == "" {
			t.Fatalf("token %q: got %+v, %v, want a refusal with a text", token, g, err)
		}
	})
}

// What is signed is accepted or malformed, and a token for a path is none for the namespace.
func FuzzSignedTokensVerify(f *testing.F) {
	for _, resource := range []string{
		"sb://host:5671/a b/c", "sb://orders", `sb://host\orders`, "//", "?", "%2f", "://", "sb://host%2forders", "sb://host//orders//", "sb://host/../orders",
		"sb://host/%2e%2e/x://y", "SB://HOST/Orders?x#y", "sb://host/\u212aelvin", "localhost/orders", "localhost:1", "sb://[::1]/orders", "/orders", "orders%3fx",
	} {
		f.Add(resource, "policy & name", "k=y;")
	}
	f.Fuzz(func(t *testing.T, resource, policy, key string) {
		if resource == "" || policy == "" || key == "" || len(resource)+len(policy) > 1000 {
			t.Skip()
		}
		a := New(Options{
			Policies: []core.AccessRule{{Name: policy, PrimaryKey: key, Rights: core.Send}},
		})
		g, err := a.Token(t.Context(), nil, SignSAS(resource, policy, key, start.Add(time.Minute)), "")
		if strings.HasPrefix(core.TextOf(err), "MalformedToken: The token's resource") && errors.Is(err, core.Unauthorized) && g == (core.Grant{}) {
			return
		}
		if err != nil || g.Rights != core.Send {
			t.Fatalf("resource %q, policy %q: got %+v, %v", resource, policy, g, err)
		}
		path, _, _ := strings.Cut(resource, "?")
		if _, after, ok := strings.Cut(path, "://"); ok {
			path = after
		}
		if path, err = url.PathUnescape(path); err != nil {
			return
		}
		// Only a resource that is a host and nothing else is for the whole namespace.
		if _, below, _ := strings.Cut(strings.Trim(path, "/"), "/"); g.Scope == "" && strings.Trim(below, "/") != "" {
			t.Fatalf("resource %q: the token is for the whole namespace", resource)
		}
	})
}

func FuzzParseConnectionString(f *testing.F) {
	f.Add("Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseConnectionString(s)
		if err == nil && (c.Host == "" || c.Signature == "" && (c.Key == "" || c.KeyName == "")) {
			t.Fatalf("%q: accepted without a host or a credential: %+v", s, c)
		}
	})
}
