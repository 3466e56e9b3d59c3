package engine

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Options are what a connection offers and tolerates. All fields but Leeway and ByReference must be set.
type Options struct {
	ContainerID    string
	Mechanisms     []value.Symbol // SASL mechanisms, in the order of the offer
	Properties     value.Map      // of our open
	MaxFrameSize   uint32         // bytes, both ways
	MaxSessions    int            // at most 65536
	MaxHandles     int            // links of one session
	MaxLinks       int            // links of the connection
	IncomingWindow uint32         // transfer frames the peer may send on a session before we say more
	IdleTimeout    time.Duration  // announced to the peer; it is given up on after twice that
	// Begins, if not nil, is asked whether a session may begin; the error, which closes the connection, says why not.
	Begins      func() *wire.Error
	Leeway      time.Duration // how much before its time Tick sends a heartbeat, so that many go out together
	Limits      value.Limits  // of values in performatives
	ByReference int           // bytes of a body from which on Take does not copy them; 0: it copies all
}
