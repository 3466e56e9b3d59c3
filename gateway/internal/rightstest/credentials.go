package rightstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/crosstown-mq/crosstown/core/auth"
)

func writeConfig(t *testing.T) (path string, issuer jose.Signer) {
	t.Helper()
	dir := t.TempDir()
	issuer, public := newSigner(t)
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(dir, "keys.json")
	path = filepath.Join(dir, "crosstown.yaml")
	for file, text := range map[string]string{keyFile: string(keys), path: strings.ReplaceAll(config, "KEYS", keyFile)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path, issuer
}

// Every key begins with "key-of-", so that a test notices a key that the client must not see.
const config = `
namespace: home
issuers:
  - {issuer: partner, jwks: KEYS, audiences: [crosstown], owner: [role=owner], sender: [role=sender], receiver: [role=receiver]}
explain: [{entity: orders}]
policies:
  - {name: all, key: key-of-all, secondary-key: key-of-all-2, rights: Manage}
  - {name: send, key: key-of-send, rights: Send}
  - {name: listen, key: key-of-listen, rights: Listen}
  - {name: both, key: key-of-both, rights: "Send,Listen"}
queues:
  - name: orders
    lock-duration: 5m
    policies:
      - {name: own-send, key: key-of-orders-send, rights: Send}
      - {name: own-listen, key: key-of-orders-listen, rights: Listen}
      - {name: own-both, key: key-of-orders-both, rights: "Send,Listen"}
      - {name: own-all, key: key-of-orders-all, rights: Manage}
  - {name: orders/express, policies: [{name: own-all, key: key-of-express-all, rights: Manage}]}
  - {name: orders2, policies: [{name: own-all, key: key-of-orders2-all, rights: Manage}]}
  - {name: orders/plain}
  - {name: sessions, requires-session: true, policies: [{name: own-listen, key: key-of-sessions-listen, rights: Listen}]}
topics:
  - name: news
    policies:
      - {name: own-send, key: key-of-news-send, rights: Send}
      - {name: own-listen, key: key-of-news-listen, rights: Listen}
      - {name: own-all, key: key-of-news-all, rights: Manage}
    subscriptions: [{name: s}]
namespaces:
  - name: other
    policies: [{name: others, key: key-of-others, rights: Manage}, {name: others-send, key: key-of-others-send, rights: Send}]
    queues:
      - {name: orders, lock-duration: 5m, policies: [{name: own-all, key: key-of-others-orders, rights: Manage}]}
      - {name: orders/express}
      - {name: orders2}
      - {name: orders/plain}
      - {name: sessions, requires-session: true}
    topics: [{name: news, subscriptions: [{name: s}]}]
    explain: [{entity: orders}]
`

func newSigner(t *testing.T) (jose.Signer, jose.JSONWebKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return signer, jose.JSONWebKey{Key: &key.PublicKey, KeyID: "1"}
}

// Hosts that select a namespace, and one that selects none.
const (
	homeHost  = "home.localhost"
	otherHost = "other.localhost"
	anyHost   = "localhost"
)

const (
	all      = "Send, Listen, Manage"
	sendOnly = "Send"
	listen   = "Listen"
	both     = "Send, Listen"
)

func credentials(t *testing.T, g *Gateway) []credential {
	t.Helper()
	later := time.Now().Add(time.Hour)
	sas := func(resource, policy, key string) string { return auth.SignSAS(resource, policy, key, later) }
	at := func(path string) string { return "sb://" + homeHost + "/" + path }
	var creds []credential
	add := func(c credential) {
		if c.host == "" {
			c.host = homeHost
		}
		creds = append(creds, c)
	}

	// Credentials that are not valid.
	add(credential{name: "no credential"})
	add(credential{name: "garbage", token: "SharedAccessSignature x"})
	add(credential{name: "a wrong key", token: sas(at(""), "all", "key-of-none"), policy: "all", key: "key-of-none"})
	add(credential{name: "a policy that is not there", token: sas(at(""), "none", "key-of-all"), policy: "none", key: "key-of-all"})
	add(credential{name: "an empty second key", token: sas(at(""), "send", ""), policy: "send"})
	add(credential{name: "an expired token", token: auth.SignSAS(at(""), "all", "key-of-all", time.Now().Add(-time.Hour))})
	for _, resource := range []string{"sb://orders", `sb://home.localhost\orders`, "sb://home.localhost%2forders", "sb://localhost%2Forders", "sb://", "//", "?", "/?x", "%2f", "%2F%2f", "://", "://home.localhost/", "sb:///"} {
		add(credential{name: "the malformed resource " + resource, token: sas(resource, "all", "key-of-all")})
	}
	for _, path := range []string{"", "orders/express", "orders2", "news", "orders/x://y", "order"} {
		add(credential{name: "the key of orders for /" + path, token: sas(at(path), "own-all", "key-of-orders-all"), policy: "own-all", key: "key-of-orders-all"})
	}
	add(credential{name: "the key of the namespace other at home", token: sas(at(""), "others", "key-of-others")})
	add(credential{name: "the key of home at the namespace other", token: sas("sb://"+otherHost+"/", "all", "key-of-all"), host: otherHost})
	add(credential{name: "the development key at the namespace other", token: sas("sb://"+otherHost+"/", devPolicy, devKey), host: otherHost})
	add(credential{name: "the key of an entity of other, without a host", token: sas("sb://localhost/orders", "own-all", "key-of-others-orders"), host: anyHost})
	stranger, _ := newSigner(t)
	owner := map[string]any{"role": "owner"}
	for name, token := range map[string]string{
		"of another key":      g.webToken(t, stranger, owner),
		"that is expired":     g.webToken(t, g.issuer, owner, "exp", time.Now().Add(-time.Hour).Unix()),
		"without a role":      g.webToken(t, g.issuer, nil),
		"with another role":   g.webToken(t, g.issuer, map[string]any{"role": "admin"}),
		"for others":          g.webToken(t, g.issuer, owner, "aud", "elsewhere"),
		"of another issuer":   g.webToken(t, g.issuer, owner, "iss", "nobody"),
		"without a signature": unsigned(),
	} {
		add(credential{name: "a web token " + name, token: token})
	}
	add(credential{name: "a web token at the namespace other", token: g.webToken(t, g.issuer, owner), host: otherHost})

	// Credentials for a whole namespace.
	whole := func(name, token, policy, key, rights string) {
		add(credential{name: name, token: token, policy: policy, key: key, namespace: home, rights: rights})
	}
	whole("the development key", sas(at(""), devPolicy, devKey), devPolicy, devKey, all)
	whole("a Manage key", sas(at(""), "all", "key-of-all"), "all", "key-of-all", all)
	whole("a second key", sas(at(""), "all", "key-of-all-2"), "all", "key-of-all-2", all)
	whole("a Send key", sas(at(""), "send", "key-of-send"), "send", "key-of-send", sendOnly)
	whole("a Listen key", sas(at(""), "listen", "key-of-listen"), "listen", "key-of-listen", listen)
	whole("a key to send and listen", sas(at(""), "both", "key-of-both"), "both", "key-of-both", both)
	for role, rights := range map[string]string{"owner": all, "sender": sendOnly, "receiver": listen} {
		whole("a web token of the role "+role, g.webToken(t, g.issuer, map[string]any{"role": role}), "", "", rights)
		whole("a development identity of the role "+role, g.identityToken(t, role), "", "", rights)
	}
	add(credential{name: "a Manage key by a host that says nothing", token: sas("sb://localhost/", "all", "key-of-all"), host: anyHost, namespace: home, rights: all})
	add(credential{name: "a Manage key of the namespace other", token: sas("sb://"+otherHost+"/", "others", "key-of-others"), policy: "others", key: "key-of-others", host: otherHost, namespace: other, rights: all})
	add(credential{name: "a Manage key of the namespace other by a host that says nothing", token: sas("sb://localhost/", "others", "key-of-others"), policy: "others", key: "key-of-others", host: anyHost, namespace: other, rights: all})
	add(credential{name: "a Send key of the namespace other", token: sas("sb://"+otherHost+"/", "others-send", "key-of-others-send"), policy: "others-send", key: "key-of-others-send", host: otherHost, namespace: other, rights: sendOnly})

	// Tokens for a part of the namespace, by the namespace's policies.
	for _, path := range []string{
		"order", "orders", "orders/express", "orders2", "orders/$deadletterqueue", "news", "news/subscriptions", "news/subscriptions/s",
		"news/subscriptions/s/$deadletterqueue", "sessions", "orders/messages", "orders/messages/head", "$resources/queues", "orders/../orders2", "orders//express",
	} {
		add(credential{name: "a Manage key for " + path, token: sas(at(path), "all", "key-of-all"), namespace: home, rights: all, resource: path})
	}
	for _, c := range []struct{ policy, rights, path, resource string }{
		{"send", sendOnly, "orders", "orders"},
		{"listen", listen, "orders", "orders"},
		{"listen", listen, "news/subscriptions/s", "news/subscriptions/s"},
		{"all", all, "ORDERS/", "orders"},
		{"all", all, "/orders", "orders"},
		{"all", all, "%6frders", "orders"},
		{"all", all, "orders2?x=orders", "orders2"},
		{"all", all, "orders?x=/orders2", "orders"},
		{"all", all, "News/Subscriptions/S", "news/subscriptions/s"},
		{"all", all, "\u24de\u24e1\u24d3ers", "\u24de\u24e1\u24d3ers"},
	} {
		add(credential{name: "a key to " + c.rights + " for " + c.path, token: sas(at(c.path), c.policy, "key-of-"+c.policy), namespace: home, rights: c.rights, resource: c.resource})
	}
	add(credential{name: "a Manage key for orders/$management", token: sas(at("orders/$management"), "all", "key-of-all"), namespace: home, rights: all, resource: "orders/$management"})

	// Tokens by an entity's own policies.
	for _, c := range []struct{ entity, path, policy, key, rights string }{
		{"orders", "orders", "own-send", "key-of-orders-send", sendOnly},
		{"orders", "orders", "own-listen", "key-of-orders-listen", listen},
		{"orders", "orders", "own-both", "key-of-orders-both", both},
		{"orders", "orders", "own-all", "key-of-orders-all", all},
		{"orders", "orders/$deadletterqueue", "own-all", "key-of-orders-all", all},
		{"orders", "orders/messages/head", "own-all", "key-of-orders-all", all},
		{"orders/express", "orders/express", "own-all", "key-of-express-all", all},
		{"orders2", "orders2", "own-all", "key-of-orders2-all", all},
		{"sessions", "sessions", "own-listen", "key-of-sessions-listen", listen},
		{"news", "news", "own-send", "key-of-news-send", sendOnly},
		{"news", "news", "own-listen", "key-of-news-listen", listen},
		{"news", "news", "own-all", "key-of-news-all", all},
		{"news", "news/subscriptions/s", "own-all", "key-of-news-all", all},
	} {
		add(credential{name: "the key of " + c.entity + " to " + c.rights + " for " + c.path, token: sas(at(c.path), c.policy, c.key), namespace: home, rights: c.rights, resource: c.path, entity: c.entity})
	}
	add(credential{name: "the key of an entity of other at its host", token: sas("sb://"+otherHost+"/orders", "own-all", "key-of-others-orders"), host: otherHost, namespace: other, rights: all, resource: "orders", entity: "orders"})
	return creds
}

const devPolicy, devKey = "RootManageSharedAccessKey", "SAS_KEY_VALUE"

func (g *Gateway) webToken(t *testing.T, by jose.Signer, claims map[string]any, pairs ...any) string {
	t.Helper()
	every := map[string]any{"iss": "partner", "aud": "crosstown", "sub": "tester", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(every, claims)
	for i := 0; i < len(pairs); i += 2 {
		every[pairs[i].(string)] = pairs[i+1]
	}
	token, err := jwt.Signed(by).Claims(every).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + token
}

func unsigned() string {
	encode := base64.RawURLEncoding.EncodeToString
	return "Bearer " + encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(`{"iss":"partner","aud":"crosstown","exp":4000000000,"role":"owner"}`)) + "."
}

func (g *Gateway) identityToken(t *testing.T, role string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.identity[0]+"?resource=https://servicebus.azure.net&client_id="+role, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-IDENTITY-HEADER", g.identity[1])
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Token == "" {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	return "Bearer " + answer.Token
}
