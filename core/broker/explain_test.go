package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// inHistories is inBubble with all entities remembering for a day.
func inHistories(t *testing.T, f func(t *testing.T, b *started), lines ...Pipeline) {
	t.Helper()
	t.Parallel()
	inBubbleWith(t, Options{
		Namespace: "ns", Gateway: "g1", Pipelines: lines, Histories: []For[core.HistoryBounds]{{Entity: "*", Set: core.HistoryBounds{Keep: 24 * time.Hour, Max: 1000}}},
	}, f)
}

// tells compares what is remembered of a message: a line an event, with what
// there is of the other entity, rule, plugin, policy and reason.
func (b *started) tells(t *testing.T, entity, id string, want ...string) {
	t.Helper()
	synctest.Wait()
	a, err := b.Explain(t.Context(), root, entity, core.Subject{MessageID: id})
	if err != nil {
		t.Fatalf("explain %s of %s: %v", id, entity, err)
	}
	var got []string
	for _, e := range a.Events {
		var line strings.Builder
		line.WriteString(string(e.Kind) + e.Sub.Suffix())
		for _, part := range [...]struct{ word, text string }{
			{"entity", e.Entity}, {"rule", e.Rule}, {"plugin", e.Plugin}, {"by", e.By.Policy}, {"why", e.Reason},
		} {
			if part.text != "" {
				line.WriteString(fmt.Sprintf(" %s=%s", part.word, part.text))
			}
		}
		got = append(got, line.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s of %s:\ngot  %s\nwant %s", id, entity, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// named gives a message an id.
func named(id string, m *core.Message) *core.Message {
	m.MessageID = core.StringID(id)
	return m
}

func TestAnAccountTellsWhoDidWhat(t *testing.T) {
	inHistories(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		ctx := core.WithPeer(t.Context(), "amqp 192.0.2.1:999")
		writer := core.Identity{{Policy: "reader", Rights: core.Listen}, {Policy: "writer", Rights: core.Send, Scope: "q"}}
		s, err := b.OpenSender(ctx, writer, core.At("q"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		numbers := s.Send(ctx, each(named("m", text("1")), named("n", text("2"))))
		in := b.receive(t, "q", core.PeekLock, 9)
		defer in.Close()
		for _, outcome := range []core.Outcome{core.Abandon, core.Complete} {
			for _, d := range in.take() {
				settle(t, b, "q", outcome, d)
			}
		}
		b.tells(t, "q", "m", "accepted by=writer", "delivered by=root", "abandoned by=root", "delivered by=root", "completed by=root")
		a, err := b.Explain(t.Context(), root, "Q/$DeadLetterQueue", core.Subject{Number: numbers[0].Numbers[0]})
		if err != nil || a.Entity != "q" || a.Kind != core.Queue || len(a.Events) != 5 {
			t.Fatalf("explain by number: got %+v, %v", a, err)
		}
		first, last := a.Events[0], a.Events[4]
		want := core.Note{By: core.Party{Policy: "writer", Peer: "amqp 192.0.2.1:999"}, Gateway: "g1"}
		if first.Note != want || first.Number != numbers[0].Numbers[0] || first.MessageID != core.StringID("m") || last.Gateway != "g1" {
			t.Errorf("got %+v … %+v, want first by %+v", first, last, want)
		}
	})
}

func TestAccountsAreForManagers(t *testing.T) {
	inHistories(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		for _, c := range []struct {
			id      core.Identity
			entity  string
			subject core.Subject
			want    core.Code
		}{
			{root, "q", core.Subject{MessageID: "m"}, ""},
			{core.Identity{{Rights: core.AllRights, Scope: "q"}}, "q", core.Subject{Number: 1}, ""},
			{core.Identity{{Rights: core.Listen | core.Send}}, "q", core.Subject{MessageID: "m"}, core.Unauthorized},
			{core.Identity{{Rights: core.AllRights, Scope: "p"}}, "q", core.Subject{MessageID: "m"}, core.Unauthorized},
			{nil, "q", core.Subject{MessageID: "m"}, core.Unauthorized},
			{root, "nosuch", core.Subject{MessageID: "m"}, core.NotFound},
			{root, "q", core.Subject{}, core.InvalidArgument},
		} {
			if _, err := b.Explain(t.Context(), c.id, c.entity, c.subject); core.CodeOf(err) != c.want {
				t.Errorf("%v of %q: got %v, want %q", c.subject, c.entity, err, c.want)
			}
		}
	})
}

func TestOnlyNamedEntitiesRemember(t *testing.T) {
	t.Parallel()
	o := Options{Namespace: "ns", Histories: []For[core.HistoryBounds]{{Entity: "Orders/*", Set: core.HistoryBounds{Keep: time.Hour, Max: 10}}, {Entity: "news", Set: core.HistoryBounds{Keep: time.Minute, Max: 99}}}}
	inBubbleWith(t, o, func(t *testing.T, b *started) {
		b.create(t, "orders/eu", partitioned)
		b.create(t, "orders")
		b.createTopic(t, "news")
		sub := b.subscribe(t, "news", "all", nil)
		for entity, want := range map[string]core.HistoryBounds{
			"orders/eu": {Keep: time.Hour, Max: 3}, "orders": {}, "news": {Keep: time.Minute, Max: 99}, sub: {Keep: time.Minute, Max: 99},
		} {
			e, err := b.entity(t.Context(), entity)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.View().Queues[core.DeadLetter][0].History; got != want {
				t.Errorf("%s: got %+v, want %+v", entity, got, want)
			}
			_, err = b.Explain(t.Context(), root, entity, core.Subject{MessageID: "m"})
			if want.Max == 0 != errors.Is(err, core.NotAllowed) {
				t.Errorf("explain of %s: got %v", entity, err)
			}
		}
	})
}

func TestAnAccountTellsOfRules(t *testing.T) {
	inHistories(t, func(t *testing.T, b *started) {
		b.createTopic(t, "news", func(s *core.Settings) { s.RequiresDuplicateDetection = true })
		east := b.subscribe(t, "news", "east", []core.Rule{sqlRule("by-region", "region = 'east'", ""), sqlRule("any", "1 = 1", ""), sqlRule("never", "1 = 2", "")})
		stamped := b.subscribe(t, "news", "stamped", []core.Rule{sqlRule("stamp", "region = 'east'", "SET stamped = 1")})
		held := b.subscribe(t, "news", "held", []core.Rule{sqlRule("r", "region = 'east'", "")}, sessions)
		b.subscribe(t, "news", "west", []core.Rule{sqlRule("r", "region = 'west'", "")})
		region := core.Property{Key: "region", Value: "east"}
		b.send(t, "news", named("m", with(text("1"), region)), named("m", with(text("1"), region)))
		b.tells(t, "news", "m", "accepted by=root", "matched entity="+east+" rule=any, by-region", "matched entity="+held+" rule=r why=Session id is null.",
			"matched entity="+stamped+" rule=stamp", "duplicate by=root")
		b.tells(t, east, "m", "accepted")
		b.tells(t, stamped, "m", "accepted")
		b.tells(t, held, "m", "accepted/$DeadLetterQueue")
		if _, err := b.UpdateRule(t.Context(), root, east, sqlRule("any", "1 = 2", "")); err != nil {
			t.Fatal(err)
		}
		later := named("l", text("2"))
		later.ScheduledEnqueueTime = b.Broker.store.Now().Add(time.Hour)
		b.send(t, "news", named("n", text("3")), later)
		b.tells(t, "news", "n", "accepted by=root", "unmatched")
		b.tells(t, "news", "l", "scheduled by=root")
		time.Sleep(time.Hour + time.Second)
		b.tells(t, "news", "l", "scheduled by=root", "activated", "unmatched", "published")
	})
}

func TestAnAccountTellsOfForwards(t *testing.T) {
	inHistories(t, func(t *testing.T, b *started) {
		b.create(t, "last")
		b.create(t, "middle", forwardTo("last"))
		b.create(t, "first", forwardTo("middle"))
		b.create(t, "lost", forwardTo("last"))
		b.send(t, "first", named("m", text("1")))
		rests()
		b.tells(t, "first", "m", "accepted by=root", "forwarded entity=middle")
		b.tells(t, "middle", "m", "accepted entity=first", "forwarded entity=last")
		b.tells(t, "last", "m", "accepted entity=middle")
		if err := b.DeleteEntity(t.Context(), root, "last"); err != nil {
			t.Fatal(err)
		}
		b.send(t, "lost", named("x", text("2")))
		rests()
		b.tells(t, "lost", "x", "accepted by=root", "accepted/$Transfer/$DeadLetterQueue", "completed")
	})
}

func TestAnAccountTellsOfRemotes(t *testing.T) {
	t.Parallel()
	o := Options{
		Namespace: "ns", Remotes: map[string]core.Remote{"HQ": newDistant()}, Histories: []For[core.HistoryBounds]{{Entity: "*", Set: core.HistoryBounds{Keep: time.Hour, Max: 100}}},
	}
	inBubbleWith(t, o, func(t *testing.T, b *started) {
		b.create(t, "q", forwardTo("hq:Orders"))
		b.send(t, "q", named("m", text("1")))
		rests()
		b.tells(t, "q", "m", "accepted by=root", "forwarded entity=hq:Orders")
		a, err := b.Explain(t.Context(), root, "q", core.Subject{MessageID: "m"})
		if next := a.Next(); err != nil || len(next) > 0 {
			t.Errorf("it goes on in %q, %v, but nobody here can tell", next, err)
		}
	})
}

func TestAnAccountTellsOfDeadLettersThatMoveOn(t *testing.T) {
	inHistories(t, func(t *testing.T, b *started) {
		b.create(t, "graves")
		b.create(t, "q", forwardDead("graves"), func(s *core.Settings) { s.LockDuration = 10 * time.Second; s.MaxDeliveryCount = 2 })
		in := b.receive(t, "q", core.PeekLock, 99)
		defer in.Close()
		b.send(t, "q", named("m", text("1")), named("n", text("2")))
		over, err := core.NewProperties(core.Property{Key: core.PropertyDeadLetterReason, Value: "mine"})
		if err != nil {
			t.Fatal(err)
		}
		ds := in.take()
		if errs := b.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: ds[0].LockToken, Outcome: core.DeadLetterOutcome, Properties: over}}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		time.Sleep(25 * time.Second)
		b.tells(t, "q", "m", "accepted by=root", "delivered by=root", "dead-lettered by=root why=mine", "forwarded/$DeadLetterQueue entity=graves")
		b.tells(t, "q", "n", "accepted by=root", "delivered by=root", "lock-expired", "delivered by=root", "lock-expired",
			"dead-lettered why="+core.ReasonMaxDeliveryCount, "forwarded/$DeadLetterQueue entity=graves")
		b.tells(t, "graves", "n", "accepted entity=q/$DeadLetterQueue")
	})
}

func TestAnAccountTellsOfStages(t *testing.T) {
	c := &clerk{}
	inHistories(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.create(t, "x")
		b.send(t, "q", named("drop", telling("1", "drop")), named("dead", telling("2", "dead reasons")), named("to", telling("3", "to x")),
			named("beside", telling("4", "beside x")), named("plain", text("5")))
		rests()
		b.tells(t, "q", "drop", "dropped plugin=clerk by=root why=unwanted")
		b.tells(t, "q", "dead", "diverted plugin=clerk by=root why=reasons", "accepted/$DeadLetterQueue")
		b.tells(t, "q", "to", "routed entity=x plugin=clerk by=root", "accepted/$Transfer", "forwarded/$Transfer entity=x")
		b.tells(t, "q", "beside", "routed entity=x plugin=clerk by=root", "accepted by=root", "accepted/$Transfer", "forwarded/$Transfer entity=x")
		b.tells(t, "q", "plain", "accepted by=root")
		b.tells(t, "x", "to", "accepted entity=q/$Transfer")
		c.fail(errDown)
		b.send(t, "q", named("late", telling("6", "drop")))
		rests()
		c.fail(nil)
		time.Sleep(time.Minute)
		b.tells(t, "q", "late", "parked by=root", "accepted/$Transfer", "dropped plugin=clerk why=unwanted",
			"released/$Transfer", "forwarded/$Transfer entity=q")
	}, through("q", c, Park))
}

func TestAnAccountTellsOfSessionsAndTransactions(t *testing.T) {
	inHistories(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful)
		b.create(t, "x")
		m := named("m", text("1"))
		m.SessionID = "s"
		b.send(t, "q", m)
		h := b.mustAccept(t, "q", "s")
		h.AddCredit(1, core.AnyMessage)
		d := h.take()[0]
		tx := b.Begin()
		reply := named("reply", text("2"))
		reply.SessionID = "s"
		for _, err := range []error{
			tx.Settle(t.Context(), root, core.At("q"), []core.Settlement{{Token: d.LockToken, Outcome: core.Complete}}),
			tx.Send(t.Context(), root, core.At("q"), core.Address{}, []*core.Message{reply}),
			tx.Send(t.Context(), root, core.At("x"), core.Address{}, []*core.Message{named("other", text("3"))}),
			tx.Commit(t.Context()),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		h.Close()
		rests()
		b.tells(t, "q", "m", "accepted by=root", "delivered by=root", "completed by=root")
		b.tells(t, "q", "reply", "accepted by=root")
		b.tells(t, "q", "other", "accepted/$Transfer", "forwarded/$Transfer entity=x")
		b.tells(t, "x", "other", "accepted entity=q/$Transfer")
	})
}

func TestAnAccountTellsOfSchedulesAndRemovals(t *testing.T) {
	inHistories(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		later := named("m", text("1"))
		later.ScheduledEnqueueTime = b.Broker.store.Now().Add(time.Hour)
		numbers := b.send(t, "q", later)
		if err := b.Cancel(t.Context(), root, core.At("q"), numbers); err != nil {
			t.Fatal(err)
		}
		b.tells(t, "q", "m", "scheduled by=root", "cancelled by=root")
		in := b.receive(t, "q", core.ReceiveAndDelete, 1)
		b.send(t, "q", named("n", text("2")))
		in.take()
		in.Close()
		b.tells(t, "q", "n", "accepted by=root", "delivered by=root", "completed")
		b.send(t, "q", named("o", text("3")))
		time.Sleep(time.Second)
		if n, err := b.Purge(t.Context(), root, core.At("q"), time.Now(), 9); n != 1 || err != nil {
			t.Fatalf("purge: got %d, %v", n, err)
		}
		b.tells(t, "q", "o", "accepted by=root", "completed by=root")
	})
}

// A store that does not answer costs notes, and nobody waits for it.
func TestHistoriesDelayNoCall(t *testing.T) {
	inHistories(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		deaf := &deaf{Store: b.store.Store}
		b.wrap(deaf)
		b.send(t, "q", named("m", text("1")))
		for range 52 { // more than may wait
			b.audit.Add(core.Partition{}.In(deaf), make([]core.Event, 1000)...)
		}
		time.Sleep(time.Minute)
		b.wrap(deaf.Store)
		b.tells(t, "q", "m", "accepted")
	})
}

// However many partitions the store does not answer for: neither who asks, nor a
// reset, nor the end of a gateway waits for each of them.
func TestTheNotesOfManyPartitionsWaitTogether(t *testing.T) {
	inHistories(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.wrap(&deaf{Store: b.store.Store})
		for i := range uint16(100) {
			b.audit.Add(core.Partition{Ref: core.Ref{Entity: "e", Index: i}}.In(b.store), core.Event{})
		}
		began := time.Now()
		if err := b.Reset(t.Context(), root); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a reset took %v", took)
		}
	})
}

// deaf is a store that takes no annotations.
type deaf struct{ core.Store }

func (s *deaf) Partition(r core.Ref, p core.Policy) core.Partition {
	inner := s.Store.Partition(r, p)
	inner.Operations = deafPartition{inner.Operations}
	return inner
}

type deafPartition struct{ core.Operations }

func (deafPartition) Annotate(ctx context.Context, _ []core.Event) error {
	<-ctx.Done()
	return ctx.Err()
}

// An account names the subscriptions that got no copy, and tests their present rules with a copy that is stored.
func TestAnAccountNamesSubscriptionsWithoutACopy(t *testing.T) {
	inHistories(t, func(t *testing.T, b *started) {
		b.createTopic(t, "news", partitioned)
		east := b.subscribe(t, "news", "east", []core.Rule{sqlRule("r", "region = 'east'", "")})
		west := b.subscribe(t, "news", "west", []core.Rule{sqlRule("a", "region = 'west'", ""), sqlRule("b", "price / 0 > 1", "")}, func(s *core.Settings) {
			s.DeadLetteringOnFilterEvaluationExceptions = false
		})
		four := make([]core.Rule, 4)
		for i := range four {
			four[i] = sqlRule(fmt.Sprint("r", i), "1 = 2", "")
		}
		many := b.subscribe(t, "news", "many", four)
		message := func(id, region string) *core.Message {
			return named(id, with(text(id), core.Property{Key: "region", Value: region}, core.Property{Key: "price", Value: int32(1)}))
		}
		b.send(t, "news", message("m", "east"), message("none", "north"))
		synctest.Wait()
		time.Sleep(time.Second)
		b.subscribe(t, "news", "later", []core.Rule{sqlRule("r", "1 = 2", "")})
		unmatched := func(id string, want ...string) {
			t.Helper()
			a, err := b.Explain(t.Context(), root, "news", core.Subject{MessageID: id})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, u := range a.Unmatched {
				got = append(got, u.Subscription)
				got = append(got, u.Why...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s:\ngot  %s\nwant %s", id, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
			}
		}
		ofMany := []string{many, "r0: 1 = 2 is false", "r1: 1 = 2 is false", "r2: 1 = 2 is false", "and 1 more"}
		const divided = "b: price / 0 > 1 cannot be evaluated: price is 1 (int) (Rule 'b': SQL filter, position 7: division by zero)"
		unmatched("m", append(ofMany, west, "a: region = 'west' is false: region is 'east' (string)", divided)...)
		const gone = "the rules cannot be tested, because no copy of the message is stored any more"
		unmatched("none", east, gone, many, gone, west, gone)

		// A dead letter is a copy, too, and rules that have changed are said to match.
		if _, err := b.UpdateRule(t.Context(), root, west, sqlRule("a", "region LIKE 'e%'", "")); err != nil {
			t.Fatal(err)
		}
		in := b.receive(t, east, core.PeekLock, 1)
		settle(t, b, east, core.DeadLetterOutcome, in.take()[0])
		unmatched("m", append(ofMany, west, "matches now, a: region LIKE 'e%' is true: region is 'east' (string)", divided)...)
		in.Close()
		dead := b.receive(t, east+"/$DeadLetterQueue", core.PeekLock, 1)
		settle(t, b, east+"/$DeadLetterQueue", core.Complete, dead.take()[0])
		dead.Close()
		unmatched("m", many, gone, west, gone)
	})
}

// An account says why an abandoned message has no further failure.
func TestAnAccountTellsOfBreakers(t *testing.T) {
	t.Parallel()
	o := withBreaker(10 * time.Second)
	o.Histories = []For[core.HistoryBounds]{{Entity: "*", Set: core.HistoryBounds{Keep: time.Hour, Max: 100}}}
	inBubbleWith(t, o, func(t *testing.T, b *started) {
		b.create(t, "q")
		in := b.receive(t, "q", core.PeekLock, 7)
		defer in.Close()
		b.send(t, "q", named("m", text("1")))
		for range 6 {
			settle(t, b, "q", core.Abandon, in.take()...)
			time.Sleep(10 * time.Second)
		}
		const held = "abandoned while the circuit breaker was open"
		b.tells(t, "q", "m", "accepted by=root", "delivered by=root", "abandoned by=root", "delivered by=root", "abandoned by=root",
			"delivered by=root", "abandoned by=root", "delivered by=root", "abandoned by=root", "delivered by=root", "abandoned by=root",
			"delivered by=root", "postponed by=root why="+held, "released", "delivered by=root")
	})
}
