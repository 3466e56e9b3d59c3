package auth

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

var start = time.Now().Truncate(time.Second)

var longKey = strings.Repeat("x", maxToken+1)

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	return New(Options{
		Policies: []core.AccessRule{
			{Name: "root", PrimaryKey: "SAS_KEY_VALUE", SecondaryKey: "second", Rights: core.AllRights},
			{Name: "sender", PrimaryKey: "send key", Rights: core.Send},
			{Name: "long", PrimaryKey: longKey, Rights: core.AllRights},
		},
		Entities: func(_ context.Context, name string) (core.Entity, error) {
			switch name {
			case "orders":
				return withRule("local", "outer", core.Listen), nil
			case "orders/eu":
				return withRule("local", "inner", core.Send), nil
			case "broken":
				return core.Entity{}, core.Refuse(core.Busy, "no store")
			}
			return core.Entity{}, core.NotFound
		},
		Hosts: []string{"bus.example.com"},
	})
}

func withRule(name, key string, rights core.Right) core.Entity {
	e := core.Entity{Settings: core.DefaultSettings(core.Queue)}
	e.Settings.AuthorizationRules = []core.AccessRule{{Name: name, PrimaryKey: key, Rights: rights}}
	return e
}

func TestTokensOfEverySDKAreAccepted(t *testing.T) {
	t.Parallel()
	// The vectors of the Service Bus wire contract: key SAS_KEY_VALUE.
	for _, v := range []struct{ sr, sig string }{
		{"amqps%3a%2f%2flocalhost%2fqueue1", "AUMeHCx6ULk+sHQYfgyTFFwkyp/nJFpn8boZPUlO7CU="},
		{"sb%3A%2F%2Flocalhost%3A5672%2Fqueue1", "qwyKqJyzO6Y40iemcYjjN7Iwjo/n76S3+2zOjjByTFM="},
		{"http%3a%2f%2flocalhost%2fqueue1", "jAzFLutc/4lN7pCxrEWtyrFU1y8E9fa77bbngNn+YeI="},
	} {
		escaped := url.QueryEscape(v.sig)
		for _, token := range []string{
			"SharedAccessSignature sr=" + v.sr + "&sig=" + escaped + "&se=1893456000&skn=root",
			"sharedaccesssignature sig=" + escaped + "&se=1893456000&skn=root&sr=" + v.sr,
			"se=1893456000&skn=root&sr=" + v.sr + "&sig=" + v.sig,
		} {
			g, err := newAuthority(t).Token(t.Context(), nil, token, "amqp://other:1/Queue1/$management")
			if err != nil {
				t.Errorf("%s: %v", token, err)
				continue
			}
			want := core.Grant{Policy: "root", Rights: core.AllRights, Scope: "queue1", Expires: time.Unix(1893456000, 0)}
			if g != want {
				t.Errorf("%s: got %+v, want %+v", token, g, want)
			}
		}
	}
}

func TestTokenCoversItsResourceAndBelow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		resource, audience string
		ok                 bool
	}{
		{"sb://host/", "sb://host/q", true},
		{"sb://host", "", true},
		{"sb://host/q", "sb://host:5671/Q/", true},
		{"sb://host/q/", "q/$DeadLetterQueue/$management", true},
		{"https://host/q?api-version=2021-05", "https://host/q?api-version=2021-05", true},
		{"localhost:5671", "amqps://localhost:5671/q", true},
		{"localhost", "amqps://localhost/q", true},
		{"bus.example.com", "amqps://bus.example.com/q", true},
		{"BUS.example.com/q", "amqps://bus.example.com/q", true},
		{"q", "sb://host/q", true},
		{"my.queue", "sb://host/my.queue", true},
		{"my.queue", "sb://host/other", false},
		{"sb://host/q", "sb://host/q2", false},
		{"sb://host/q", "sb://host/", false},
		{"sb://host/q/$management", "sb://host/q", false},
		{"sb://host/a/b", "sb://host/a", false},
	} {
		token := SignSAS(c.resource, "root", "SAS_KEY_VALUE", start.Add(time.Hour))
		_, err := newAuthority(t).Token(t.Context(), nil, token, c.audience)
		if c.ok && err != nil || !c.ok && !strings.HasPrefix(core.TextOf(err), "InvalidAudience: ") {
			t.Errorf("token for %q, audience %q: got %v, want accepted %v", c.resource, c.audience, err, c.ok)
		}
	}
}

func TestTokenRefusalsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := SignSAS("sb://host/q", "root", "SAS_KEY_VALUE", start.Add(time.Hour))
	for name, c := range map[string]struct{ token, text string }{
		"none":            {"  ", "MissingToken: "},
		"another scheme":  {"Basic abc", "MalformedToken: "},
		"no signature":    {"SharedAccessSignature sr=a&se=1&skn=root", `MalformedToken: The token is not a shared access signature: "sig" is missing.`},
		"twice":           {good + "&se=1", "MalformedToken: "},
		"bad expiry":      {strings.Replace(good, "se=1", "se=x", 1), "MalformedToken: "},
		"negative expiry": {strings.Replace(good, "se=1", "se=-", 1), "MalformedToken: "},
		"path in a query": {SignSAS("sb://localhost?/orders", "root", "SAS_KEY_VALUE", start.Add(time.Hour)), "MalformedToken: The token's resource 'sb://localhost?/orders' has a question mark before its path."},
		"no such host":    {SignSAS("sb://localhost;orders", "root", "SAS_KEY_VALUE", start.Add(time.Hour)), "MalformedToken: The token's resource 'sb://localhost;orders' has a host with a character that is not allowed in host names."},
		"no such port":    {SignSAS("sb://localhost:orders", "root", "SAS_KEY_VALUE", start.Add(time.Hour)), "MalformedToken: The token's resource 'sb://localhost:orders' has a port that is not a number."},
		"bad escape":      {"sr=%zz&sig=a&se=1&skn=root", "MalformedToken: "},
		"short signature": {"sr=a&sig=AAAA&se=1&skn=root", "MalformedToken: "},
		"oversize":        {good + strings.Repeat("x", maxToken), "MalformedToken: "},
		"tampered":        {strings.Replace(good, "host", "h0st", 1), "InvalidSignature: The token has an invalid signature."},
		"later expiry":    {strings.Replace(good, "se=1", "se=2", 1), "InvalidSignature: The token has an invalid signature."},
		"wrong key":       {SignSAS("sb://host/q", "root", "guess", start.Add(time.Hour)), "InvalidSignature: The token has an invalid signature."},
		"unknown policy":  {SignSAS("sb://host/q", "nobody", "SAS_KEY_VALUE", start.Add(time.Hour)), "InvalidSignature: The token has an invalid signature."},
		"no second key":   {SignSAS("sb://host/q", "sender", "", start.Add(time.Hour)), "InvalidSignature: "},
		"expired":         {SignSAS("sb://host/q", "root", "SAS_KEY_VALUE", start), "ExpiredToken: The token is expired. Expiration time: " + start.UTC().Format(time.RFC3339) + "."},
	} {
		_, err := newAuthority(t).Token(t.Context(), nil, c.token, "")
		if !errors.Is(err, core.Unauthorized) || !strings.HasPrefix(core.TextOf(err), c.text) {
			t.Errorf("%s: got %v, want a refusal that begins %q", name, err, c.text)
		}
	}
}

// Policies differ from one namespace and entity to another.
func TestRefusalsDoNotRevealEntitiesToStrangers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ resource, policy string }{
		{"sb://host/", "root"}, {"sb://host/", "nobody"}, {"sb://host/orders", "local"}, {"sb://host/orders", "nobody"}, {"sb://host/none", "local"},
	} {
		_, err := newAuthority(t).Token(t.Context(), nil, SignSAS(c.resource, c.policy, "guess", start.Add(time.Hour)), "")
		if text := core.TextOf(err); text != "InvalidSignature: The token has an invalid signature." {
			t.Errorf("%s at %s: got %q", c.policy, c.resource, text)
		}
	}
}

func TestAResourceWithoutAHostOrEntityIsMalformed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ resource, scope string }{ // "!": refused
		{"sb://orders", "!"},
		{"sb://Orders/", "!"},
		{"sb://orders?x", "!"}, // an entity, and no host
		{"sb://other", ""},
		{"sb://orders:5671", ""},
		{"sb://bus.example.com/", ""},
		{"sb://localhost", ""}, // hosts
		{`sb://host\orders`, "!"},
		{`sb:\\host\orders`, "!"},
		{"sb://host/orders\n", "!"},
		{"/", "!"},
		{"//", "!"},
		{"///", "!"},
		{"?", "!"},
		{"?x=1", "!"},
		{"sb://", "!"},
		{"sb:///", "!"},
		{"sb://?x", "!"},
		{"://host", "!"},
		{"a/b://host", "!"},
		{"sb://host%2forders", "!"}, // the entity would be lost in the host
		{"sb://localhost%2Forders/", "!"},
		{"localhost%2forders", "localhost/orders"},
		{"sb://host#orders", "!"},
		{"sb://orders@host", "!"},
		{"sb://the host/", "!"},
		{"%2f", "!"},
		{"%2F%2f", "!"},
		{"sb%3a%2f%2fhost%2forders", "sb://host/orders"}, // encoded twice, which covers nothing
		{"sb://[fe80::1%25eth0]:5671/orders", "orders"},
		{"sb://host/orders/../other", "orders/../other"}, // no entity has such a name
		{"sb://host/./orders", "./orders"},
		{"sb://host/ORDERS//", "orders"},
		{"sb://host/%6frders", "orders"},
		{"sb://host/orders?x=/other", "orders"},
		{"sb://host/\u212a", "k"}, // the Kelvin sign, whose lower case is a letter
		{"sb://host/o\u0301rders", "o\u0301rders"},
		{"orders", "orders"},
		{"/orders/", "orders"},
		{"localhost:orders", "localhost:orders"}, // of another broker, and no host
		{"localhost:5671", ""},
		{"localhost:5671/orders", "orders"},
		{"sb://localhost?/orders", "!"},
		{"sb://localhost;orders", "!"},
		{"sb://localhost:orders", "!"},
		{"sb:///orders", "orders"},
		{"sb://host//orders", "orders"},
		{"sb://host/orders/x://y", "orders/x://y"},
	} {
		g, err := newAuthority(t).Token(t.Context(), nil, SignSAS(c.resource, "root", "SAS_KEY_VALUE", start.Add(time.Hour)), "")
		if c.scope == "!" {
			if !errors.Is(err, core.Unauthorized) || !strings.HasPrefix(core.TextOf(err), "MalformedToken: The token's resource") {
				t.Errorf("%q: got scope %q, %v, want a refusal", c.resource, g.Scope, err)
			}
			continue
		}
		if err != nil || g.Scope != c.scope {
			t.Errorf("%q: got scope %q, %v, want %q", c.resource, g.Scope, err, c.scope)
		}
	}
}

func TestEntityRulesGiveRightsOnTheEntityAndBelowOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		resource, key string
		rights        core.Right // 0: refused
	}{
		{"sb://host/orders", "outer", core.Listen},
		{"sb://host/ORDERS/$DeadLetterQueue", "outer", core.Listen},
		{"sb://host/orders/Subscriptions/eu/$DeadLetterQueue", "outer", core.Listen},
		{"sb://host/orders/messages/head", "outer", core.Listen}, // HTTP clients sign what they call
		{"sb://host/orders/messages", "outer", core.Listen},
		{"sb://host/orders/us", "outer", 0}, // another entity, even while there is none
		{"sb://host/orders/eu/messages/head", "outer", 0},
		{"sb://host/orders/eu/$management", "inner", core.Send},
		{"sb://host/orders/eu", "outer", 0}, // the longest name that exists decides
		{"sb://host/orders", "inner", 0},
		{"sb://host/", "outer", 0},
		{"sb://host/other", "outer", 0},
		{"sb://host/$cbs", "outer", 0},
		{"sb://host/" + strings.Repeat("a/", 20) + "a", "outer", 0},
	} {
		g, err := newAuthority(t).Token(t.Context(), nil, SignSAS(c.resource, "local", c.key, start.Add(time.Hour)), "")
		if g.OfEntity != (c.rights != 0) {
			t.Errorf("%s with key %q: got OfEntity %v", c.resource, c.key, g.OfEntity)
		}
		if g.Rights != c.rights || (err == nil) != (c.rights != 0) {
			t.Errorf("%s with key %q: got %v, %v, want rights %v", c.resource, c.key, g, err, c.rights)
		}
	}
}

func TestTokenReportsAStoreThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	_, err := newAuthority(t).Token(t.Context(), nil, SignSAS("sb://host/broken", "local", "k", start.Add(time.Hour)), "")
	if !errors.Is(err, core.Busy) {
		t.Fatalf("got %v, want %v", err, core.Busy)
	}
}

func TestKeyGivesThePolicysRightsOnTheNamespace(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for _, key := range []string{"SAS_KEY_VALUE", "second"} {
		if g, err := a.Key(t.Context(), nil, "root", key); err != nil || g != (core.Grant{Policy: "root", Rights: core.AllRights}) {
			t.Errorf("key %q: got %+v, %v", key, g, err)
		}
	}
	for _, c := range [][2]string{{"root", "wrong"}, {"root", ""}, {"sender", ""}, {"nobody", "SAS_KEY_VALUE"}, {"local", "outer"}, {"long", longKey}} {
		if g, err := a.Key(t.Context(), nil, c[0], c[1]); !errors.Is(err, core.Unauthorized) || g.Rights != 0 {
			t.Errorf("policy %q, key %q: got %+v, %v, want %v", c[0], c[1], g, err, core.Unauthorized)
		}
	}
}

func BenchmarkToken(b *testing.B) {
	a := New(Options{Policies: []core.AccessRule{{Name: "root", PrimaryKey: "k", Rights: core.AllRights}}})
	token := SignSAS("sb://host/q", "root", "k", time.Now().Add(time.Hour))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Token(b.Context(), nil, token, "sb://host/q"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestASignatureTellsWhoseKeyMadeIt(t *testing.T) {
	t.Parallel()
	policies := []core.AccessRule{{Name: "root", PrimaryKey: "one", SecondaryKey: "two", Rights: core.Listen}, {Name: "other", PrimaryKey: "three", Rights: core.Send}}
	for _, c := range []struct {
		policy, key string
		want        bool
	}{{"root", "one", true}, {"root", "two", true}, {"other", "three", true}, {"root", "three", false}, {"other", "one", false}, {"unknown", "one", false}, {"other", "", false}} {
		s, web, err := ParseSignature(SignSAS("sb://any/q", c.policy, c.key, start.Add(-time.Hour))) // whether or not it has expired
		if err != nil || web || s.Policy != c.policy {
			t.Errorf("%s: got %q, %v, %v", c.policy, s.Policy, web, err)
		}
		if got := s.SignedBy(policies) != 0; got != c.want {
			t.Errorf("%s by %q: got %v", c.policy, c.key, got)
		}
	}
	for token, want := range map[string]bool{"Bearer x": true, "eyJhbGciOi.e30.sig": true, "nonsense": false, "": false} {
		if s, web, err := ParseSignature(token); web != want || (err != nil) == web || s.Policy != "" {
			t.Errorf("%q: got %v, %v", token, web, err)
		}
	}
}
