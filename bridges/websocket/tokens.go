package websocket

import (
	"context"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

type client struct {
	hosts   []string // host names with which the client addressed the gateway; never changed
	proving bool     // a token is being checked, so nothing is read
	refused int
	expires time.Time // when to check Identity again; zero for never
	warned  time.Time
}

// authenticate checks a token. Later requests wait for it, so a client may send them at once.
func (c *conn) authenticate(q *request) {
	c.proving = true
	c.Calls.Begin(func(ctx context.Context) func() {
		grant, err := c.bridge.shared.Authority.Token(ctx, c.hosts, q.token, "")
		if err == nil && q.has("namespace") {
			grant, err = c.bridge.opts.Within(ctx, grant, q.namespace)
		}
		return func() { c.authenticated(q, grant, err) }
	})
}

func (c *conn) authenticated(q *request, g core.Grant, err error) {
	c.proving = false
	if err == nil {
		err = c.allow(g)
	}
	if err != nil {
		c.refuse(q, err)
		if core.CodeOf(err) == core.Unauthorized {
			if c.refused++; c.refused >= maxTokens {
				c.close(closeNotSignedIn, "The client sent too many invalid tokens.")
			}
		}
		return
	}
	c.limit.Store(int64(c.bridge.opts.MaxFrame))
	c.answer(q, func(w codec.Writer) {
		w.Key("namespace").Text(g.Namespace)
		w.Key("operator").Bool(c.bridge.opts.Clients.IsOperator(core.Identity{g}))
		w.Key("policy").Text(g.Policy)
		w.Key("scope").Text(g.Scope)
		writeRights(w.Key("rights"), g.Rights)
		w.Key("expires")
		if g.Expires.IsZero() {
			w.Null()
		} else {
			w.Instant(g.Expires.UnixMilli())
		}
		w.Key("connection").Text(c.ID)
		w.Key("time").Instant(time.Now().UnixMilli())
	})
}

func (c *conn) allow(g core.Grant) error {
	err := c.Allow(g, fair.Connection(c.NC), func(reason error) {
		_, text := words(reason)
		c.Owner.Do(func() { c.close(closeExpelled, text) })
	})
	if err == nil {
		c.expires = time.Now()
	}
	return err
}

func (c *conn) Evict() {
	c.close(closeBusy, "The gateway's memory is full, and this connection used more of it than any other. Connect again.")
}

// checkIdentity warns the client before its last grant expires, closes the connection when that has
// expired, and ends feeds whose rights have expired. It returns when to check again; zero: never.
func (c *conn) checkIdentity(now time.Time) time.Time {
	if c.expires.IsZero() || now.Before(c.expires) {
		return c.expires
	}
	next, last, forever := c.Identity.NextExpiry(now), time.Time{}, false
	for _, g := range c.Identity {
		forever = forever || g.Expires.IsZero()
		if g.Expires.After(last) {
			last = g.Expires
		}
	}
	for _, f := range c.feeds {
		if err := c.Identity.Check(core.Listen, f.address.String(), now); err != nil {
			f.ended(err)
		}
	}
	switch warning := last.Add(-expiryWarning); {
	case forever:
	case !now.Before(last):
		c.close(closeNotSignedIn, "All tokens of the connection have expired: connect again with a new token.")
	case now.Before(warning):
		if warning.Before(next) {
			next = warning
		}
	case !c.warned.Equal(last):
		c.warned = last
		c.tell("expiring", func(w codec.Writer) { w.Key("expires").Instant(last.UnixMilli()) })
	}
	c.expires = next
	return next
}
