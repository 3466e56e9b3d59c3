package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func (s *fixture) remember(b core.HistoryBounds) { s.main.History = b }

// aDay are bounds that no test reaches.
var aDay = core.HistoryBounds{Keep: 24 * time.Hour, Max: 1000}

func (s *fixture) recollect(p core.Partition, id string) []core.Event {
	s.Helper()
	events, err := p.In(s.store).Recollect(s.Context(), core.Subject{MessageID: id})
	if err != nil {
		s.Fatalf("recollect: %v", err)
	}
	return events
}

// wantHistory compares the events of the message id with the lines want. A line has an event's
// kind, sub-queue and number and, if they are set, the other number, the count, the time left until
// Until, and the reason.
func (s *fixture) wantHistory(p core.Partition, id string, want ...string) {
	s.Helper()
	var got []string
	for _, e := range s.recollect(p, id) {
		_, n := core.SplitSequenceNumber(e.Number)
		line := fmt.Sprintf("%s%s %d", e.Kind, e.Sub.Suffix(), n)
		if e.Other != 0 {
			_, other := core.SplitSequenceNumber(e.Other)
			line += fmt.Sprintf(" → %d", other)
		}
		if e.Count != 0 {
			line += fmt.Sprintf(" (%d)", e.Count)
		}
		if !e.Until.IsZero() {
			line += " +" + e.Until.Sub(e.Time).String()
		}
		if e.Reason != "" {
			line += " " + e.Reason
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		s.Fatalf("history of %s:\ngot  %s\nwant %s", id, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

var historyStories = []story{
	{"a history tells what became of a message", func(s *fixture) {
		s.remember(aDay)
		s.send(text("other", id("o")))
		n := s.send(text("body", id("m")))[0]
		want(s, "number", n, number(2))
		s.settle(s.lockOne(), core.Complete)
		s.settle(s.lockOne(), core.Abandon)
		s.clock.Advance(time.Second)
		s.settle(s.lockOne(), core.Release)
		s.settle(s.lockOne(), core.Defer)
		s.settle(s.lockDeferred(n)[0], core.Complete)
		s.wantHistory(s.main, "m", "accepted 2", "abandoned 2 (1)", "released 2", "deferred 2 (2)", "completed 2")
		s.wantHistory(s.main, "o", "accepted 1", "completed 1")
		s.wantHistory(s.main, "nosuch")
		events := s.recollect(s.main, "m")
		s.wantTime("accepted", events[0].Time, s.clock.Now().Add(-time.Second))
		s.wantTime("released", events[2].Time, s.clock.Now())
		want(s, "id", events[0].MessageID, core.StringID("m"))
		byNumber, err := s.main.In(s.store).Recollect(s.Context(), core.Subject{Number: n})
		if err != nil || !slices.Equal(kindsOf(byNumber), kindsOf(events)) {
			s.Fatalf("recollect by number: got %v, %v, want %v", kindsOf(byNumber), err, kindsOf(events))
		}
	}},
	{"without bounds nothing is remembered", func(s *fixture) {
		s.send(text("body", id("m")))
		s.wantCode("annotate", s.main.In(s.store).Annotate(s.Context(), []core.Event{{Kind: core.EventDelivered, MessageID: core.StringID("m")}}), "")
		s.wantHistory(s.main, "m")
		s.remember(aDay)
		s.wantHistory(s.main, "m")
	}},
	{"ids of every type are remembered", func(s *fixture) {
		s.remember(aDay)
		for _, id := range []core.ID{core.ULongID(1 << 60), core.UUIDID([16]byte{1, 2, 254}), core.BinaryID([]byte{0, 255, 32}), core.StringID("a b\x00ü")} {
			s.send(&core.Message{MessageID: id, TimeToLive: time.Second})
			events := s.recollect(s.main, id.String())
			if len(events) != 1 || events[0].MessageID != id {
				s.Fatalf("history of %s: got %+v", id, events)
			}
		}
		s.send(text("none"))
		want(s, "events of no id", len(s.recollect(s.main, "")), 0)
	}},
	{"a history follows locks that expire to the dead letters", func(s *fixture) {
		s.remember(aDay)
		s.send(text("body", id("m")))
		for range maxDeliveries {
			s.lockOne()
			s.clock.Advance(lockDuration)
		}
		d := s.lockOneAt(s.dead())
		s.settleAt(s.dead(), d, core.Abandon)
		s.lockOneAt(s.dead())
		s.clock.Advance(lockDuration)
		s.settleAt(s.dead(), s.lockOneAt(s.dead()), core.Complete)
		for _, p := range []core.Partition{s.main, s.dead()} {
			s.wantHistory(p, "m", "accepted 1", "lock-expired 1 (1)", "lock-expired 1 (2)", "lock-expired 1 (3)",
				"dead-lettered 1 → 1 MaxDeliveryCountExceeded",
				"abandoned/$DeadLetterQueue 1", "lock-expired/$DeadLetterQueue 1", "completed/$DeadLetterQueue 1")
		}
	}},
	{"a history tells who dead-lettered", func(s *fixture) {
		s.remember(aDay)
		s.send(text("body", id("m")))
		s.settle(s.lockOne(), core.DeadLetterOutcome, properties(s, core.PropertyDeadLetterReason, "mine"))
		s.wantHistory(s.main, "m", "accepted 1", "dead-lettered 1 → 1")
	}},
	{"a history has the settlements of one call in their order", func(s *fixture) {
		s.remember(aDay)
		s.send(text("a", id("m")), text("b", id("m")), text("c", id("m")))
		ds := s.lock(3)
		for i, err := range s.main.In(s.store).Settle(s.Context(), []core.Settlement{
			{Token: ds[2].LockToken}, {Token: ds[0].LockToken}, {Token: ds[2].LockToken}, {Token: ds[1].LockToken},
		}) {
			s.wantCode("complete", err, []core.Code{"", "", core.LockLost, ""}[i])
		}
		s.wantHistory(s.main, "m", "accepted 1", "accepted 2", "accepted 3", "completed 3", "completed 1", "completed 2")
	}},
	{"a history tells of expiry", func(s *fixture) {
		s.remember(aDay)
		s.send(text("body", id("m"), ttl(time.Second)))
		s.clock.Advance(time.Second)
		s.wantHistory(s.main, "m", "accepted 1", "expired 1")
		s.main.DeadLetterExpired = true
		s.send(text("body", id("n"), ttl(time.Second)))
		s.clock.Advance(time.Second)
		s.wantHistory(s.main, "n", "accepted 2", "dead-lettered 2 → 1 TTLExpiredException")
	}},
	{"a history tells of schedules", func(s *fixture) {
		s.remember(aDay)
		s.send(text("body", id("m"), s.after(time.Minute)), text("other", id("c"), s.after(time.Minute)))
		s.wantCode("cancel", s.main.In(s.store).Cancel(s.Context(), []int64{number(2)}), "")
		s.clock.Advance(time.Minute)
		s.settle(s.lockOne(), core.Complete)
		s.wantHistory(s.main, "m", "scheduled 1 +1m0s", "activated 1 → 3", "completed 3")
		s.wantHistory(s.main, "c", "scheduled 2 +1m0s", "cancelled 2")
	}},
	{"a history tells of duplicates", func(s *fixture) {
		s.remember(aDay)
		s.main.DuplicateWindow = time.Minute
		s.send(text("body", id("m")))
		s.send(text("again", id("m")), text("repeated", id("m"), from("k")), text("repeated", id("m"), from("k")))
		s.wantHistory(s.main, "m", "accepted 1", "duplicate 0", "duplicate 0")
	}},
	{"a history tells of delays", func(s *fixture) {
		s.remember(aDay)
		s.send(text("body", id("m")))
		for range 2 {
			errs := s.main.In(s.store).Settle(s.Context(), []core.Settlement{{
				Token: s.lockOne().LockToken, Outcome: core.Abandon, Backoff: core.Backoff{First: time.Second, Factor: 3, Max: time.Minute},
			}})
			s.wantCode("abandon", errs[0], "")
			s.clock.Advance(3 * time.Second)
		}
		s.settle(s.lockOne(), core.Abandon)
		s.wantHistory(s.main, "m", "accepted 1", "postponed 1 +1s", "returned 1 (1)", "postponed 1 +3s", "returned 1 (2)",
			"abandoned 1 (3)", "dead-lettered 1 → 1 MaxDeliveryCountExceeded")
	}},
	{"a history tells of sessions", func(s *fixture) {
		s.remember(aDay)
		s.main.Sessions = true
		for _, m := range []string{"a", "b"} {
			s.send(text(m, id(m), func(m *core.Message) { m.SessionID = "s" }))
		}
		l := s.accept("s")
		s.lockIn(l, 2)
		s.release(l)
		l = s.accept("s")
		s.lockIn(l, 2)
		s.clock.Advance(sessionEnd)
		l = s.accept("s")
		s.settle(s.lockIn(l, 1)[0], core.Complete)
		s.wantHistory(s.main, "a", "accepted 1", "released 1", "lock-expired 1 (1)", "completed 1")
		s.wantHistory(s.main, "b", "accepted 2", "released 2", "lock-expired 2 (1)")
	}},
	{"a history tells of transactions", func(s *fixture) {
		s.remember(aDay)
		s.send(text("a", id("a")))
		d := s.lockOne()
		_, err := s.main.In(s.store).Commit(s.Context(), core.Work{
			Settlements: []core.Settlement{{Token: d.LockToken}},
			Messages:    []*core.Message{text("b", id("b")), text("c", id("c"))},
			Transfers:   []*core.Message{text("t", id("t"), brings(core.Transit{Destination: "there"}))},
			Effects:     []core.Effect{{Of: 1, Instead: true, DeadLetters: []*core.Message{text("d", id("d"))}}},
		})
		s.wantCode("commit", err, "")
		s.wantHistory(s.main, "a", "accepted 1", "completed 1")
		s.wantHistory(s.main, "b", "accepted 2")
		s.wantHistory(s.main, "c")
		s.wantHistory(s.main, "t", "accepted/$Transfer 1")
		s.wantHistory(s.main, "d", "accepted/$DeadLetterQueue 1")
	}},
	{"topics and subscriptions have histories of their own", onTopic(func(p *press) {
		p.topic.History = aDay
		to := func(name string, sub core.SubQueue) core.Partition {
			at := p.at(name)
			at.Sub, at.History = sub, aDay
			return at
		}
		copies := func(m *core.Message) []core.Copy {
			return []core.Copy{{To: new(to("a", core.Main)), Message: m}, {To: new(to("b", core.DeadLetter)), Message: m}}
		}
		matched, unmatched, later := text(strings.Repeat("x", 5000), id("m")), text("u", id("u")), text("l", id("l"), p.after(time.Minute))
		later.TimeToLive = time.Hour
		answers := p.topic.In(p.store).Publish(p.Context(), p.version, [][]core.Publication{
			{{Message: matched, Copies: copies(matched)}, {Message: unmatched}, {Message: later}},
		})
		p.wantCode("publish", answers[0].Err, "")
		p.wantHistory(p.topic, "m", "accepted 1")
		p.wantHistory(p.topic, "u", "accepted 2")
		p.wantHistory(to("a", core.Main), "m", "accepted 1 → 1")
		p.wantHistory(to("b", core.Main), "m", "accepted/$DeadLetterQueue 1 → 1")
		p.wantHistory(to("c", core.Main), "m")
		p.clock.Advance(time.Minute)
		d := p.lockOneAt(p.topic)
		answers = p.topic.In(p.store).Publish(p.Context(), p.version, [][]core.Publication{
			{{Message: d.Message, Source: d.LockToken, Copies: copies(d.Message)}},
		})
		p.wantCode("publish what was due", answers[0].Err, "")
		p.wantHistory(p.topic, "l", "scheduled 3 +1m0s", "activated 3 → 4", "published 4")
		p.wantHistory(to("a", core.Main), "l", "accepted 2 → 4")
	})},
	{"the broker's events are kept as they are", func(s *fixture) {
		s.remember(aDay)
		s.send(text("body", id("m")))
		e := core.Event{
			Time: s.clock.Now(), Kind: core.EventForwarded, Sub: core.Transfer, Number: number(7), Other: number(8),
			MessageID: core.ULongID(5), Count: 3, Until: s.clock.Now().Add(time.Hour), Reason: "because",
			Note: core.Note{
				By: core.Party{Policy: "root", Peer: "amqp 127.0.0.1:9"}, Entity: "there", Rule: "r", Plugin: "p", Gateway: "g",
			},
		}
		s.clock.Advance(time.Second)
		s.wantCode("annotate", s.main.In(s.store).Annotate(s.Context(), slices.Repeat([]core.Event{e}, 700)), "")
		got := s.recollect(s.main, "5")
		want(s, "events", len(got), 700)
		for i := range got {
			if diff := diffEvent(got[i], e); diff != "" {
				s.Fatalf("event %d: %s", i, diff)
			}
		}
	}},
	{"a history is bounded by time", func(s *fixture) {
		s.remember(core.HistoryBounds{Keep: 10 * time.Minute, Max: 1000})
		s.send(text("body", id("m")))
		s.clock.Advance(5 * time.Minute)
		s.settle(s.lockOne(), core.Release)
		s.clock.Advance(5*time.Minute - time.Millisecond)
		s.wantHistory(s.main, "m", "accepted 1", "released 1")
		s.clock.Advance(time.Millisecond)
		byNumber, err := s.main.In(s.store).Recollect(s.Context(), core.Subject{Number: number(1)})
		if err != nil || !slices.Equal(kindsOf(byNumber), []core.EventKind{core.EventReleased}) {
			s.Fatalf("after ten minutes: got %v, %v", kindsOf(byNumber), err)
		}
		s.clock.Advance(5 * time.Minute)
		want(s, "after fifteen minutes", len(s.recollect(s.main, "m")), 0)
	}},
	{"a history is bounded by number", func(s *fixture) {
		s.remember(core.HistoryBounds{Keep: time.Hour, Max: 10})
		for i := range 500 {
			s.send(text("body", id(fmt.Sprint(i))))
		}
		for i := range 500 {
			n := len(s.recollect(s.main, fmt.Sprint(i)))
			if i >= 490 != (n == 1) {
				s.Fatalf("message %d of 500: got %d events", i, n)
			}
		}
	}},
	{"an answer has the latest of many events", func(s *fixture) {
		s.remember(core.HistoryBounds{Keep: time.Hour, Max: 10_000})
		for i := range core.MaxEvents + 5 {
			s.send(text(fmt.Sprint(i), id("m")))
		}
		events := s.recollect(s.main, "m")
		want(s, "events", len(events), core.MaxEvents)
		want(s, "first", events[0].Number, number(6))
		want(s, "last", events[len(events)-1].Number, number(core.MaxEvents+5))
	}},
	{"an entity that is cleared has no history", onTopic(func(p *press) {
		p.topic.History = aDay
		m := text("body", id("m"))
		at := p.at("a")
		at.History = aDay
		p.publish(core.Publication{Message: m, Copies: []core.Copy{{To: &at, Message: m}}})
		p.wantCode("clear", p.topic.In(p.store).Clear(p.Context()), "")
		p.wantHistory(p.topic, "m")
		p.wantHistory(at, "m")
		p.publish(core.Publication{Message: m, Copies: []core.Copy{{To: &at, Message: m}}})
		p.wantHistory(p.topic, "m", "accepted 2")
		p.wantHistory(at, "m", "accepted 2 → 2")
	})},
	{"an entity that is made anew has no history", func(s *fixture) {
		s.remember(aDay)
		s.send(text("body", id("m")))
		s.wantCode("delete", s.store.DeleteEntity(s.Context(), "ns", "orders"), "")
		s.wantCode("annotate", s.main.In(s.store).Annotate(s.Context(), []core.Event{{Time: s.clock.Now(), MessageID: core.StringID("m")}}), "")
		s.wantHistory(s.main, "m")
	}},
}
