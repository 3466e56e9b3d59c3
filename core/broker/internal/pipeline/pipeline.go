// Package pipeline passes messages through the routers in front of an entity, and parks messages
// whose router does not answer. The outcome for a group of messages is a Result, which the caller
// stores.
package pipeline

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

// Pipeline has the stages that messages pass before they enter an entity, whether they were sent or
// forwarded. All gateways of a namespace must have the same pipelines.
type Pipeline struct {
	// Entity is a case-insensitive name, or a pattern in which * matches any characters, also '/'.
	Entity  string
	Ingress []Stage
	// To, if not nil, is the stage after Ingress for messages with a To property.
	To *Stage
	// FollowTo has names of queues and topics, or patterns like Entity. If To is nil, a message
	// whose To property names another queue or topic that matches is routed there after Ingress.
	FollowTo []string
}

type Stage struct {
	Name        string
	Router      core.Router
	Parameters  core.Properties
	Unavailable Unavailable
}

type Unavailable uint8

// What happens to messages while a router does not answer. With Refuse and Park, a forwarded
// message waits in the queue that it comes from.
const (
	Refuse Unavailable = iota // the sender is asked to try again
	Pass
	Park // the message is accepted, and passes all stages when the router is back
)

type Stages struct {
	log    *slog.Logger
	entity string
	schema atomic.Pointer[stage] // the stage that checks the schema, before all others; nil: none
	stages []*stage
	Parks  bool
	// parked has for each partition the bit somethingParked and, above it, the number of calls of
	// NotePark. While messages of a partition may be parked, this gateway parks further messages
	// behind them, to keep the order of what it accepts.
	parked []atomic.Int64
}

type stage struct {
	Stage
	at     core.Stage
	counts *stageCounts
}

type stageCounts struct {
	judged, mismatched, dropped, deadLettered, rejected, routed, parked, passed, refused atomic.Int64
}

// StageCounts has the decisions of a stage at this gateway since the broker was made. A message
// that was refused or parked counts again when it returns to the stage.
type StageCounts struct {
	Entity       string `json:"entity"`
	Kind         string `json:"stage"`
	Router       string `json:"plugin"`
	Judged       int64  `json:"judged"`
	Mismatched   int64  `json:"mismatched,omitempty"` // did not match the schema; dead-lettered, refused or only counted
	Dropped      int64  `json:"dropped"`
	DeadLettered int64  `json:"deadLettered"`
	Rejected     int64  `json:"rejected"`
	Routed       int64  `json:"routed"` // to other entities; each message counts once
	Parked       int64  `json:"parked"`
	Passed       int64  `json:"passedUnjudged"`
	Refused      int64  `json:"refused"`
}

// New returns the first pipeline that matches the entity, an empty one if none matches, and nil for
// a subscription. parks means that rules of topics may park messages.
func New(ent *core.Entity, all []Pipeline, parks bool, find findFunc, log *slog.Logger) *Stages {
	if ent.Kind == core.Subscription {
		return nil
	}
	p := &Stages{log: log, entity: ent.Name, Parks: ent.Kind == core.Topic && parks}
	fits := func(c Pipeline) bool { return entity.FitsPattern(core.FoldName(c.Entity), core.FoldName(ent.Name)) }
	if i := slices.IndexFunc(all, fits); i >= 0 {
		c := &all[i]
		for _, s := range c.Ingress {
			p.add(ent, s, core.StageIngress)
		}
		switch {
		case c.To != nil:
			p.add(ent, *c.To, core.StageTo)
		case len(c.FollowTo) > 0:
			p.add(ent, Stage{Name: "to", Router: toRouter{find, c.FollowTo}}, core.StageTo)
		}
	}
	if len(p.stages) > 0 || p.Parks {
		p.parked = make([]atomic.Int64, ent.Partitions)
		for i := range p.parked {
			p.parked[i].Store(somethingParked) // messages may have been parked before this gateway started
		}
	}
	return p
}

// IsEmpty reports whether there are no stages and no schema, and rules cannot park messages.
func (p *Stages) IsEmpty() bool {
	return p == nil || len(p.stages) == 0 && !p.Parks && p.schema.Load() == nil
}

// SetSchema sets the router that compares messages with a schema; nil removes it. A new router
// continues the counts of the previous one. The router's verdict for a mismatch has a Reason. If
// that verdict is VerdictPass, the mismatch is only counted.
func (p *Stages) SetSchema(r *core.Router) {
	if r == nil {
		p.schema.Store(nil)
		return
	}
	counts := &stageCounts{}
	if old := p.schema.Load(); old != nil {
		counts = old.counts
	}
	p.schema.Store(&stage{Stage: Stage{Name: "schema", Router: *r}, at: core.Stage{Kind: core.StageSchema, Entity: p.entity}, counts: counts})
}

func (p *Stages) all() []*stage {
	if s := p.schema.Load(); s != nil {
		return append([]*stage{s}, p.stages...)
	}
	return p.stages
}

func (p *Stages) add(ent *core.Entity, s Stage, kind core.StageKind) {
	p.Parks = p.Parks || s.Unavailable == Park
	p.stages = append(p.stages, &stage{Stage: s, at: core.Stage{Kind: kind, Entity: ent.Name, Parameters: s.Parameters}, counts: &stageCounts{}})
}

func (s *stage) unavailable(ctx context.Context) error {
	if ctx.Err() != nil {
		return entity.ErrTimeout
	}
	if s.at.Kind == core.StageSchema {
		return core.Refuse(core.Busy, "Messages to '%s' are checked against a schema, but the serializer that decodes them for the check is not available. Please wait and try again.", s.at.Entity)
	}
	return core.Refuse(core.Busy, "The plugin '%s', which processes messages to '%s', is not available. Please wait and try again.", s.Name, s.at.Entity)
}

func (p *Stages) Counts() (all []StageCounts) {
	for _, s := range p.all() {
		c := s.counts
		all = append(all, StageCounts{
			Entity: s.at.Entity, Kind: s.at.Kind.String(), Router: s.Name,
			Judged: c.judged.Load(), Mismatched: c.mismatched.Load(), Dropped: c.dropped.Load(), DeadLettered: c.deadLettered.Load(), Rejected: c.rejected.Load(), Routed: c.routed.Load(),
			Parked: c.parked.Load(), Passed: c.passed.Load(), Refused: c.refused.Load(),
		})
	}
	return all
}

func (r Result) ParkAll() {
	for i := range r {
		r[i].park()
	}
}

const somethingParked = 1

// maxParkedLook is the number of messages of a transfer queue among which IsBehind looks for parked
// ones. If there are more messages, it assumes that some are parked.
const maxParkedLook = 20

func (p *Stages) IsBehind(ctx context.Context, store core.Store, v *entity.View, partition uint16) bool {
	l := &p.parked[partition]
	mark := l.Load()
	if mark&somethingParked == 0 {
		return false
	}
	transfer := v.Queues[core.Transfer][partition]
	c := store.StatsOf(ctx, []core.Partition{transfer})[0]
	if n := c.Stats.Ready + c.Stats.Locked; c.Err != nil || n > maxParkedLook || n > 0 && holdsParked(ctx, v, transfer) {
		return true
	}
	l.CompareAndSwap(mark, mark&^somethingParked)
	return false
}

func holdsParked(ctx context.Context, v *entity.View, p core.Partition) bool {
	ds, err := p.Peek(ctx, core.PeekRequest{Max: maxParkedLook + 1})
	return err != nil || len(ds) > maxParkedLook || slices.ContainsFunc(ds, func(d core.Delivery) bool {
		return d.Transit != nil && core.FoldName(d.Transit.Destination) == core.FoldName(v.Name)
	})
}

// NotePark records that messages may be parked. The caller must call it before it parks them.
func (p *Stages) NotePark(partition uint16) {
	l := &p.parked[partition]
	for {
		old := l.Load()
		if l.CompareAndSwap(old, (old|somethingParked)+2) {
			return
		}
	}
}
