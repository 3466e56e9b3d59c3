package bench

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

type Mode string

const (
	Throughput Mode = "throughput" // as fast as the credit and the windows allow
	Latency    Mode = "latency"    // at a fixed rate, with times measured from when each message was due
	Lone       Mode = "lone"       // each sender sends when its previous message has arrived
	Sessions   Mode = "sessions"   // one message to each of many sessions, which receivers then accept one after the other
	Idle       Mode = "idle"       // connections and waiting receivers, without messages
)

type Settle string

const (
	SettleBatch Settle = "batch" // accept many at once, as the credit allows, each confirmed by the broker
	SettleEach  Settle = "each"  // accept one message, and wait for the broker's confirmation
	SettleFirst Settle = "first" // accept without confirmation: receiver-settle-mode first
	SettleNone  Settle = "none"  // messages arrive settled: receive and delete
)

type Options struct {
	// URLs are amqp(s)://[user:password@]host[:port], or ws(s)://… for the gateway's own protocol.
	// The connections are spread over them. Either URLs or ConnectionString, of Service Bus, is
	// set.
	URLs             []string
	ConnectionString string
	// The queue Entity should be empty: with Verify, a message of another sender ends the run.
	Entity string
	// Queues, if more than 1, is the number of queues: Entity-0, Entity-1 and so on.
	Queues int
	// Dialers are for URLs with other schemes.
	Dialers map[string]Dialer
	// MessagePack replaces JSON in the gateway's own protocol.
	MessagePack bool
	// nil means the system's authorities.
	Roots *x509.CertPool

	Mode Mode
	// Messages or Duration end the sending. If both are zero, the run sends 100,000 messages or, in
	// modes latency, lone and idle, lasts ten seconds. In mode sessions, Messages is the number of
	// sessions.
	Messages int64
	Duration time.Duration
	// Rate is messages per second of all senders together, in mode latency.
	Rate float64
	Size int // bytes of a payload

	Senders     int
	Receivers   int // 0 to only send
	Connections int
	InFlight    int // unconfirmed messages per sender
	Credit      int // link credit per receiver
	Settle      Settle

	FillThenDrain bool
	Verify        bool
	// Patience ends the run if no message arrives for this time.
	Patience  time.Duration
	Processes []Process
}

type Process struct {
	Name string
	PID  int
}

func Defaults() Options {
	return Options{
		Mode: Throughput, Rate: 1000, Size: 1024, Queues: 1,
		Senders: 4, Receivers: 4, Connections: 4, InFlight: 100, Credit: 200,
		Settle: SettleBatch, Verify: true, Patience: 10 * time.Second,
	}
}

func (o *Options) Validate() error {
	var problems []error
	complain := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	if (len(o.URLs) == 0) == (o.ConnectionString == "") {
		complain("use either --url or --connection-string")
	} else if t, err := o.targets(); err != nil {
		problems = append(problems, err)
	} else if t[0].entity == "" {
		complain("--entity is missing: specify the queue to use")
	}
	switch o.Mode {
	case Throughput, Latency, Lone, Sessions, Idle:
	default:
		complain("--mode %q: use %s, %s, %s, %s or %s", o.Mode, Throughput, Latency, Lone, Sessions, Idle)
	}
	switch o.Settle {
	case SettleBatch, SettleEach, SettleFirst, SettleNone:
	default:
		complain("--settle %q: use %s, %s, %s or %s", o.Settle, SettleBatch, SettleEach, SettleFirst, SettleNone)
	}
	if o.Messages < 0 || o.Duration < 0 || o.Messages > 0 && o.Duration > 0 {
		complain("use either --messages or --duration, with a value above 0")
	}
	for _, n := range []struct {
		name        string
		v, min, max int
	}{
		{"size", o.Size, 0, 1 << 30},
		{"queues", o.Queues, 1, 10_000},
		{"senders", o.Senders, 1, 10_000},
		{"receivers", o.Receivers, 0, 10_000},
		{"connections", o.Connections, 1, 10_000},
		{"in-flight", o.InFlight, 1, 100_000},
		{"credit", o.Credit, 1, 100_000},
	} {
		if n.v < n.min || n.v > n.max {
			complain("--%s %d: use %d to %d", n.name, n.v, n.min, n.max)
		}
	}
	if o.Verify && o.Size < stampSize {
		complain("--size %d: use at least %d bytes, which verification writes into each message, or --verify=false", o.Size, stampSize)
	}
	if o.Mode == Latency && o.Rate <= 0 {
		complain("--rate %g: use a number above 0", o.Rate)
	}
	if o.Mode != Throughput && o.Mode != Idle {
		if o.Size < stampSize {
			complain("--size %d: mode %s writes %d bytes into each message: use a larger size", o.Size, o.Mode, stampSize)
		}
		if o.Receivers == 0 || o.FillThenDrain {
			complain("--mode %s requires receivers that run at the same time as the senders: leave out --receivers 0 and --fill-then-drain", o.Mode)
		}
	}
	if o.Mode == Sessions && (o.Duration > 0 || o.Settle == SettleNone || !o.Verify || o.Queues > 1) {
		complain("--mode %s uses one queue, and settles and verifies the number of messages in --messages: leave out --duration, --settle %s, --verify=false and --queues", o.Mode, SettleNone)
	}
	if o.Queues > 1 && o.Receivers > 0 && min(o.Senders, o.Receivers) < o.Queues && o.Mode != Idle {
		complain("--queues %d: each queue requires a sender and a receiver, but there are %d senders and %d receivers", o.Queues, o.Senders, o.Receivers)
	}
	if o.Patience <= 0 {
		complain("--patience %v: use a time above 0", o.Patience)
	}
	return errors.Join(problems...)
}

// limits returns 0 for no limit.
func (o *Options) limits() (messages int64, duration time.Duration) {
	switch {
	case o.Messages > 0 || o.Duration > 0:
		return o.Messages, o.Duration
	case o.Mode == Latency || o.Mode == Lone || o.Mode == Idle:
		return 0, 10 * time.Second
	default:
		return 100_000, 0
	}
}

func (o *Options) queues(entity string) (names []string) {
	if o.Queues <= 1 {
		return []string{entity}
	}
	for i := range o.Queues {
		names = append(names, fmt.Sprintf("%s-%d", entity, i))
	}
	return names
}

func (o *Options) receiveOptions() ReceiveOptions {
	return ReceiveOptions{Credit: o.Credit, Settle: o.Settle}
}
