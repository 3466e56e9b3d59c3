package host

import (
	"cmp"
	"time"
)

// Options say how one plugin is run. Zero fields have the defaults named here.
type Options struct {
	Name string // by which it is known in the gateway
	Path string // of the program: a path, or a name that is looked up in PATH
	Args []string
	// SHA256 is the checksum that the program's file must have, in hexadecimal; "": any.
	SHA256 string
	// Env is the program's whole environment, but for what the handshake needs:
	// NAME=VALUE, or NAME for the gateway's own value.
	Env []string
	Dir string // the program's working directory; "": the gateway's

	CallTimeout  time.Duration // for an answer, waiting included: 2s
	StartTimeout time.Duration // from the launch to the first answer: 10s
	DrainTimeout time.Duration // for the calls in flight when it is replaced or stopped: 5s

	Queue int // messages that may wait or be on their way; beyond, calls are refused as Busy: 10000
	Batch int // messages in one frame: 200

	BackoffMin time.Duration // the pause before a restart, doubled with each failure: 100ms
	BackoffMax time.Duration // 10s
	// Failures is how many in a row turn the plugin off: 5. Lost processes count, as
	// do launches that fail.
	Failures int
	// Off is how long it stays off before it is tried again: 30s.
	Off time.Duration
	// HealthInterval is the time between health checks: 5s.
	HealthInterval time.Duration
	// Memory is how many bytes the process may occupy, and Files how many it may
	// have open, before it is replaced by a new one, as in a reload; 0: any number.
	// They are looked at with the health, on Linux only.
	Memory int64
	Files  int
}

const (
	maxFrames     = 4        // of one stream, on their way
	maxFrameBytes = 1 << 20  // of one frame that has more than one request
	maxQueueBytes = 64 << 20 // of all requests that wait, unless there is only one
	missLimit     = 3        // calls without an answer, none being answered meanwhile, that make a process count as hung
	killGrace     = 2 * time.Second
)

func (o Options) withDefaults() Options {
	o.CallTimeout = cmp.Or(o.CallTimeout, 2*time.Second)
	o.StartTimeout = cmp.Or(o.StartTimeout, 10*time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 5*time.Second)
	o.Queue = cmp.Or(o.Queue, 10000)
	o.Batch = cmp.Or(o.Batch, 200)
	o.BackoffMin = cmp.Or(o.BackoffMin, 100*time.Millisecond)
	o.BackoffMax = max(o.BackoffMin, cmp.Or(o.BackoffMax, 10*time.Second))
	o.Failures = cmp.Or(o.Failures, 5)
	o.Off = cmp.Or(o.Off, 30*time.Second)
	o.HealthInterval = cmp.Or(o.HealthInterval, 5*time.Second)
	return o
}
