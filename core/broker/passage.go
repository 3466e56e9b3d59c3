package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Reasons of dead letters that are made on their way in.
const (
	reasonRouter = "DeadLetteredByRouter" // where the router gives none
	// reasonBadVerdict is that of a message whose verdict cannot be carried out.
	reasonBadVerdict = "VerdictRefused"
)

// maxRoutes is how many entities a verdict may route a message to.
const maxRoutes = 100

// fate is what becomes of a message in the entity that it was sent to.
type fate uint8

const (
	kept    fate = iota
	gone         // elsewhere, or nowhere
	parked       // until its router is back
	refused      // see passenger.err
)

// passenger is a message on its way through the stages, and what becomes of it.
type passenger struct {
	m         *core.Message   // as the verdicts have it
	given     core.Properties // those it came with
	fate      fate
	err       error // why it is refused
	transfers []*core.Message
	dead      *core.Message // nil: none
	did       []core.Event  // what stages did with it, if that is
	at        time.Time     // to be remembered, and when they were asked
}

// isPlain reports whether the message is kept, and nothing else comes of it.
func (x *passenger) isPlain() bool { return x.fate == kept && len(x.transfers) == 0 }

// note keeps what a stage did with the message.
func (x *passenger) note(kind core.EventKind, plugin, to, reason string) {
	if !x.at.IsZero() {
		x.did = append(x.did, core.Event{Time: x.at, Kind: kind, Reason: reason, Note: core.Note{Plugin: plugin, Entity: to}})
	}
}

// park undoes what was decided so far: the message will pass all stages again.
func (x *passenger) park() {
	*x = passenger{m: x.m, given: x.given, fate: parked, at: x.at}
	x.m.Properties = x.given
	x.note(core.EventParked, "", "", "")
}

// passage takes messages through the stages of an entity: each stage is asked
// once for all that have come so far.
type passage struct {
	e   *entry
	v   *view
	all []passenger
}

// newPassage is one for groups, which have been admitted.
func newPassage(e *entry, v *view, groups [][]*core.Message) *passage {
	n := 0
	for _, g := range groups {
		n += len(g)
	}
	p := &passage{e: e, v: v, all: make([]passenger, 0, n)}
	var at time.Time
	if e.remembers() {
		at = e.b.store.Now()
	}
	for _, g := range groups {
		for _, m := range g {
			p.all = append(p.all, passenger{m: m, given: m.Properties, at: at})
		}
	}
	return p
}

// pass asks the stages.
func (p *passage) pass(ctx context.Context) {
	ms := make([]*core.Message, 0, len(p.all))
	way := make([]*passenger, 0, len(p.all))
	for _, st := range p.e.pipe.stages {
		ms, way = ms[:0], way[:0]
		for j := range p.all {
			if x := &p.all[j]; x.fate == kept && (st.at.Kind != core.StageTo || x.m.To != "") {
				ms, way = append(ms, x.m), append(way, x)
			}
		}
		if len(ms) > 0 {
			p.ask(ctx, st, ms, way)
		}
	}
}

// ask has one stage judge messages.
func (p *passage) ask(ctx context.Context, st *stage, ms []*core.Message, way []*passenger) {
	verdicts, err := st.Router.Route(ctx, st.at, ms)
	if err == nil && len(verdicts) != len(ms) {
		err = fmt.Errorf("%d verdicts for %d messages", len(verdicts), len(ms))
	}
	if err == nil {
		st.counts.judged.Add(int64(len(ms)))
		for i := range verdicts {
			p.carryOut(st, way[i], &verdicts[i])
		}
		return
	}
	p.e.b.log.Debug("a stage gave no answer", "entity", p.v.Name, "plugin", st.Name, "messages", len(ms), "err", err)
	count := &st.counts.refused
	switch st.Unavailable {
	case Pass:
		count = &st.counts.passed
	case Park:
		count = &st.counts.parked
	}
	count.Add(int64(len(ms)))
	for _, x := range way {
		switch st.Unavailable {
		case Pass:
		case Park:
			x.park()
		default:
			*x = passenger{m: x.m, given: x.given, fate: refused, err: st.unavailable(ctx)}
		}
	}
}

// carryOut does what a verdict says.
func (p *passage) carryOut(st *stage, x *passenger, v *core.Verdict) {
	if !v.Set.IsEmpty() || len(v.Remove) > 0 {
		before := x.m.Properties
		x.m.Properties = v.Revise(before)
		if err := p.v.check(x.m); err != nil {
			x.m.Properties = before
			st.counts.deadLettered.Add(1)
			x.bury(st, reasonBadVerdict, fmt.Sprintf("The plugin '%s' made of the message what cannot be stored. %s", st.Name, core.TextOf(err)))
			return
		}
	}
	switch v.Action {
	case core.VerdictPass:
		p.route(st, x, v)
	case core.VerdictDrop:
		x.fate = gone
		x.note(core.EventDropped, st.Name, "", v.Reason)
		st.counts.dropped.Add(1)
		p.e.b.log.Debug("message dropped by its router", "entity", p.v.Name, "plugin", st.Name, "reason", v.Reason)
	default:
		reason := v.Reason
		if reason == "" {
			reason = reasonRouter
		}
		st.counts.deadLettered.Add(1)
		x.bury(st, reason, v.Description)
	}
}

// bury makes a dead letter of the message.
func (x *passenger) bury(st *stage, reason, description string) {
	x.note(core.EventBuried, st.Name, "", reason)
	dead := *x.m
	dead.Properties = x.m.Properties.Merge(reasonProperties(reason, description))
	x.fate, x.dead = gone, &dead
}

// route sends the message to the entities that a verdict names, unless it is
// this one: there it stays.
func (p *passage) route(st *stage, x *passenger, v *core.Verdict) {
	if len(v.Routes) == 0 {
		return
	}
	if len(v.Routes) > maxRoutes {
		st.counts.deadLettered.Add(1)
		x.bury(st, reasonBadVerdict, fmt.Sprintf("The plugin '%s' routes the message to %d entities: at most %d are allowed.", st.Name, len(v.Routes), maxRoutes))
		return
	}
	stays := v.Beside
	seen := make(map[string]struct{}, len(v.Routes))
	for _, to := range v.Routes {
		name := core.ResourcePath(to)
		folded := core.FoldName(name)
		if folded == core.FoldName(p.v.Name) {
			stays = true
			continue
		}
		if _, twice := seen[folded]; twice {
			continue
		}
		seen[folded] = struct{}{}
		x.transfers = append(x.transfers, bound(x.m, name))
		x.note(core.EventRouted, st.Name, name, v.Reason)
	}
	if len(seen) > 0 {
		st.counts.routed.Add(1)
	}
	if !stays {
		x.fate = gone
	}
}

// bound is a copy of the message on its way to another entity. If it came from
// one it has that much of its way behind it.
func bound(m *core.Message, destination string) *core.Message {
	own, t := *m, core.Transit{}
	if m.Transit != nil {
		t = *m.Transit
	}
	t.Destination, t.Key = destination, ""
	own.Transit = &t
	return &own
}
