package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Reasons of dead letters that pipelines make.
const (
	reasonRouter = "DeadLetteredByRouter" // where the router gives no reason
	// reasonBadVerdict is for a message whose verdict cannot be carried out.
	reasonBadVerdict = "VerdictRefused"
)

// maxRoutes is how many entities a verdict may route a message to.
const maxRoutes = 100

// itemState says where a message is after the pipeline of the entity that it was sent to.
type itemState uint8

const (
	itemKept    itemState = iota
	itemGone              // routed to other entities, dead-lettered or dropped
	itemParked            // until its router is available
	itemRefused           // see item.err
)

// item is a message in a pipeline, and the result so far.
type item struct {
	m         *core.Message   // as changed by verdicts
	original  core.Properties // the properties that it was sent with
	state     itemState
	err       error // why it is refused
	transfers []*core.Message
	dead      *core.Message // its dead letter; nil: none
	events    []core.Event  // for its history, if there is one
	askedAt   time.Time     // time of the events; zero: there is no history
}

// isPlain reports whether the message is kept, without transfers beside it.
func (x *item) isPlain() bool { return x.state == itemKept && len(x.transfers) == 0 }

// note adds an event for the history.
func (x *item) note(kind core.EventKind, plugin, to, reason string) {
	if !x.askedAt.IsZero() {
		x.events = append(x.events, core.Event{Time: x.askedAt, Kind: kind, Reason: reason, Note: core.Note{Plugin: plugin, Entity: to}})
	}
}

// park undoes all verdicts: the message will pass all stages again.
func (x *item) park() {
	*x = item{m: x.m, original: x.original, state: itemParked, askedAt: x.askedAt}
	x.m.Properties = x.original
	x.note(core.EventParked, "", "", "")
}

// pipelineRun passes messages through the stages of an entity. Each stage is asked once, for all
// messages that have come so far.
type pipelineRun struct {
	e     *entry
	v     *view
	items []item
}

// newPipelineRun makes a run for groups of admitted messages.
func newPipelineRun(e *entry, v *view, groups [][]*core.Message) *pipelineRun {
	n := 0
	for _, g := range groups {
		n += len(g)
	}
	r := &pipelineRun{e: e, v: v, items: make([]item, 0, n)}
	var at time.Time
	if e.hasHistory() {
		at = e.b.store.Now()
	}
	for _, g := range groups {
		for _, m := range g {
			r.items = append(r.items, item{m: m, original: m.Properties, askedAt: at})
		}
	}
	return r
}

// run asks the stages, one after the other.
func (r *pipelineRun) run(ctx context.Context) {
	ms := make([]*core.Message, 0, len(r.items))
	way := make([]*item, 0, len(r.items))
	for _, st := range r.e.pipeline.stages {
		ms, way = ms[:0], way[:0]
		for j := range r.items {
			if x := &r.items[j]; x.state == itemKept && (st.at.Kind != core.StageTo || x.m.To != "") {
				ms, way = append(ms, x.m), append(way, x)
			}
		}
		if len(ms) > 0 {
			r.askStage(ctx, st, ms, way)
		}
	}
}

// askStage asks one stage for verdicts.
func (r *pipelineRun) askStage(ctx context.Context, st *stage, ms []*core.Message, way []*item) {
	verdicts, err := st.Router.Route(ctx, st.at, ms)
	if err == nil && len(verdicts) != len(ms) {
		err = fmt.Errorf("%d verdicts for %d messages", len(verdicts), len(ms))
	}
	if err == nil {
		st.counts.judged.Add(int64(len(ms)))
		for i := range verdicts {
			r.apply(st, way[i], &verdicts[i])
		}
		return
	}
	r.e.b.log.Debug("a stage did not answer", "entity", r.v.Name, "plugin", st.Name, "messages", len(ms), "err", err)
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
			*x = item{m: x.m, original: x.original, state: itemRefused, err: st.unavailable(ctx)}
		}
	}
}

// apply carries out a verdict.
func (r *pipelineRun) apply(st *stage, x *item, v *core.Verdict) {
	if !v.Set.IsEmpty() || len(v.Remove) > 0 {
		before := x.m.Properties
		x.m.Properties = v.Revise(before)
		if err := r.v.check(x.m); err != nil {
			x.m.Properties = before
			st.counts.deadLettered.Add(1)
			x.deadLetter(st, reasonBadVerdict, fmt.Sprintf("The plugin '%s' has changed the message into one that cannot be stored. %s", st.Name, core.TextOf(err)))
			return
		}
	}
	switch v.Action {
	case core.VerdictPass:
		r.route(st, x, v)
	case core.VerdictDrop:
		x.state = itemGone
		x.note(core.EventDropped, st.Name, "", v.Reason)
		st.counts.dropped.Add(1)
		r.e.b.log.Debug("message dropped by its router", "entity", r.v.Name, "plugin", st.Name, "reason", v.Reason)
	default:
		reason := v.Reason
		if reason == "" {
			reason = reasonRouter
		}
		st.counts.deadLettered.Add(1)
		x.deadLetter(st, reason, v.Description)
	}
}

// deadLetter makes a dead letter of the message.
func (x *item) deadLetter(st *stage, reason, description string) {
	x.note(core.EventBuried, st.Name, "", reason)
	dead := *x.m
	dead.Properties = x.m.Properties.Merge(reasonProperties(reason, description))
	x.state, x.dead = itemGone, &dead
}

// route makes a copy of the message for each entity that a verdict names. A message that is routed
// to its own entity stays there.
func (r *pipelineRun) route(st *stage, x *item, v *core.Verdict) {
	if len(v.Routes) == 0 {
		return
	}
	if len(v.Routes) > maxRoutes {
		st.counts.deadLettered.Add(1)
		x.deadLetter(st, reasonBadVerdict, fmt.Sprintf("The plugin '%s' routes the message to %d entities: at most %d are allowed.", st.Name, len(v.Routes), maxRoutes))
		return
	}
	stays := v.Beside
	seen := make(map[string]struct{}, len(v.Routes))
	for _, to := range v.Routes {
		name := core.ResourcePath(to)
		folded := core.FoldName(name)
		if folded == core.FoldName(r.v.Name) {
			stays = true
			continue
		}
		if _, twice := seen[folded]; twice {
			continue
		}
		seen[folded] = struct{}{}
		x.transfers = append(x.transfers, transferCopy(x.m, name))
		x.note(core.EventRouted, st.Name, name, v.Reason)
	}
	if len(seen) > 0 {
		st.counts.routed.Add(1)
	}
	if !stays {
		x.state = itemGone
	}
}

// transferCopy is a copy of the message on its way to another entity. The hops that the message has
// behind it count on.
func transferCopy(m *core.Message, destination string) *core.Message {
	own, t := *m, core.Transit{}
	if m.Transit != nil {
		t = *m.Transit
	}
	t.Destination, t.Key = destination, ""
	own.Transit = &t
	return &own
}
