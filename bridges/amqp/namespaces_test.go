package amqp

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// secured is a connection that came by TLS.
type secured struct{ net.Conn }

func (secured) ConnectionState() tls.ConnectionState {
	return tls.ConnectionState{ServerName: "tls.example"}
}

// tunnelled is one that came through a tunnel.
type tunnelled struct{ net.Conn }

func (tunnelled) Hosts() []string { return []string{"http.example:443", "tls.example"} }

func TestAuthorityGetsTheHostNamesOfTheClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wrap func(net.Conn) net.Conn
		sasl string
		open string
		want [][]string // to SASL PLAIN, to a token
	}{
		"plain":             {func(c net.Conn) net.Conn { return c }, "", "bus.example:5672", [][]string{{}, {"bus.example:5672"}}},
		"plain, by SASL":    {func(c net.Conn) net.Conn { return c }, "sasl.example", "", [][]string{{"sasl.example"}, {"sasl.example"}}},
		"TLS":               {func(c net.Conn) net.Conn { return secured{c} }, "", "bus.example", [][]string{{"tls.example"}, {"bus.example", "tls.example"}}},
		"through a tunnel":  {func(c net.Conn) net.Conn { return tunnelled{c} }, "", "bus.example", [][]string{{"http.example:443", "tls.example"}, {"bus.example", "http.example:443", "tls.example"}}},
		"says nothing else": {func(c net.Conn) net.Conn { return tunnelled{c} }, "", "", [][]string{{"http.example:443", "tls.example"}, {"http.example:443", "tls.example"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			authority := &fakeAuthority{}
			here, there := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = New(newFakeBroker("q1"), authority, Options{}).ServeConn(t.Context(), c.wrap(there))
			}()
			p := newPeer(t, here)
			p.header(wire.ProtocolSASL)
			await[*wire.SASLMechanisms](p)
			p.send(0, &wire.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00secret"), Hostname: c.sasl})
			await[*wire.SASLOutcome](p)
			p.header(wire.ProtocolAMQP)
			p.send(0, &wire.Open{ContainerID: "test", Hostname: c.open}, &wire.Begin{OutgoingWindow: 100, IncomingWindow: 100})
			await[*wire.Begin](p)
			n := p.node(cbsNode, 0)
			n.call(value.Map{{Key: "operation", Value: "put-token"}, {Key: "type", Value: "jwt"}, {Key: "name", Value: "q1"}}, "token")
			p.send(0, &wire.Close{})
			await[*wire.Close](p)
			_ = here.Close()
			<-done
			if !slices.EqualFunc(authority.called, c.want, slices.Equal) {
				t.Errorf("got %q, want %q", authority.called, c.want)
			}
		})
	}
}

func TestAConnectionIsForOneNamespace(t *testing.T) {
	t.Parallel()
	bubble(t, newFakeBroker("q1"), &fakeAuthority{}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.open()
		n := p.node(cbsNode, 0)
		a := n.call(value.Map{{Key: "operation", Value: "put-token"}, {Key: "type", Value: "jwt"}, {Key: "name", Value: ""}}, "elsewhere")
		if got, text := a.get("status-code"), a.get("status-description"); got != int32(401) || !strings.Contains(text.(string), "another") {
			p.tb.Errorf("got %v %q, want 401", got, text)
		}
	})
}

func TestAConnectionEndsWithItsNamespace(t *testing.T) {
	t.Parallel()
	authority := &fakeAuthority{}
	bubble(t, newFakeBroker("q1"), authority, Options{}, func(p *peer, _ context.CancelFunc) {
		p.open()
		p.attach(0, wire.RoleSender, "q1")
		synctest.Wait()
		authority.mu.Lock()
		inside, left := authority.inside, authority.left
		authority.mu.Unlock()
		if len(inside) != 1 || left != 0 {
			p.tb.Fatalf("%d have entered, %d have left", len(inside), left)
		}
		inside[0](core.Refuse(core.NotFound, "The namespace 'a' was deleted."))
		c := await[*wire.Close](p)
		if c == nil || c.Error == nil || c.Error.Condition != wire.CondNotFound || !strings.HasPrefix(c.Error.Description, "The namespace 'a' was deleted.") {
			p.tb.Errorf("got %+v, want a close with %s", c, wire.CondNotFound)
		}
		p.send(0, &wire.Close{})
	})
	if authority.left != 1 {
		t.Errorf("%d have left, want 1", authority.left)
	}
}

func TestAFullNamespaceLetsNobodyIn(t *testing.T) {
	t.Parallel()
	bubble(t, newFakeBroker("q1"), &fakeAuthority{full: true}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.header(wire.ProtocolSASL)
		await[*wire.SASLMechanisms](p)
		p.send(0, &wire.SASLInit{Mechanism: "PLAIN", InitialResponse: []byte("\x00root\x00secret")})
		if got := await[*wire.SASLOutcome](p); got == nil || got.Code != wire.SASLSysTemp {
			p.tb.Errorf("PLAIN: got %+v, want %d", got, wire.SASLSysTemp)
		}
	})
	bubble(t, newFakeBroker("q1"), &fakeAuthority{full: true}, Options{}, func(p *peer, _ context.CancelFunc) {
		p.header(wire.ProtocolAMQP)
		p.send(0, &wire.Open{ContainerID: "test"}, &wire.Begin{OutgoingWindow: 100, IncomingWindow: 100})
		await[*wire.Begin](p)
		n := p.node(cbsNode, 0)
		a := n.call(value.Map{{Key: "operation", Value: "put-token"}, {Key: "type", Value: "jwt"}, {Key: "name", Value: ""}}, "token")
		if got := a.get("status-code"); got != int32(403) {
			p.tb.Errorf("a token: got %v, want 403", got)
		}
	})
}
