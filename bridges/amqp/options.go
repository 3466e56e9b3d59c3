package amqp

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// Options say what a Bridge offers and tolerates. Zero fields have their defaults.
type Options struct {
	Logger *slog.Logger // default: nothing is logged

	// Hostname is the namespace's host in texts, "sb://Hostname/queue"; default: what the client calls us.
	Hostname string

	MaxFrameSize uint32 // bytes, both ways; 65536
	// MaxConnections is how many clients with a proven identity may be connected; more are closed
	// at once; 5000. The listener bounds the others: see bridges.Prove.
	MaxConnections int
	MaxSessions    int // of one connection, at most 65536; 8192
	MaxHandles     int // links of one session; 256
	MaxLinks       int // of one connection; 8192

	// SenderCredit is how many messages a client may have under way on one link to send on, sent and not stored yet;
	// 1000. It bounds the unsettled incoming messages of a link.
	SenderCredit int
	// MaxUnsettled bounds the deliveries of one link that the client has not settled; 10000. Further ones wait, until
	// it settles some or the locks of some have ended.
	MaxUnsettled int
	// MaxConnectionUnsettled is the same for all links of a connection together; 50000. What several links have asked
	// for at once goes back to the queue if it exceeds this.
	MaxConnectionUnsettled int
	// StrictTransactions refuses transactions over several entities, but for those of clients that put all their links
	// into the coordinator's AMQP session.
	StrictTransactions bool
	MaxPurge           int // messages that one batch delete may ask for; 4000
	// ExclusiveSessions refuses sessions that another receiver may take over, as the Standard tier does.
	ExclusiveSessions bool
	// MaxMessageBytes bounds the messages of one connection that are read and not stored yet, with what settlements
	// under way set: nothing is read while they have more bytes; 64 MiB.
	MaxMessageBytes int64
	// Budget bounds the memory of what all connections have in progress, Standing that of connections, sessions and
	// links; default: pools of the bridge's own.
	Budget, Standing *fair.Pool

	IdleTimeout      time.Duration // announced; a silent client is given up after twice that; 120 s
	HandshakeTimeout time.Duration // until open; 20 s
	AuthTimeout      time.Duration // from open until the client has proven an identity; 20 s
	WriteTimeout     time.Duration // of at most 1 MiB; a client that reads slower is closed; 30 s
	DrainGrace       time.Duration // for what is under way when the bridge stops or the client goes; 10 s
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	bridges.Default(&o.MaxFrameSize, 65536)
	bridges.Default(&o.MaxConnections, 5000)
	bridges.Default(&o.MaxSessions, 8192)
	bridges.Default(&o.MaxHandles, 256)
	bridges.Default(&o.MaxLinks, 8192)
	bridges.Default(&o.SenderCredit, 1000)
	bridges.Default(&o.MaxUnsettled, 10_000)
	bridges.Default(&o.MaxConnectionUnsettled, 50_000)
	bridges.Default(&o.MaxPurge, 4000)
	bridges.Default(&o.MaxMessageBytes, 64<<20)
	bridges.Default(&o.IdleTimeout, 120*time.Second)
	bridges.Default(&o.HandshakeTimeout, 20*time.Second)
	bridges.Default(&o.AuthTimeout, 20*time.Second)
	bridges.Default(&o.WriteTimeout, 30*time.Second)
	bridges.Default(&o.DrainGrace, 10*time.Second)
	o.Budget = cmp.Or(o.Budget, fair.New(0, nil, nil))
	o.Standing = cmp.Or(o.Standing, fair.New(0, nil, nil))
	o.MaxFrameSize = max(o.MaxFrameSize, minFrameSize)
	o.MaxSessions = min(o.MaxSessions, 65536)
	return o
}

// The bounds of a connection without a proven identity: clients begin sessions and attach links
// while their first token is under way.
const (
	strangerSessions = 100
	strangerLinks    = 100
	strangerBytes    = 2 * maxTokenSize // of requests that are read and not answered, and of those that are not complete
)

func (b *Bridge) bounds() engine.Bounds {
	return engine.Bounds{Sessions: b.opts.MaxSessions, Links: b.opts.MaxLinks}
}

// minFrameSize is what every AMQP peer must be able to take (AMQP 1.0 §2.8.19).
const minFrameSize = 512
