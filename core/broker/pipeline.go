package broker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
)

// Pipeline is what messages pass on their way into the entities that it is for,
// whether they are sent or forwarded. It is configuration: all gateways of a
// namespace must have the same.
type Pipeline struct {
	// Entity is the name of a queue or topic, or a pattern in which each * stands
	// for any characters, '/' too. Case does not matter.
	Entity string
	// Ingress are the stages, in the order in which messages pass them.
	Ingress []Stage
	// To, if not nil, interprets the To of those messages that have one and passed
	// Ingress.
	To *Stage
	// FollowTo, where To is nil, are names of queues and topics, or patterns as
	// Entity's. A message that passed Ingress and whose To names another queue or
	// topic that fits one of them goes there instead.
	FollowTo []string
}

// Stage is a router, and how it is used.
type Stage struct {
	Name        string // of the router: for peers and logs
	Router      core.Router
	Parameters  core.Properties
	Unavailable Unavailable
}

// Unavailable says what becomes of a message whose router gives no answer.
type Unavailable uint8

// The ways to do without a router. What was forwarded waits where it came from
// under Refuse and Park.
const (
	Refuse Unavailable = iota // the sender is told to try again
	Pass                      // as though the stage were absent
	Park                      // it is accepted, and passes all stages once the router is back
)

// pipe is the pipeline of one entity.
type pipe struct {
	stages []*stage
	parks  bool
	parked []backlog // by partition
}

// stage is a Stage at its place.
type stage struct {
	Stage
	at     core.Stage
	counts struct{ judged, dropped, deadLettered, routed, parked, passed, refused atomic.Int64 }
}

// StageCounts are how many messages a stage has done what with, here, since the
// broker was made. Messages that were refused or parked may come again.
type StageCounts struct {
	Entity       string `json:"entity"`
	Kind         string `json:"stage"`
	Router       string `json:"plugin"`
	Judged       int64  `json:"judged"`
	Dropped      int64  `json:"dropped"`
	DeadLettered int64  `json:"deadLettered"`
	Routed       int64  `json:"routed"` // to other entities, each message once
	// Without an answer.
	Parked  int64 `json:"parked"`
	Passed  int64 `json:"passedUnjudged"`
	Refused int64 `json:"refused"`
}

// Stages returns the counts of the pipelines that messages have come to, by
// entity, in the order of the stages.
func (b *Broker) Stages() []StageCounts {
	all := []StageCounts{}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(b.entries)) {
		p := b.entries[name].pipe
		if p == nil {
			continue
		}
		for _, s := range p.stages {
			c := &s.counts
			all = append(all, StageCounts{
				Entity: s.at.Entity, Kind: s.at.Kind.String(), Router: s.Name,
				Judged: c.judged.Load(), Dropped: c.dropped.Load(), DeadLettered: c.deadLettered.Load(), Routed: c.routed.Load(),
				Parked: c.parked.Load(), Passed: c.passed.Load(), Refused: c.refused.Load(),
			})
		}
	}
	return all
}

// newPipe is the pipeline that messages to the entity pass: that of the first of
// the broker's that is for it; nil if none is. One of a topic may do without
// stages: what rules ask about its messages may have them parked.
func (b *Broker) newPipe(ent *core.Entity) *pipe {
	if ent.Kind == core.Subscription {
		return nil
	}
	p := &pipe{parked: make([]backlog, ent.Partitions), parks: ent.Kind == core.Topic && b.filters.park}
	for i := range p.parked {
		p.parked[i].mark.Store(somethingParked) // by a gateway before this one, perhaps
	}
	for i := range b.options.Pipelines {
		line := &b.options.Pipelines[i]
		if !fitsPattern(core.FoldName(line.Entity), core.FoldName(ent.Name)) {
			continue
		}
		for _, s := range line.Ingress {
			p.add(ent, s, core.StageIngress)
		}
		switch {
		case line.To != nil:
			p.add(ent, *line.To, core.StageTo)
		case len(line.FollowTo) > 0:
			p.add(ent, Stage{Name: "to", Router: newAddressee(b, line.FollowTo)}, core.StageTo)
		}
		break
	}
	if len(p.stages) == 0 && !p.parks {
		return nil
	}
	return p
}

func (p *pipe) add(ent *core.Entity, s Stage, kind core.StageKind) {
	p.parks = p.parks || s.Unavailable == Park
	p.stages = append(p.stages, &stage{Stage: s, at: core.Stage{Kind: kind, Entity: ent.Name, Parameters: s.Parameters}})
}

// fitsPattern reports whether a name is what a pattern describes.
func fitsPattern(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	for _, part := range parts[1 : len(parts)-1] {
		if !ok {
			return false
		}
		_, rest, ok = strings.Cut(rest, part) // the first is as good as any
	}
	return ok && strings.HasSuffix(rest, parts[len(parts)-1])
}

// unavailable is the refusal of what a stage cannot judge.
func (s *stage) unavailable(ctx context.Context) error {
	if ctx.Err() != nil {
		return errTimeout
	}
	return core.Refuse(core.Busy, "The plugin '%s', which judges messages to '%s', is not available. Please wait and try again.", s.Name, s.at.Entity)
}
