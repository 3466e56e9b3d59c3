package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Differential runs random operations, chosen by the seed, on one partition of a queue, or of a
// topic with its subscriptions, with or without sessions, in both stores, and compares every
// answer. a is the model. Both stores use the clock. restart, if not nil, is called at random
// times, and must restart b's process but keep its data. If b has a method Check, it is called
// after each step, and must return an error if b's data contradict each other. Answers must be
// equal except for nonces, versions of subscriptions and Stats.Bytes; errors are equal if their
// Codes are. The engine's next due time may be earlier than the model's, which only wakes a caller
// too early, but neither later nor in the past. The engine must notify all callers that the model
// notifies.
func Differential(t testing.TB, seed uint64, steps int, a, b core.Store, clock *Clock, restart func()) {
	t.Helper()
	play(t, fmt.Sprintf("seed %d", seed), fmt.Sprintf("seed-%d", seed), &dice{rand.New(rand.NewPCG(seed, 0)), steps}, a, b, clock, restart)
}

// Play is Differential with operations that data chooses, for fuzzing.
func Play(t testing.TB, data []byte, a, b core.Store, clock *Clock) {
	t.Helper()
	s := script(data)
	play(t, fmt.Sprintf("script %x", data), fmt.Sprintf("play-%d", plays.Add(1)), &s, a, b, clock, nil)
}

type player struct {
	testing.TB
	chooser
	title   string
	a, b    core.Store
	clock   *Clock
	restart func()

	entity   core.Entity
	subjects []*subject // the first is the queue or topic
	versions []pair[int64]
	ears     []*ear
	created  int
	history  core.HistoryBounds
	sent     int
	story    []string
}

type pair[T any] struct{ a, b T }

// plays makes the names of the entities unique.
var plays atomic.Int64

func play(t testing.TB, title, entity string, c chooser, a, b core.Store, clock *Clock, restart func()) {
	t.Helper()
	p := &player{TB: t, chooser: c, title: title, a: a, b: b, clock: clock, restart: restart}
	p.entity = newEntity(entity, "")
	p.entity.ID = strings.ReplaceAll(p.entity.Name, "-", "")
	if p.pick(3) == 0 {
		p.entity.Kind = core.Topic
	}
	p.history = oneOf(p, core.HistoryBounds{}, core.HistoryBounds{Keep: time.Hour, Max: 10_000}, core.HistoryBounds{Keep: 11 * time.Minute, Max: 40})
	own := p.newSubject(core.Ref{Entity: p.entity.ID, Index: oneOf[uint16](p, 0, fixtureIndex)})
	own.DuplicateWindow = oneOf(p, 0, 2*time.Second, 10*time.Second)
	if p.entity.Kind == core.Topic {
		own.Sessions, own.MaxDeliveryCount = false, 0
	}
	p.tell("%v, policy %+v", p.entity.Kind, own.Policy)
	_, errA := a.CreateEntity(t.Context(), p.entity, core.NamespaceQuotas{})
	_, errB := b.CreateEntity(t.Context(), p.entity, core.NamespaceQuotas{})
	p.sameCode("create entity", errA, errB)
	defer p.deafen()
	p.listen(own)
	if p.entity.Kind == core.Topic {
		p.look()
		for range 1 + p.pick(3) {
			p.subscribe()
		}
	}
	for p.more() {
		p.step()
		if c, ok := b.(interface{ Check() error }); ok {
			if err := c.Check(); err != nil {
				p.fail("after a step: %v", err)
			}
		}
		p.hear()
	}
	p.finish()
}

func (p *player) tell(format string, args ...any) {
	p.story = append(p.story, fmt.Sprintf(format, args...))
}

func (p *player) fail(format string, args ...any) {
	p.Helper()
	const tail = 40
	first := max(0, len(p.story)-tail)
	var b strings.Builder
	for i, line := range p.story[first:] {
		fmt.Fprintf(&b, "\n%5d %s", first+i, line)
	}
	p.Fatalf("%s: %s\nthe story, from its policy (%s), at its end:%s", p.title, fmt.Sprintf(format, args...), p.story[0], b.String())
}

// In half of all runs, finish moves the remaining messages to the other store.
func (p *player) finish() {
	p.Helper()
	if p.pick(2) == 1 {
		p.migrate()
	}
	for range 3 {
		p.everywhere(func(at core.Partition) { p.peek(at, 0, 1000) })
		p.advance(time.Hour)
		p.everywhere(p.stats)
		p.everywhere(func(at core.Partition) { p.recollect(at, core.Subject{MessageID: "1"}) })
	}
	for _, pl := range p.subjects {
		p.empty(pl)
	}
	e := p.entity
	p.sameCode("delete entity", p.a.DeleteEntity(p.Context(), e.Namespace, e.Name), p.b.DeleteEntity(p.Context(), e.Namespace, e.Name))
	p.tell("delete")
	p.everywhere(func(at core.Partition) {
		p.peek(at, 0, 1000)
		p.lock(at, core.Most{Messages: 5})
		p.recollect(at, core.Subject{MessageID: "1"})
	})
	for _, pl := range p.subjects {
		if pl.Sessions {
			p.accept(pl, "x")
			p.acceptNext(pl)
		}
	}
	p.feed(p.subjects[0])
}

func (p *player) everywhere(act func(at core.Partition)) {
	for _, pl := range p.subjects {
		for q := range core.SubQueues {
			act(pl.at(q))
		}
	}
}

func (p *player) empty(pl *subject) {
	p.Helper()
	if pl.Sessions {
		for p.acceptNext(pl) {
			p.lockIn(pl, pl.locks[len(pl.locks)-1], core.Most{Messages: 1000})
		}
	}
	for q := range core.SubQueues {
		p.lock(pl.at(q), core.Most{Messages: 1000})
	}
}

func (p *player) sameCode(what string, a, b error) {
	p.Helper()
	if core.CodeOf(a) != core.CodeOf(b) {
		p.fail("%s: model says %v, engine says %v", what, a, b)
	}
}

// sameNext allows an engine's due time that is earlier than the model's, but not in the past.
func (p *player) sameNext(model, engine time.Time) {
	p.Helper()
	now := p.clock.Now()
	switch {
	case !engine.IsZero() && !engine.After(now):
		p.fail("next: engine says %v, which is past at %v", engine, now)
	case !model.IsZero() && (engine.IsZero() || engine.After(model)):
		p.fail("next: model says %v, engine says %v", model, engine)
	}
}

func (p *player) sameDeliveries(a, b []core.Delivery) {
	p.Helper()
	if len(a) != len(b) {
		p.fail("model has %s, engine has %s", brief(a), brief(b))
	}
	for i := range a {
		if diff := diffDelivery(b[i], a[i]); diff != "" {
			p.fail("delivery %d differs (got: engine, want: model): %s", i, diff)
		}
	}
}

func brief(ds []core.Delivery) string {
	var b strings.Builder
	for _, d := range ds {
		_, n := core.SplitSequenceNumber(d.SequenceNumber)
		fmt.Fprintf(&b, " %d:%s", n, d.Body.Bytes)
		if d.DeliveryCount > 0 {
			fmt.Fprintf(&b, "(%d)", d.DeliveryCount)
		}
		if d.State != core.Active {
			fmt.Fprintf(&b, "[%v]", d.State)
		}
	}
	return "{" + strings.TrimSpace(b.String()) + "}"
}
