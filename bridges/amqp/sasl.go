package amqp

import (
	"bytes"
	"context"
	"strings"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Authenticate answers a SASL init. Whoever does not use PLAIN is nobody before a token is put.
func (c *conn) Authenticate(mechanism value.Symbol, response []byte) {
	switch strings.ToUpper(string(mechanism)) {
	case "MSSBCBS", "ANONYMOUS", "EXTERNAL":
		c.eng.Authenticated(wire.SASLOK)
	case "PLAIN":
		c.authenticatePlain(response)
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
	c.async(func(ctx context.Context) func() {
		grant, err := c.bridge.authority.Key(ctx, policy, key)
		return func() {
			if err == nil {
				err = c.allow(grant)
			}
			switch {
			case err == nil:
				c.eng.Authenticated(wire.SASLOK)
			case core.CodeOf(err) == core.Unauthorized:
				c.eng.Authenticated(wire.SASLAuth)
			default:
				c.log.Error("authenticate", "err", err)
				c.eng.Authenticated(wire.SASLSysTemp)
			}
		}
	})
}
