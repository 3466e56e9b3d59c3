package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

const (
	reasonRouter = "DeadLetteredByRouter" // for routers that give no reason
	// reasonBadVerdict means that the verdict cannot be carried out.
	reasonBadVerdict = "VerdictRefused"
)

const maxRoutes = 100

type State uint8

const (
	Kept     State = iota
	Gone           // routed to other entities, dead-lettered or dropped
	Parked         // waits until its router answers
	Refused        // a verdict is missing: see Item.err
	Rejected       // a verdict refuses it: see Item.err
)

type Item struct {
	Message   *core.Message
	original  core.Properties
	State     State
	err       error // why the message is Refused or Rejected
	transfers []*core.Message
	dead      *core.Message // the dead letter made of the message; nil: none
	Events    []core.Event  // empty without a history
	askedAt   time.Time     // the time for Events; zero without a history
}

func (x *Item) isPlain() bool { return x.State == Kept && len(x.transfers) == 0 }

func (x *Item) note(kind core.EventKind, plugin, to, reason string) {
	if !x.askedAt.IsZero() {
		x.Events = append(x.Events, core.Event{Time: x.askedAt, Kind: kind, Reason: reason, Note: core.Note{Plugin: plugin, Entity: to}})
	}
}

// park undoes all verdicts, because the message will pass all stages again.
func (x *Item) park() {
	*x = Item{Message: x.Message, original: x.original, State: Parked, askedAt: x.askedAt}
	x.Message.Properties = x.original
	x.note(core.EventParked, "", "", "")
}

// Judge passes groups through the stages. If behind is true, earlier messages are parked. Judge
// then parks the groups, too, and asks only the schema, which may refuse or dead-letter messages at
// once. now is the time for events of the history; zero means that there is no history.
func (p *Stages) Judge(ctx context.Context, v *entity.View, groups [][]*core.Message, now time.Time, behind bool) []Result {
	stages := p.all()
	if behind {
		stages = stages[:len(stages)-len(p.stages)]
	}
	results := p.ask(ctx, v, groups, now, stages...)
	if behind {
		for _, r := range results {
			r.ParkBehind(true)
		}
	}
	return results
}

func (p *Stages) ask(ctx context.Context, v *entity.View, groups [][]*core.Message, now time.Time, stages ...*stage) []Result {
	items := make([]Item, 0, core.CountOf(groups))
	results := make([]Result, len(groups))
	for i, g := range groups {
		for _, m := range g {
			items = append(items, Item{Message: m, original: m.Properties, askedAt: now})
		}
		results[i] = items[len(items)-len(g) : len(items) : len(items)]
	}
	ms := make([]*core.Message, 0, len(items))
	way := make([]*Item, 0, len(items))
	for _, st := range stages {
		ms, way = ms[:0], way[:0]
		for j := range items {
			if x := &items[j]; x.State == Kept && (st.at.Kind != core.StageTo || x.Message.To != "") {
				ms, way = append(ms, x.Message), append(way, x)
			}
		}
		if len(ms) > 0 {
			p.askStage(ctx, v, st, ms, way)
		}
	}
	return results
}

// Refusal returns why the schema refuses a group of a transaction, or nil. It adds to the schema's
// counts only if the schema refuses, because a commit asks the schema again.
func (p *Stages) Refusal(ctx context.Context, v *entity.View, group []*core.Message) error {
	if p == nil {
		return nil
	}
	schema := p.schema.Load()
	if schema == nil {
		return nil
	}
	asked := *schema
	asked.counts = &stageCounts{}
	err := p.ask(ctx, v, [][]*core.Message{group}, time.Time{}, &asked)[0].Refusal()
	if n := asked.counts.rejected.Load(); n > 0 {
		schema.counts.judged.Add(int64(len(group)))
		schema.counts.mismatched.Add(n)
		schema.counts.rejected.Add(n)
	}
	return err
}

func (p *Stages) askStage(ctx context.Context, v *entity.View, st *stage, ms []*core.Message, way []*Item) {
	verdicts, err := st.Router.Route(ctx, st.at, ms)
	if err == nil && len(verdicts) != len(ms) {
		err = fmt.Errorf("the plugin '%s' returned %d verdicts for %d messages, but must return one for each", st.Name, len(verdicts), len(ms))
	}
	if err == nil {
		st.counts.judged.Add(int64(len(ms)))
		for i := range verdicts {
			p.apply(v, st, way[i], &verdicts[i])
		}
		return
	}
	p.log.Debug("a stage of the pipeline did not answer", "entity", v.Name, "plugin", st.Name, "messages", len(ms), "err", err)
	for _, x := range way {
		switch st.Unavailable {
		case Pass:
			st.counts.passed.Add(1)
		case Park:
			st.counts.parked.Add(1)
			x.park()
		default:
			st.counts.refused.Add(1)
			*x = Item{Message: x.Message, original: x.original, State: Refused, err: st.unavailable(ctx)}
		}
	}
}

func (p *Stages) apply(of *entity.View, st *stage, x *Item, v *core.Verdict) {
	isSchema := st.at.Kind == core.StageSchema
	if isSchema && v.Reason != "" {
		st.counts.mismatched.Add(1)
	}
	if v.Action == core.VerdictRefuse && x.Message.Transit == nil { // a forwarded message has no sender who could be refused
		st.counts.rejected.Add(1)
		why := v.Description
		if !isSchema {
			why = fmt.Sprintf("the plugin '%s' refused the message: %s", st.Name, cmp.Or(strings.Trim(v.Reason+": "+why, ": "), "the plugin gave no reason"))
		}
		*x = Item{Message: x.Message, original: x.original, State: Rejected, err: core.Refuse(core.NotAllowed, "%s", why)}
		return
	}
	if !v.Set.IsEmpty() || len(v.Remove) > 0 {
		before := x.Message.Properties
		x.Message.Properties = v.Revise(before)
		if err := of.Check(x.Message); err != nil {
			x.Message.Properties = before
			st.counts.deadLettered.Add(1)
			x.deadLetter(st, reasonBadVerdict, fmt.Sprintf("The plugin '%s' made the message invalid: %s", st.Name, core.TextOf(err)))
			return
		}
	}
	switch v.Action {
	case core.VerdictPass:
		route(of, st, x, v)
	case core.VerdictDrop:
		x.State = Gone
		x.note(core.EventDropped, st.Name, "", v.Reason)
		st.counts.dropped.Add(1)
		p.log.Debug("a router dropped a message", "entity", of.Name, "plugin", st.Name, "reason", v.Reason)
	default:
		st.counts.deadLettered.Add(1)
		x.deadLetter(st, cmp.Or(v.Reason, reasonRouter), v.Description)
	}
}

func (x *Item) deadLetter(st *stage, reason, description string) {
	by := st.Name
	if st.at.Kind == core.StageSchema {
		by = "" // the schema is not a plugin
	}
	x.note(core.EventDiverted, by, "", reason)
	dead := *x.Message
	dead.Properties = x.Message.Properties.Merge(core.ReasonProperties(reason, description))
	x.State, x.dead = Gone, &dead
}

// route adds a copy for each entity in the verdict, but keeps x for the message's own entity.
func route(of *entity.View, st *stage, x *Item, v *core.Verdict) {
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
		if folded == core.FoldName(of.Name) {
			stays = true
			continue
		}
		if _, twice := seen[folded]; twice {
			continue
		}
		seen[folded] = struct{}{}
		x.transfers = append(x.transfers, transferCopy(x.Message, name))
		x.note(core.EventRouted, st.Name, name, v.Reason)
	}
	if len(seen) > 0 {
		st.counts.routed.Add(1)
	}
	if !stays {
		x.State = Gone
	}
}

func transferCopy(m *core.Message, destination string) *core.Message {
	own, t := *m, core.Transit{}
	if m.Transit != nil {
		t = *m.Transit
	}
	t.Destination, t.Key = destination, ""
	own.Transit = &t
	return &own
}
