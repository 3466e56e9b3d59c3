package host

import (
	"sync/atomic"
	"time"

	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

// Condition is what a plugin is doing.
type Condition string

// The conditions.
const (
	Starting   Condition = "starting"   // for the first time
	Ready      Condition = "ready"      // it answers
	Restarting Condition = "restarting" // it was lost, or did not start, and is tried again soon
	Off        Condition = "off"        // it failed too often, and is tried again later
	Stopped    Condition = "stopped"    // with the gateway
)

// State describes a plugin at one moment.
type State struct {
	Name         string    `json:"name"`
	Path         string    `json:"path"`
	Condition    Condition `json:"condition"`
	Since        time.Time `json:"since"`             // of the condition
	Problem      string    `json:"problem,omitempty"` // the last one
	Calls        Calls     `json:"calls"`
	Launches     int       `json:"launches"` // that succeeded
	Failures     int       `json:"failures"` // in a row
	*Description `json:"plugin,omitempty"`
}

// Description is what a plugin's process, the present or the last one, says of itself.
type Description struct {
	Name         string   `json:"name"`
	Version      string   `json:"version,omitempty"`
	Contract     int      `json:"contract"`
	PID          string   `json:"pid"`
	Router       bool     `json:"router"`
	NeedsBody    bool     `json:"needsBody"`
	ContentTypes []string `json:"contentTypes,omitempty"` // of a serializer
}

// Calls counts since the gateway's start.
type Calls struct {
	Answered int64 `json:"answered"`
	Messages int64 `json:"messages"` // judged
	Late     int64 `json:"late"`     // not answered in time
	Failed   int64 `json:"failed"`   // refused, lost with a process, or answered with a failure
	Waiting  int   `json:"waiting"`  // messages, now
}

// counters are a plugin's Calls as they grow.
type counters struct{ answered, messages, late, failed atomic.Int64 }

func (c *counters) calls() Calls {
	return Calls{Answered: c.answered.Load(), Messages: c.messages.Load(), Late: c.late.Load(), Failed: c.failed.Load()}
}

func describe(d *pb.Description, pid string, contract int) *Description {
	return &Description{
		Name: d.Name, Version: d.Version, Contract: contract, PID: pid,
		Router: d.Router != nil, NeedsBody: d.Router.GetNeedsBody(),
		ContentTypes: d.Serializer.GetContentTypes(),
	}
}
