package e2e

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"
	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/wsstream"
	"github.com/crosstown-mq/crosstown/internal/variants"
)

// namespace is a namespace that was created at run time, seen from a gateway.
type namespace struct {
	*env
	name, policy, key string
}

// namespaceReply is the gateway's description of a namespace.
type namespaceReply struct {
	Name     string
	Policies []struct{ Name, PrimaryKey, SecondaryKey, ConnectionString, HostConnectionString string }
	Error    string
}

// namespaceRequest sends a request about namespaces, with the operator's policy.
func (e *env) namespaceRequest(method, path, body string) (told namespaceReply) {
	e.Helper()
	a := e.http(method, "$crosstown/namespaces"+path, body, nil)
	if a.status/100 != 2 {
		e.Fatalf("%s %s: got %d %s", method, path, a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &told); err != nil {
		e.Fatalf("%s %s: %v in %s", method, path, err, a.body)
	}
	return told
}

// createNamespace creates a namespace, and deletes it after the test.
func (e *env) createNamespace() *namespace { return e.createNamespaceWith("") }

// createNamespaceWith is createNamespace with a request.
func (e *env) createNamespaceWith(body string) *namespace {
	e.Helper()
	name := "n" + e.name()
	p := e.namespaceRequest("PUT", "/"+name, body).Policies[0]
	e.Cleanup(func() {
		token := auth.SignSAS("http://"+e.gw.host+"/", devPolicy, devKey, time.Now().Add(time.Hour))
		r, err := http.NewRequestWithContext(context.Background(), http.MethodDelete, "http://"+e.gw.host+"/$crosstown/namespaces/"+name, nil)
		if err != nil {
			e.Fatal(err)
		}
		r.Header.Set("Authorization", token)
		if a, err := http.DefaultClient.Do(r); err == nil { // the test may have deleted it, or killed the gateway
			_ = a.Body.Close()
		}
	})
	return &namespace{e, name, p.Name, p.PrimaryKey}
}

func (n *namespace) client() *azservicebus.Client { return n.clientAs(n.policy, n.key) }
func (n *namespace) admin() *admin.Client         { return n.adminAs(n.policy, n.key) }
func (n *namespace) host() string                 { return n.name + ".localhost" }

func (n *namespace) token() string {
	return auth.SignSAS("http://"+n.gw.host+"/", n.policy, n.key, time.Now().Add(time.Hour))
}

func (n *namespace) queue(name string) {
	n.Helper()
	if _, err := n.admin().CreateQueue(n.ctx(), name, nil); err != nil {
		n.Fatalf("create the queue %s in %s: %v", name, n.name, err)
	}
}

func (n *namespace) send(queue string, bodies ...string) {
	n.Helper()
	s := n.senderOf(n.client(), queue)
	for _, b := range bodies {
		n.post(s, &azservicebus.Message{Body: []byte(b)})
	}
}

func (n *namespace) receiver(queue string) *azservicebus.Receiver {
	n.Helper()
	r, err := n.client().NewReceiverForQueue(queue, nil)
	if err != nil {
		n.Fatal(err)
	}
	return r
}

// holds lists the bodies of a queue's messages.
func (n *namespace) holds(queue string) []string {
	n.Helper()
	return bodies(n.peek(n.receiver(queue), 0, 100))
}

// createNamespaces creates n namespaces, each with the queue "orders" that holds one message.
func (e *env) createNamespaces(n int) (all []*namespace) {
	e.Helper()
	for range n {
		t := e.createNamespace()
		t.queue("orders")
		t.send("orders", "for "+t.name)
		all = append(all, t)
	}
	return all
}

func TestANamespaceIsReachedByItsHost(t *testing.T) {
	tell(t, func(e *env) {
		all := e.createNamespaces(2)
		a, b := all[0], all[1]

		t.Run("TLS server name", func(t *testing.T) {
			connect := func(n *namespace, at string) error {
				c, err := azservicebus.NewClientFromConnectionString(e.gw.connection(n.policy, n.key, false), &azservicebus.ClientOptions{
					RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}, TLSConfig: &tls.Config{RootCAs: e.gw.ca, ServerName: at},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Close(context.WithoutCancel(e.Context())) }()
				s, err := c.NewSender("orders", nil)
				if err != nil {
					return err
				}
				return s.SendMessage(e.ctx(), &azservicebus.Message{Body: []byte("by TLS")}, nil)
			}
			if err := connect(a, a.host()); err != nil {
				t.Errorf("at its host: %v", err)
			}
			if err := connect(a, b.host()); err == nil {
				t.Error("its key is good at another's host")
			}
		})
		t.Run("hostname of AMQP", func(t *testing.T) {
			connect := func(n *namespace, at, more string) error {
				c, err := azservicebus.NewClientFromConnectionString(
					fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=%s%s", at, n.policy, n.key, more),
					&azservicebus.ClientOptions{CustomEndpoint: e.gw.host, RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}, TLSConfig: e.tls()})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Close(context.WithoutCancel(e.Context())) }()
				r, err := c.NewReceiverForQueue("orders", nil)
				if err != nil {
					return err
				}
				_, err = r.PeekMessages(e.ctx(), 1, nil)
				return err
			}
			for _, more := range []string{"", ";UseDevelopmentEmulator=true"} {
				if err := connect(a, a.host(), more); err != nil {
					t.Errorf("at its host%s: %v", more, err)
				}
				if err := connect(a, a.name+".servicebus.windows.net", more); err != nil {
					t.Errorf("at its cloud-like host%s: %v", more, err)
				}
				if err := connect(a, b.host(), more); err == nil {
					t.Errorf("its key is good at another's host%s", more)
				}
			}
		})
		t.Run("AMQP through a WebSocket", func(t *testing.T) {
			connect := func(n *namespace, at string) error {
				c, err := azservicebus.NewClientFromConnectionString(e.gw.connection(n.policy, n.key, false), &azservicebus.ClientOptions{
					RetryOptions: azservicebus.RetryOptions{MaxRetries: -1},
					NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
						c, err := e.webSocketAt(at, "/$servicebus/websocket", "amqp")
						if err != nil {
							return nil, err
						}
						return wsstream.New(c), nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Close(context.WithoutCancel(e.Context())) }()
				r, err := c.NewReceiverForQueue("orders", nil)
				if err != nil {
					return err
				}
				_, err = r.PeekMessages(e.ctx(), 1, nil)
				return err
			}
			if err := connect(a, a.host()); err != nil {
				t.Errorf("at its host: %v", err)
			}
			if err := connect(a, b.host()); err == nil {
				t.Error("its key is good at another's host")
			}
		})
		t.Run("native WebSocket", func(t *testing.T) {
			for _, c := range []struct {
				n    *namespace
				at   string
				want string
			}{{a, a.host(), "ok"}, {b, "localhost", "ok"}, {a, b.host(), "error"}} {
				conn, err := e.webSocketAt(c.at, "/$crosstown/ws", "crosstown.v1.json")
				if err != nil {
					t.Fatal(err)
				}
				n := &native{env: e, conn: conn}
				if got := n.ask(map[string]any{"op": "auth", "token": c.n.token()}); got.Op != c.want {
					t.Errorf("%s at %s: got %+v", c.n.name, c.at, got)
				}
				if c.want == "ok" {
					if got := n.must(map[string]any{"op": "peek", "entity": "orders"}); len(got.Messages) == 0 || !strings.Contains(string(got.Messages[0]), base64.StdEncoding.EncodeToString([]byte("for "+c.n.name))) {
						t.Errorf("%s at %s: got %s", c.n.name, c.at, got.Messages)
					}
				}
				_ = conn.Close()
			}
		})
		t.Run("HTTP", func(t *testing.T) {
			for _, c := range []struct {
				n    *namespace
				at   string
				want int
			}{{a, a.host(), 201}, {b, "localhost", 201}, {a, b.host(), 401}} {
				if got := e.httpAt(c.at, c.n.token(), "POST", "orders/messages/head"); got.status != c.want || c.want == 201 && got.body != "for "+c.n.name {
					t.Errorf("%s at %s: got %d %s", c.n.name, c.at, got.status, got.body)
				}
			}
		})
	}, "file/tcp", "redis/tcp")
}

// webSocketAt connects to the gateway by a host of whatever name.
func (e *env) webSocketAt(host, path, protocol string) (*websocket.Conn, error) {
	d := websocket.Dialer{
		Subprotocols: []string{protocol}, HandshakeTimeout: patience,
		NetDialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, e.gw.host)
		},
	}
	c, answer, err := d.DialContext(e.ctx(), "ws://"+host+path, nil)
	if answer != nil {
		_ = answer.Body.Close() // it is empty, or says what err does
	}
	return c, err
}

// httpAt sends a request to the gateway by a host of whatever name.
func (e *env) httpAt(host, token, method, path string) answer {
	e.Helper()
	r, err := http.NewRequestWithContext(e.ctx(), method, "http://"+e.gw.host+"/"+path, nil)
	if err != nil {
		e.Fatal(err)
	}
	r.Host = host
	r.Header.Set("Authorization", token)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		e.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }() // read to its end
	body, err := io.ReadAll(got.Body)
	if err != nil {
		e.Fatal(err)
	}
	return answer{got.StatusCode, got.Header, string(body)}
}

func TestTheLifeOfANamespace(t *testing.T) {
	onEachEngine(t, func(e *env) {
		n := e.createNamespace()
		n.queue("orders")
		r := n.receiver("orders")
		n.send("orders", "one", "two", "three")
		e.complete(r, e.one(r))

		s := n.senderOf(n.client(), "orders")
		first := *n
		for i := range 2 {
			p := e.namespaceRequest("POST", "/"+n.name+"/policies/"+n.policy+"/rotate", "").Policies[0]
			if p.SecondaryKey != n.key {
				e.Errorf("rotation %d: the old key is not the secondary", i)
			}
			before := *n
			n.key = p.PrimaryKey
			e.post(s, &azservicebus.Message{}) // by the link that was open before
			n.send("orders", "by the new key")
			before.send("orders", "by the old key")
		}
		if err := first.senderOf(first.client(), "orders").SendMessage(e.ctx(), &azservicebus.Message{}, nil); err == nil {
			e.Error("the first key is good after two rotations")
		}

		e.namespaceRequest("POST", "/"+n.name+"/reset", "")
		if got := n.holds("orders"); len(got) != 0 {
			t.Errorf("after the reset it holds %q", got)
		}
		n.send("orders", "after the reset")
		if got := e.one(r); string(got.Body) != "after the reset" { // by the link that was open before
			t.Errorf("got %s", got.Body)
		}

		conn, err := amqp.Dial(e.ctx(), "amqp://"+e.gw.host, &amqp.ConnOptions{SASLType: amqp.SASLTypePlain(n.policy, n.key)})
		if err != nil {
			e.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		ws, err := e.webSocketAt("localhost", "/$crosstown/ws", "crosstown.v1.json")
		if err != nil {
			e.Fatal(err)
		}
		defer func() { _ = ws.Close() }()
		(&native{env: e, conn: ws}).must(map[string]any{"op": "auth", "token": n.token()})

		e.namespaceRequest("DELETE", "/"+n.name, "")
		<-conn.Done()
		if failed, ok := errors.AsType[*amqp.ConnError](conn.Err()); !ok || failed.RemoteErr == nil || failed.RemoteErr.Condition != amqp.ErrCondNotFound ||
			!strings.Contains(failed.RemoteErr.Description, "The namespace '"+n.name+"' was deleted.") {
			t.Errorf("AMQP: got %v", conn.Err())
		}
		_ = ws.SetReadDeadline(time.Now().Add(patience))
		_, _, err = ws.ReadMessage()
		if closed, ok := errors.AsType[*websocket.CloseError](err); !ok || closed.Code != 4404 || !strings.Contains(closed.Text, n.name) {
			t.Errorf("WebSocket: got %v", err)
		}
		ctx, cancel := context.WithTimeout(e.Context(), patience)
		defer cancel()
		if _, err := r.ReceiveMessages(ctx, 1, nil); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a receiver of the deleted namespace: got %v", err)
		}
		if err := n.senderOf(n.client(), "orders").SendMessage(e.ctx(), &azservicebus.Message{}, nil); err == nil {
			t.Error("a deleted namespace takes messages")
		}
		if got := e.httpAs(n.token(), "POST", "orders/messages", "x", nil); got.status != 401 {
			t.Errorf("HTTP: got %d %s", got.status, got.body)
		}

		p := e.namespaceRequest("PUT", "/"+n.name, "").Policies[0] // is another one
		n.policy, n.key = p.Name, p.PrimaryKey
		if got, err := n.admin().GetQueue(e.ctx(), "orders", nil); err != nil || got != nil {
			t.Errorf("the new namespace has the old one's queue: %v, %v", got, err)
		}
		n.queue("orders")
		n.send("orders", "anew")
		if got := n.holds("orders"); !slices.Equal(got, []string{"anew"}) {
			t.Errorf("the new namespace holds %q", got)
		}
	})
}

func TestNamespacesAreKnownToAllGateways(t *testing.T) {
	t.Parallel()
	es := gateways(t, 2)
	one, two := es[0], es[1]
	for range 5 {
		n := one.createNamespace()
		there := &namespace{two, n.name, n.policy, n.key}
		there.queue("orders") // at once
		there.send("orders", "by the other gateway")
		if got := n.holds("orders"); !slices.Equal(got, []string{"by the other gateway"}) {
			t.Errorf("it holds %q", got)
		}
		p := two.namespaceRequest("POST", "/"+n.name+"/policies/"+n.policy+"/rotate", "").Policies[0]
		n.key = p.PrimaryKey
		n.send("orders", "by the new key")

		conn, err := amqp.Dial(one.ctx(), "amqp://"+one.gw.host, &amqp.ConnOptions{SASLType: amqp.SASLTypePlain(n.policy, n.key)})
		if err != nil {
			t.Fatal(err)
		}
		two.namespaceRequest("DELETE", "/"+n.name, "")
		select {
		case <-conn.Done():
		case <-time.After(patience):
			t.Error("the connection to the other gateway stays open")
		}
		_ = conn.Close()
	}
}

func TestJavaScriptClientsFindTheirNamespaces(t *testing.T) {
	tell(t, func(e *env) {
		n := e.createNamespace()
		n.queue("orders")
		told := e.namespaceRequest("GET", "/"+n.name, "").Policies[0]
		e.node("namespaces", "STORY_NAMESPACE="+told.ConnectionString)
		if got := n.holds("orders"); !slices.Equal(got, []string{"from JavaScript"}) {
			t.Errorf("it holds %q", got)
		}
	}, "file/tcp", "redis/tcp")
}

// How many namespaces a test makes, of the thousand that are the point.
const manyNamespaces = 100

func TestManyNamespacesAreMadeUsedAndReset(t *testing.T) {
	t.Parallel()
	variants.Each(t, func(t *testing.T, engine string) {
		t.Parallel()
		e := &env{T: t, gw: own(t, storeOf(t, engine)), plain: true}
		for i := range manyNamespaces {
			p := e.namespaceRequest("PUT", fmt.Sprintf("/suite-%d", i), "").Policies[0]
			token := auth.SignSAS("http://"+e.gw.host+"/", p.Name, p.PrimaryKey, time.Now().Add(time.Hour))
			const description = `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>`
			for _, step := range []struct {
				method, path, body string
				want               int
			}{
				{"PUT", "orders?api-version=2021-05", description, 201},
				{"POST", "orders/messages", fmt.Sprint("message ", i), 201},
				{"POST", fmt.Sprintf("$crosstown/namespaces/suite-%d/reset", i), "", 200},
				{"DELETE", "orders/messages/head?timeout=0", "", 204},
				{"POST", "orders/messages", fmt.Sprint("message ", i), 201},
			} {
				if got := e.httpAs(token, step.method, step.path, step.body, nil); got.status != step.want {
					t.Fatalf("suite %d: %s %s: got %d %s", i, step.method, step.path, got.status, got.body)
				}
			}
			if i%2 == 0 {
				e.namespaceRequest("DELETE", fmt.Sprintf("/suite-%d", i), "")
				continue
			}
			if got := e.httpAs(token, "DELETE", "orders/messages/head", "", nil); got.body != fmt.Sprint("message ", i) {
				t.Fatalf("suite %d: got %d %s", i, got.status, got.body)
			}
		}
	}, "memory", "redis")
}
