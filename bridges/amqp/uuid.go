package amqp

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/crosstown-mq/crosstown/core/value"
)

// newUUID makes a random UUID. It identifies; it keeps no secret.
func newUUID() value.UUID {
	var u value.UUID
	binary.BigEndian.PutUint64(u[:8], rand.Uint64())
	binary.BigEndian.PutUint64(u[8:], rand.Uint64())
	u[6] = u[6]&0x0f | 0x40 // version 4
	u[8] = u[8]&0x3f | 0x80
	return u
}
