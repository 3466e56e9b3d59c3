package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/gateway/internal/wsstream"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// authority signs certificates of clients.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "clients"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	made := a.sign(t, template)
	a.key = made.PrivateKey.(*ecdsa.PrivateKey)
	a.cert = made.Leaf
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Leaf.Raw}))
	return a
}

// sign makes a certificate, which the authority signs if it has a certificate itself.
func (a *authority) sign(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// client is the TLS configuration of a client with that common name.
func (a *authority) client(t *testing.T, name string, uris ...*url.URL) *tls.Config {
	made := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, URIs: uris, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{made}}
}

func TestClientCertificatesProvePolicies(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	g := startWithFile(t, fmt.Sprintf(`tls: {client-ca: %s}
queues: [{name: orders}]
policies:
  - {name: app1, certificate: CN=app1, rights: "Send"}
  - {name: app2, certificate: "URI=spiffe://example/app2", rights: "Listen"}
  - {name: ops, certificate: CN=ops, rights: "Manage"}
`, writeFile(t, "ca.pem", ca.pem)))
	app1, app2, ops, none := ca.client(t, "app1"), ca.client(t, "x", &url.URL{Scheme: "spiffe", Host: "example", Path: "/app2"}), ca.client(t, "ops"), &tls.Config{InsecureSkipVerify: true}

	dial := func(c *tls.Config) (*amqp.Conn, error) {
		return amqp.Dial(t.Context(), "amqps://"+g.address, &amqp.ConnOptions{SASLType: amqp.SASLTypeExternal(""), TLSConfig: c, HostName: "localhost"})
	}
	overWebSocket := func(c *tls.Config) (*amqp.Conn, error) {
		d := websocket.Dialer{TLSClientConfig: c, Subprotocols: []string{"AMQPWSB10"}}
		ws, resp, err := d.DialContext(t.Context(), "wss://"+g.address+"/$servicebus/websocket", nil)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		return amqp.NewConn(t.Context(), wsstream.New(ws), &amqp.ConnOptions{SASLType: amqp.SASLTypeExternal(""), HostName: "localhost"})
	}
	for how, dial := range map[string]func(*tls.Config) (*amqp.Conn, error){"TLS": dial, "WebSocket": overWebSocket} {
		open := func(c *tls.Config) *amqp.Session {
			t.Helper()
			conn, err := dial(c)
			if err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			s, err := conn.NewSession(t.Context(), nil)
			if err != nil {
				t.Fatalf("%s: %v", how, err)
			}
			return s
		}
		s := open(app1)
		sender, err := s.NewSender(t.Context(), "orders", nil)
		if err == nil {
			err = sender.Send(t.Context(), amqp.NewMessage([]byte("hello")), nil)
		}
		if err != nil {
			t.Errorf("%s: app1 sends: %v", how, err)
		}
		if _, err := s.NewReceiver(t.Context(), "orders", nil); err == nil || !strings.Contains(err.Error(), "nauthorized") {
			t.Errorf("%s: app1 receives: got %v", how, err)
		}
		if code, text := g.certified(t, ops, http.MethodGet, "/$crosstown/connections"); code != http.StatusOK || !strings.Contains(text, `"policies":["app1"]`) {
			t.Errorf("%s: connections: got %d %s", how, code, text)
		}
		r, err := open(app2).NewReceiver(t.Context(), "orders", nil)
		if err == nil {
			_, err = r.Receive(t.Context(), nil)
		}
		if err != nil {
			t.Errorf("%s: app2 receives: %v", how, err)
		}
		if _, err := dial(ca.client(t, "unknown")); err == nil {
			t.Errorf("%s: a certificate without a policy is accepted", how)
		}
		if _, err := open(none).NewSender(t.Context(), "orders", nil); err == nil {
			t.Errorf("%s: a client without a certificate sends", how)
		}
	}
	for _, c := range []struct {
		who     *tls.Config
		request string
		headers []string
		want    int
	}{
		{app1, "POST /orders/messages", nil, 201},
		{app1, "POST /orders/messages", []string{"Origin", "https://evil.example"}, 401},
		{app1, "POST /orders/messages", []string{"Sec-Fetch-Site", "cross-site"}, 401},
		{app1, "DELETE /orders/messages/head?timeout=0", nil, 401},
		{app2, "DELETE /orders/messages/head?timeout=0", nil, 200},
		{app1, "GET /$crosstown/status", nil, 401},
		{ops, "GET /$crosstown/status", nil, 200},
		{none, "POST /orders/messages", nil, 401},
		{none, "GET /health", nil, 200},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		if got, text := g.certified(t, c.who, method, path, c.headers...); got != c.want {
			t.Errorf("%s, %v: got %d %s, want %d", c.request, c.headers, got, text, c.want)
		}
	}
	if _, err := dial(newAuthority(t).client(t, "app1")); err == nil {
		t.Error("a certificate of another authority is accepted")
	}
	for _, want := range []string{"the gateway did not accept a client's certificate", "CN=unknown", "a client's certificate is not valid"} {
		eventually.True(t, "the log has "+want, func() bool { return strings.Contains(g.stderr.String(), want) })
	}
}

// certified makes a request with a client's certificate.
func (g *gateway) certified(t *testing.T, c *tls.Config, method, path string, headers ...string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+g.address+path, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// The authority of clients' certificates is replaced while the gateway runs, also for clients that resume a
// TLS session.
func TestAHangUpReloadsTheAuthorityOfClients(t *testing.T) {
	t.Parallel()
	before, after := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	file, ca := filepath.Join(dir, "crosstown.yaml"), filepath.Join(dir, "ca.pem")
	rewrite(t, ca, before.pem)
	rewrite(t, file, "tls: {client-ca: "+ca+"}\npolicies: [{name: ops, certificate: CN=ops, rights: Manage}]\n")
	p := startProgram(t, "--config", file)
	// One client for each authority: a request either is answered, or fails in the handshake.
	resumed := false
	asking := func(a *authority) func() int {
		c := a.client(t, "ops")
		c.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
		return func() int {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+p.address+"/$crosstown/status", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(r)
			if err != nil {
				return 0
			}
			defer func() { _ = resp.Body.Close() }()
			resumed = resp.TLS.DidResume
			return resp.StatusCode
		}
	}
	old, replaced := asking(before), asking(after)
	if got := []int{old(), old(), replaced()}; !slices.Equal(got, []int{200, 200, 0}) || !resumed {
		t.Errorf("at the start: got %d, resumed: %t, want 200, 200 of a resumed session, and no answer", got, resumed)
	}
	for _, c := range []struct{ pem, line string }{
		{"none", "the old settings stay in force"}, {after.pem, "reloaded: log level"},
	} {
		rewrite(t, ca, c.pem)
		p.signal(t, syscall.SIGHUP)
		p.until(t, c.line)
		if c.pem == "none" && old() != 200 {
			t.Error("a file without a certificate takes the authority away")
		}
	}
	if got := []int{old(), replaced(), replaced()}; !slices.Equal(got, []int{0, 200, 200}) {
		t.Errorf("reloaded: got %d, want no answer, 200 and 200", got)
	}
}
