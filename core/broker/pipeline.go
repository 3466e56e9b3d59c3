package broker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
)

// Pipeline is the stages that messages pass on their way into entities, whether they are sent or
// forwarded. It is configuration: all gateways of a namespace must have the same.
type Pipeline struct {
	// Entity is the name of a queue or topic, or a pattern in which each * stands
	// for any characters, '/' too. Case does not matter.
	Entity string
	// Ingress are the stages, in the order in which messages pass them.
	Ingress []Stage
	// To, if not nil, is the stage for messages that have a To property, after Ingress.
	To *Stage
	// FollowTo, where To is nil, are names of queues and topics, or patterns like Entity. A message
	// whose To names another queue or topic that fits one of them is routed there after Ingress.
	FollowTo []string
}

// Stage is a router, and how it is used.
type Stage struct {
	Name        string // of the router, for peers and logs
	Router      core.Router
	Parameters  core.Properties
	Unavailable Unavailable
}

// Unavailable says what happens to a message whose router does not answer.
type Unavailable uint8

// What to do without a router. Under Refuse and Park, a forwarded message waits at its source.
const (
	Refuse Unavailable = iota // the sender is told to try again
	Pass                      // as if the stage were absent
	Park                      // the message is accepted, and passes all stages once the router is back
)

// entityPipeline is the pipeline of one entity.
type entityPipeline struct {
	stages []*stage
	parks  bool
	parked []parkedMark // by partition
}

// stage is a Stage of an entity's pipeline.
type stage struct {
	Stage
	at     core.Stage
	counts struct{ judged, dropped, deadLettered, routed, parked, passed, refused atomic.Int64 }
}

// StageCounts counts what a stage of this gateway has done with messages, since the broker was
// made. Messages that were refused or parked may come again.
type StageCounts struct {
	Entity       string `json:"entity"`
	Kind         string `json:"stage"`
	Router       string `json:"plugin"`
	Judged       int64  `json:"judged"`
	Dropped      int64  `json:"dropped"`
	DeadLettered int64  `json:"deadLettered"`
	Routed       int64  `json:"routed"` // to other entities; counts each message once
	// Messages without an answer of the router.
	Parked  int64 `json:"parked"`
	Passed  int64 `json:"passedUnjudged"`
	Refused int64 `json:"refused"`
}

// Stages returns the counts of all pipelines in use, by entity, in the order of the stages.
func (b *Broker) Stages() []StageCounts {
	all := []StageCounts{}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(b.entries)) {
		p := b.entries[name].pipeline
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

// newEntityPipeline is the pipeline of an entity: the first of the broker's whose pattern fits; nil
// if none does. A topic's may have no stages: rules that ask plugins may have messages parked.
func (b *Broker) newEntityPipeline(ent *core.Entity) *entityPipeline {
	if ent.Kind == core.Subscription {
		return nil
	}
	p := &entityPipeline{parked: make([]parkedMark, ent.Partitions), parks: ent.Kind == core.Topic && b.rulePlugins.park}
	for i := range p.parked {
		p.parked[i].mark.Store(somethingParked) // perhaps by an earlier gateway
	}
	for i := range b.options.Pipelines {
		c := &b.options.Pipelines[i]
		if !fitsPattern(core.FoldName(c.Entity), core.FoldName(ent.Name)) {
			continue
		}
		for _, s := range c.Ingress {
			p.add(ent, s, core.StageIngress)
		}
		switch {
		case c.To != nil:
			p.add(ent, *c.To, core.StageTo)
		case len(c.FollowTo) > 0:
			p.add(ent, Stage{Name: "to", Router: newToRouter(b, c.FollowTo)}, core.StageTo)
		}
		break
	}
	if len(p.stages) == 0 && !p.parks {
		return nil
	}
	return p
}

func (p *entityPipeline) add(ent *core.Entity, s Stage, kind core.StageKind) {
	p.parks = p.parks || s.Unavailable == Park
	p.stages = append(p.stages, &stage{Stage: s, at: core.Stage{Kind: kind, Entity: ent.Name, Parameters: s.Parameters}})
}

// fitsPattern reports whether a name fits a pattern.
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
		_, rest, ok = strings.Cut(rest, part) // the first match is as good as any
	}
	return ok && strings.HasSuffix(rest, parts[len(parts)-1])
}

// unavailable is the refusal of messages that a stage cannot judge.
func (s *stage) unavailable(ctx context.Context) error {
	if ctx.Err() != nil {
		return errTimeout
	}
	return core.Refuse(core.Busy, "The plugin '%s', which judges messages to '%s', is not available. Please wait and try again.", s.Name, s.at.Entity)
}
