package storetest

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
)

func (p *player) recollect(at core.Partition, s core.Subject) {
	p.Helper()
	a, errA := at.In(p.a).Recollect(p.Context(), s)
	b, errB := at.In(p.b).Recollect(p.Context(), s)
	p.tell("recollect%s %q or %d: %d events %v", name(at), s.MessageID, s.Number, len(a), errA)
	p.sameCode("recollect", errA, errB)
	for i := range min(len(a), len(b)) {
		if diff := diffEvent(b[i], a[i]); diff != "" {
			p.fail("event %d differs (got: engine, want: model): %s", i, diff)
		}
	}
	if len(a) != len(b) {
		p.fail("model remembers %v, engine %v", kindsOf(a), kindsOf(b))
	}
}

func (p *player) annotate(at core.Partition) {
	p.Helper()
	e := core.Event{
		Time: p.clock.Now(), Kind: core.EventDelivered, Sub: at.Sub, Number: core.SequenceNumber(at.Index, p.position(at)),
		MessageID: core.StringID(fmt.Sprint(p.pick(3))), Note: core.Note{By: core.Party{Policy: "root", Peer: "somebody"}, Gateway: "g"},
	}
	a, b := at.In(p.a).Annotate(p.Context(), []core.Event{e}), at.In(p.b).Annotate(p.Context(), []core.Event{e})
	p.tell("annotate%s %d: %v", name(at), e.Number, a)
	p.sameCode("annotate", a, b)
}

func diffEvent(got, want core.Event) string {
	if got.Time.Equal(want.Time) && got.Until.Equal(want.Until) {
		got.Time, got.Until = want.Time, want.Until
	}
	if got == want {
		return ""
	}
	return fmt.Sprintf("got %+v, want %+v", got, want)
}

func kindsOf(events []core.Event) []core.EventKind {
	kinds := make([]core.EventKind, len(events))
	for i := range events {
		kinds[i] = events[i].Kind
	}
	return kinds
}
