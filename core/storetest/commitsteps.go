package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func (p *player) commit(pl *subject) {
	p.Helper()
	at := pl.Partition
	if p.pick(4) == 0 {
		p.reserve(pl)
		return
	}
	a, b := core.Work{}, core.Work{}
	a.Check = p.pick(8) == 0
	b.Check = a.Check
	var settled []settlementPair
	if p.pick(3) == 0 {
		settled = p.settlements(at)
	}
	for _, s := range settled {
		forA, forB := s.told()
		a.Settlements, b.Settlements = append(a.Settlements, forA), append(b.Settlements, forB)
	}
	if p.pick(8) == 0 {
		a.Cancels = p.someNumbers(at, p.of(at.Ref).scheduled)
		b.Cancels = a.Cancels
	}
	if pl.Sessions && p.pick(3) == 0 {
		l, state := p.sessionLock(pl), oneOf(p, nil, []byte{}, fmt.Appendf(nil, "s%d", len(p.story)))
		a.States, b.States = []core.SessionState{{Lock: l.a, State: state}}, []core.SessionState{{Lock: l.b, State: state}}
	}
	if p.pick(2) == 0 {
		a.Scheduled = p.someReserved(pl, a.Cancels)
		b.Scheduled = a.Scheduled
	}
	var ms []*core.Message
	if p.entity.Kind == core.Topic {
		v := p.version()
		a.Version, b.Version = v.a, v.b
		for range oneOf(p, 0, 1, 1, 2) {
			x := p.publication()
			ms = append(ms, x.Message)
			a.Publications = append(a.Publications, x)
			x.Message, x.Copies = cloneMessage(x.Message), cloneCopies(x.Copies)
			b.Publications = append(b.Publications, x)
		}
	} else if p.pick(4) > 0 {
		ms = p.groups(pl)[0]
		for _, m := range ms {
			a.Messages, b.Messages = append(a.Messages, m), append(b.Messages, cloneMessage(m))
		}
	}
	for i := range ms {
		if p.pick(3) == 0 {
			continue
		}
		e := core.Effect{Of: i, Instead: p.pick(2) == 0, Transfers: p.leaving(p.pick(3), "there"), DeadLetters: p.leaving(p.pick(2), "")}
		a.Effects = append(a.Effects, e)
		b.Effects = append(b.Effects, e)
	}
	a.Transfers = p.leaving(oneOf(p, 0, 0, 1), "there")
	b.Transfers = a.Transfers
	numbersA, errA := at.In(p.a).Commit(p.Context(), a)
	numbersB, errB := at.In(p.b).Commit(p.Context(), b)
	p.tell("commit %s: %v %v", p.work(&a, ms), positions(numbersA), errA)
	p.excuse(at.Ref)
	if a.Check {
		p.sameCode("check", errA, errB)
		if numbersA != nil || numbersB != nil {
			p.fail("check: got numbers %v and %v", numbersA, numbersB)
		}
		return
	}
	p.sameAppended("commit", at, [][]*core.Message{ms}, []core.Appended{{Numbers: numbersA, Err: errA}}, []core.Appended{{Numbers: numbersB, Err: errB}})
	if errA != nil {
		return
	}
	for _, x := range a.Scheduled {
		p.of(at.Ref).scheduled = append(p.of(at.Ref).scheduled, x.Number)
	}
	for _, s := range settled {
		if s.outcome == core.Defer {
			p.of(at.Ref).deferred = append(p.of(at.Ref).deferred, s.token.a.SequenceNumber())
		}
		p.spent(at, s.token)
	}
}

func (p *player) reserve(pl *subject) {
	p.Helper()
	a := core.Work{Reserve: p.clock.Now().Add(oneOf(p, 500*time.Millisecond, 2*time.Second, 10*time.Second))}
	b := a
	var ms []*core.Message
	for range 1 + p.pick(2) {
		m := p.message()
		m.Transit = nil
		m.ScheduledEnqueueTime = p.clock.Now().Add(oneOf(p, time.Millisecond, time.Second, 20*time.Second))
		if pl.Sessions {
			enter(m, p.session())
		}
		ms = append(ms, m)
		if p.entity.Kind == core.Topic {
			a.Publications, b.Publications = append(a.Publications, core.Publication{Message: m}), append(b.Publications, core.Publication{Message: cloneMessage(m)})
		} else {
			a.Messages, b.Messages = append(a.Messages, m), append(b.Messages, cloneMessage(m))
		}
	}
	if p.entity.Kind == core.Topic {
		v := p.version()
		a.Version, b.Version = v.a, v.b
	}
	numbersA, errA := pl.Partition.In(p.a).Commit(p.Context(), a)
	numbersB, errB := pl.Partition.In(p.b).Commit(p.Context(), b)
	p.tell("reserve %s until %v: %v %v", describe(ms, p.clock.Now()), a.Reserve, positions(numbersA), errA)
	p.sameCode("reserve", errA, errB)
	if !slices.Equal(numbersA, numbersB) {
		p.fail("reserve: model has %v, engine %v", numbersA, numbersB)
	}
	p.excuse(pl.Ref)
	for i, n := range numbersA {
		pl.reserved = append(pl.reserved, core.Reserved{Number: n, Message: ms[i]})
		if p.pick(4) == 0 {
			p.of(pl.Ref).scheduled = append(p.of(pl.Ref).scheduled, n) // so that some are cancelled
		}
	}
}

func (p *player) someReserved(pl *subject, cancels []int64) []core.Reserved {
	var some []core.Reserved
	for range p.pick(3) {
		if len(pl.reserved) == 0 {
			break
		}
		x := pl.reserved[len(pl.reserved)-1-p.pick(min(len(pl.reserved), 4))]
		if !slices.Contains(cancels, x.Number) {
			some = append(some, x)
		}
	}
	return some
}

func (p *player) leaving(n int, destination string) []*core.Message {
	var ms []*core.Message
	for range n {
		m := p.message()
		m.Transit = nil
		if destination != "" {
			m.Transit = &core.Transit{Destination: destination, Hops: uint8(p.pick(3)), Key: oneOf(p, "", "k0")}
		}
		ms = append(ms, m)
	}
	return ms
}

// ms are the messages that stay.
func (p *player) work(w *core.Work, ms []*core.Message) string {
	var text strings.Builder
	fmt.Fprintf(&text, "by %d, only check %t, %d states", w.Version, w.Check, len(w.States))
	for _, x := range w.Scheduled {
		fmt.Fprintf(&text, ", schedule %d", positions([]int64{x.Number}))
	}
	for _, s := range w.Settlements {
		fmt.Fprintf(&text, " %v %d backoff %v", s.Outcome, s.Token.Number(), s.Backoff)
	}
	fmt.Fprintf(&text, " cancel %v messages %s", positions(w.Cancels), describe(ms, p.clock.Now()))
	for _, e := range w.Effects {
		fmt.Fprintf(&text, " of %d, instead %t, transfers %s, dead letters %s", e.Of, e.Instead, describe(e.Transfers, p.clock.Now()), describe(e.DeadLetters, p.clock.Now()))
	}
	return text.String()
}
