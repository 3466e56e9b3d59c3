package storetest

import (
	"fmt"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// commit carries out work at a queue or topic: a bit of everything.
func (p *player) commit(pl *place) {
	p.Helper()
	at := pl.Partition
	a, b := core.Work{}, core.Work{}
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
	numbersA, errA := p.a.Commit(p.Context(), at, a)
	numbersB, errB := p.b.Commit(p.Context(), at, b)
	p.tell("commit %s: %v %v", p.work(&a, ms), positions(numbersA), errA)
	p.sameAppended("commit", at, [][]*core.Message{ms}, []core.Appended{{Numbers: numbersA, Err: errA}}, []core.Appended{{Numbers: numbersB, Err: errB}})
	p.excuse(at.Ref)
	if errA != nil {
		return
	}
	for _, s := range settled {
		if s.outcome == core.Defer {
			p.of(at.Ref).deferred = append(p.of(at.Ref).deferred, s.token.a.SequenceNumber())
		}
		p.spent(at, s.token)
	}
}

// leaving makes messages that go to another sub-queue.
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

// work says what is to be done; ms are the messages that stay.
func (p *player) work(w *core.Work, ms []*core.Message) string {
	var text strings.Builder
	fmt.Fprintf(&text, "by %d", w.Version)
	for _, s := range w.Settlements {
		fmt.Fprintf(&text, " %v %d backoff %v", s.Outcome, s.Token.Number(), s.Backoff)
	}
	fmt.Fprintf(&text, " cancel %v messages %s", positions(w.Cancels), describe(ms, p.clock.Now()))
	for _, e := range w.Effects {
		fmt.Fprintf(&text, " of %d, instead %t, transfers %s, dead letters %s", e.Of, e.Instead, describe(e.Transfers, p.clock.Now()), describe(e.DeadLetters, p.clock.Now()))
	}
	return text.String()
}
