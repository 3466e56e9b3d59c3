package remote

import (
	"slices"
	"strings"
	"time"
)

type State struct {
	Name      string    `json:"name"`
	Address   string    `json:"address"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since"` // when the remote was connected or disconnected last
	Error     string    `json:"error,omitzero"`
	ErrorAt   time.Time `json:"errorAt,omitzero"`
	Window    int       `json:"window"`
	Targets   []Target  `json:"targets"`
	Sources   []Source  `json:"sources"`
}

type Target struct {
	Entity    string        `json:"entity"`
	Sent      int64         `json:"sent"`
	Parked    int64         `json:"parked"`
	Delayed   int64         `json:"delayed"` // messages that were not accepted for now, or not answered
	UnderWay  int64         `json:"underWay"`
	RoundTrip time.Duration `json:"roundTrip"` // moving average from sending to the answer, in nanoseconds
}

type Source struct {
	From     string        `json:"from"`
	Into     string        `json:"into"`
	Attached bool          `json:"attached"`
	Received int64         `json:"received"`
	Repeated int64         `json:"repeated"` // of these, messages that had been stored before
	Parked   int64         `json:"parked"`   // messages that cannot be stored: they were dead-lettered at the remote
	Behind   time.Duration `json:"behind"`   // age of the last message when it was stored, in nanoseconds
	Error    string        `json:"error,omitzero"`
}

func (r *Remote) State() State {
	r.mu.Lock()
	s := State{Name: r.o.Name, Address: r.o.Address, Connected: r.connection != nil, Since: r.since, ErrorAt: r.erred, Window: r.o.Window, Targets: []Target{}, Sources: []Source{}}
	if r.err != nil {
		s.Error = r.err.Error()
	}
	for _, t := range r.targets {
		s.Targets = append(s.Targets, Target{
			Entity: t.entity, Sent: t.sent.Load(), Parked: t.parked.Load(), Delayed: t.delayed.Load(),
			UnderWay: t.underWay.Load(), RoundTrip: time.Duration(t.trip.Load()),
		})
	}
	r.mu.Unlock()
	slices.SortFunc(s.Targets, func(a, b Target) int { return strings.Compare(a.Entity, b.Entity) })
	for _, from := range r.sources {
		source := Source{
			From: from.From, Into: from.Into, Attached: from.attached.Load(), Received: from.received.Load(),
			Repeated: from.repeated.Load(), Parked: from.parked.Load(), Behind: time.Duration(from.behind.Load()),
		}
		if err := from.err.Load(); err != nil {
			source.Error = (*err).Error()
		}
		s.Sources = append(s.Sources, source)
	}
	return s
}
