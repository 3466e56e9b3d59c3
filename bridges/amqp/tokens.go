package amqp

import (
	"bytes"
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
)

type client struct {
	hostname string // the host in the client's SASL init, then in its open
	host     string
	topics   topics
	known    atomic.Bool // the client has a proven identity; any goroutine may read this
	until    time.Time   // deadline for the next step of the handshake
	expires  time.Time   // when the first grant of identity ends; zero if none does
}

const cbsNode = "$cbs"

// attachTokens accepts one link to and one from $cbs, because clients rely on a refusal of others.
func (c *conn) attachTokens(l *engine.Link) {
	for other := range c.eng.Links() {
		request, _ := other.Data.(*requestLink)
		reply, _ := other.Data.(*replyLink)
		if other.Attach().Role == l.Attach().Role && (request != nil && request.node == cbsNode || reply != nil && reply.node == cbsNode) {
			l.Refuse(c.refusal(l, core.Refuse(core.NotAllowed, "The connection already has a link to $cbs in this direction: use that link."), core.Address{}))
			return
		}
	}
	c.attachNode(l, cbsNode, core.Address{Entity: cbsNode}, maxTokenSize)
}

func (c *conn) serveToken(req *request, answered func(response, error, core.Address)) {
	kind, _ := req.headers.Get("type")
	name, _ := req.headers.Get("name")
	kindText, _ := text(kind)
	audience, ok := text(name)
	token, isText := text(req.body)
	refuse := func(err error) { answered(response{}, err, core.Address{Entity: core.ResourcePath(audience)}) }
	switch {
	case req.operation != "put-token":
		refuse(core.Refuse(core.NotImplemented, "The operation '%.60s' is not supported by $cbs: use put-token.", req.operation))
	case kindText != "servicebus.windows.net:sastoken" && kindText != "jwt":
		refuse(core.Refuse(core.InvalidArgument, "Tokens of type '%.60s' are not supported: use servicebus.windows.net:sastoken or jwt.", kindText))
	case !ok || !isText:
		refuse(core.Refuse(core.InvalidArgument, "A put-token request must have the application property 'name', and a string as its body."))
	default:
		c.putToken(token, audience, answered)
	}
}

func (c *conn) putToken(token, audience string, answered func(response, error, core.Address)) {
	hosts := c.hosts()
	c.Calls.Begin(func(ctx context.Context) func() {
		grant, addr, err := c.verify(ctx, hosts, token, audience)
		return func() {
			if err == nil {
				err = c.allow(grant)
			}
			answered(response{status: 202, text: "Accepted"}, err, addr)
		}
	})
}

// verify checks the token, and that its entity exists: clients expect the error NotFound here.
func (c *conn) verify(ctx context.Context, hosts []string, token, audience string) (core.Grant, core.Address, error) {
	path := core.ResourcePath(audience)
	grant, err := c.bridge.shared.Authority.Token(ctx, hosts, token, audience)
	// A token for a management node counts for its entity, because the Go SDK sends no other token
	// to list sessions.
	grant.Scope = strings.TrimSuffix(grant.Scope, "/$management")
	if err != nil || path == "" {
		return grant, core.Address{Entity: path}, err
	}
	addr, err := core.ParseAddress(audience)
	if err != nil {
		return grant, core.Address{Entity: path}, err
	}
	_, err = c.resolve(ctx, core.Identity{grant}, core.Address{Entity: addr.Entity, Sub: addr.Sub})
	return grant, addr, err
}

func (c *conn) resolve(ctx context.Context, id core.Identity, addr core.Address) (core.Entity, error) {
	e, err := c.bridge.front.Resolve(ctx, id, addr)
	if topic, _, ok := core.SplitSubscription(addr.Entity); ok && core.CodeOf(err) == core.NotFound {
		if e, err := c.bridge.front.Resolve(ctx, id, core.Address{Entity: topic}); err == nil { // the topic exists, so the subscription is missing
			c.topics.learn(&e)
		}
	}
	if err == nil {
		c.topics.learn(&e)
	}
	return e, err
}

func (c *conn) allow(g core.Grant) error {
	cost := c.structures()
	if err := c.Allow(g, cost, func(reason error) { c.Owner.Post(func() { c.eng.Close(c.closingFor(reason)) }) }); err != nil {
		return err
	}
	if !c.known.Load() {
		c.stood = cost
		c.known.Store(true)
		c.eng.Bound(engine.Bounds{Sessions: c.bridge.opts.MaxSessions, Links: c.bridge.opts.MaxLinks})
	}
	c.expires = c.Identity.NextExpiry(time.Now())
	return nil
}

func (c *conn) Evict() {
	c.eng.Close(c.closingFor(core.Refuse(core.Busy, "The gateway's memory is full. The gateway closed this connection, which used more of the memory than any other (%d bytes). Connect again.", c.charged)))
}

// hosts returns the names under which the client called the gateway: in its open frame (before
// that, in SASL), in the tunnel and in TLS.
func (c *conn) hosts() []string {
	hosts := []string{c.hostname}
	switch nc := c.NC.(type) {
	case interface{ Hosts() []string }:
		hosts = append(hosts, nc.Hosts()...)
	case interface{ ConnectionState() tls.ConnectionState }:
		hosts = append(hosts, nc.ConnectionState().ServerName)
	}
	return slices.DeleteFunc(hosts, func(name string) bool { return name == "" })
}

var errLate = core.Refuse(core.Unauthorized, "The gateway closed the connection, because the client did not send a valid token in time.")

// checkIdentity closes a connection that has not proven an identity in time, and detaches links
// without a grant. next is when to check again, or zero for never.
func (c *conn) checkIdentity(now time.Time) (next time.Time) {
	if !c.eng.Opened() || len(c.Identity) == 0 {
		if !now.Before(c.until) {
			c.eng.Close(c.closingFor(errLate))
		}
		return c.until
	}
	if c.expires.IsZero() || now.Before(c.expires) {
		return c.expires
	}
	for l := range c.eng.Links() {
		var err error
		var addr core.Address
		switch d := l.Data.(type) {
		case *senderLink:
			if addr, err = d.addr, c.Identity.Check(core.Send, d.addr.String(), now); err == nil {
				err = c.Identity.Check(core.Send, d.destination.String(), now)
			}
		case *receiverLink, *browseLink:
			addr = addressOf(l)
			err = c.Identity.Check(core.Listen, addr.String(), now)
		}
		if err != nil {
			l.Detach(c.refusal(l, err, addr))
			c.Detached(l)
		}
	}
	c.expires = c.Identity.NextExpiry(now)
	return c.expires
}

// Authenticate answers a SASL init. Only PLAIN, and EXTERNAL with a certificate, prove an identity;
// with other mechanisms the client must send a token.
func (c *conn) Authenticate(init *wire.SASLInit) {
	c.hostname = init.Hostname
	switch strings.ToUpper(string(init.Mechanism)) {
	case "EXTERNAL":
		if s, ok := c.NC.(interface{ ConnectionState() tls.ConnectionState }); ok {
			if state := s.ConnectionState(); len(state.VerifiedChains) > 0 {
				hosts := c.hosts()
				c.authenticateWith(func(ctx context.Context) (core.Grant, error) {
					grant, err := c.bridge.shared.Authority.Token(bridges.Certified(ctx, &state), hosts, "", "")
					if err != nil {
						c.Log.Info("the gateway did not accept a client's certificate", "err", err)
					}
					return grant, err
				})
				return
			}
		}
		c.eng.Authenticated(wire.SASLOK)
	case "MSSBCBS", "ANONYMOUS":
		c.eng.Authenticated(wire.SASLOK)
	case "PLAIN":
		c.authenticatePlain(init.InitialResponse)
	default:
		c.eng.Authenticated(wire.SASLAuth)
	}
}

// authenticatePlain reads "authzid NUL policy NUL key", RFC 4616.
func (c *conn) authenticatePlain(response []byte) {
	fields := bytes.SplitN(response, []byte{0}, 3)
	if len(fields) != 3 {
		c.eng.Authenticated(wire.SASLAuth)
		return
	}
	policy, key := string(fields[1]), string(fields[2])
	hosts := c.hosts()
	c.authenticateWith(func(ctx context.Context) (core.Grant, error) {
		return c.bridge.shared.Authority.Key(ctx, hosts, policy, key)
	})
}

// authenticateWith runs prove outside the owner.
func (c *conn) authenticateWith(prove func(context.Context) (core.Grant, error)) {
	c.Calls.Begin(func(ctx context.Context) func() {
		grant, err := prove(ctx)
		return func() {
			if err == nil {
				err = c.allow(grant)
			}
			switch {
			case err == nil:
				c.eng.Authenticated(wire.SASLOK)
			case core.CodeOf(err) == core.Unauthorized:
				c.eng.Authenticated(wire.SASLAuth)
			case core.CodeOf(err) == core.QuotaExceeded || core.CodeOf(err) == core.Busy: // too many connections: SASL has no code for this
				c.Log.Debug("authenticate", "err", err)
				c.eng.Authenticated(wire.SASLSysTemp)
			default:
				c.Log.Error("authenticate", "err", err)
				c.eng.Authenticated(wire.SASLSysTemp)
			}
		}
	})
}
