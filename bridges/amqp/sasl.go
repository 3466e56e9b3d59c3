package amqp

import (
	"bytes"
	"context"
	"strings"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
)

// Authenticate answers a SASL init. A client that does not use PLAIN has no identity before it puts
// a token.
func (c *conn) Authenticate(init *wire.SASLInit) {
	c.hostname = init.Hostname
	switch strings.ToUpper(string(init.Mechanism)) {
	case "MSSBCBS", "ANONYMOUS", "EXTERNAL":
		c.eng.Authenticated(wire.SASLOK)
	case "PLAIN":
		c.authenticatePlain(init.InitialResponse)
	default:
		c.eng.Authenticated(wire.SASLAuth)
	}
}

// authenticatePlain reads "authzid NUL policy NUL key" (RFC 4616).
func (c *conn) authenticatePlain(response []byte) {
	fields := bytes.SplitN(response, []byte{0}, 3)
	if len(fields) != 3 {
		c.eng.Authenticated(wire.SASLAuth)
		return
	}
	policy, key := string(fields[1]), string(fields[2])
	hosts := c.hosts()
	c.async(func(ctx context.Context) func() {
		grant, err := c.bridge.authority.Key(ctx, hosts, policy, key)
		return func() {
			if err == nil {
				err = c.allow(grant)
			}
			switch {
			case err == nil:
				c.eng.Authenticated(wire.SASLOK)
			case core.CodeOf(err) == core.Unauthorized:
				c.eng.Authenticated(wire.SASLAuth)
			case core.CodeOf(err) == core.QuotaExceeded: // SASL has no words for it
				c.log.Debug("authenticate", "err", err)
				c.eng.Authenticated(wire.SASLSysTemp)
			default:
				c.log.Error("authenticate", "err", err)
				c.eng.Authenticated(wire.SASLSysTemp)
			}
		}
	})
}
