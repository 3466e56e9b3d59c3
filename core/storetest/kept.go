package storetest

import (
	"fmt"
	"strings"
	"testing"

	_ "embed"

	"github.com/crosstown-mq/crosstown/core"
)

// keptText is what kept returns for a store that version 8fcb296 has filled with Keep. Each engine
// has such a store in its testdata, because every later version must be able to read it.
//
//go:embed testdata/kept.txt
var keptText string

const (
	keptTopic = "kept-topic"
	keptOf    = "kept-subscription"
)

func Keep(tb testing.TB, store core.Store, clock *Clock) {
	tb.Helper()
	stocks.Store(0)
	for _, k := range Kinds() {
		if k.Name != "locked in a session" { // such a lock ends with the gateway
			NewStock(tb, store, clock, k).Fill(3, 50)
		}
	}
	topic := newEntity(keptTopic, keptTopic)
	topic.Kind, topic.Settings = core.Topic, core.DefaultSettings(core.Topic)
	subscription := newEntity(core.SubscriptionPath(keptTopic, keptOf), keptOf)
	subscription.Kind, subscription.Settings, subscription.TopicID = core.Subscription, core.DefaultSettings(core.Subscription), topic.ID
	subscription.Rules = []core.Rule{
		{Name: "sql", Filter: core.Filter{Kind: core.SQLFilter, SQL: "amount > @least", Parameters: mustProperties("@least", int64(100))}, Action: "SET seen = TRUE"},
		{Name: "all", Filter: core.Filter{Kind: core.TrueFilter}},
	}
	for _, e := range []core.Entity{topic, subscription} {
		if _, err := store.CreateEntity(tb.Context(), e, core.NamespaceQuotas{}); err != nil {
			tb.Fatalf("create %s: %v", &e, err)
		}
	}
}

func WantKept(tb testing.TB, store core.Store) {
	tb.Helper()
	got, want := strings.Split(kept(tb, store), "\n"), strings.Split(keptText, "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			tb.Errorf("the contents of the store differ from line %d on: got\n%s\nwant\n%s", i+1, strings.Join(got[i:min(i+3, len(got))], "\n"), strings.Join(want[i:min(i+3, len(want))], "\n"))
			return
		}
	}
}

func kept(tb testing.TB, store core.Store) string {
	tb.Helper()
	var b strings.Builder
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	var all []core.Entity
	for _, l := range []core.Listing{{Kind: core.Queue}, {Kind: core.Topic}, {Kind: core.Subscription, Topic: keptTopic}} {
		es, err := store.Entities(tb.Context(), "ns", l, 0, 1000)
		must(err)
		all = append(all, es...)
	}
	for _, e := range all {
		fmt.Fprintf(&b, "%s, made %s: locks %v, at most %d deliveries, sessions %t, %d MB, %v\n", &e, e.CreatedAt.UTC(),
			e.Settings.LockDuration, e.Settings.MaxDeliveryCount, e.Settings.RequiresSession, e.Settings.MaxSizeInMegabytes, e.Settings.Status)
		if e.Kind == core.Subscription {
			rules, err := store.Rules(tb.Context(), e, 0, 100)
			must(err)
			for _, r := range rules {
				fmt.Fprintf(&b, "  rule %s: %v %s %s; %s\n", r.Name, r.Filter.Kind, r.Filter.SQL, render(r.Filter.Parameters), r.Action)
			}
		}
		for index := range e.Partitions {
			for which := range core.SubQueues {
				keptIn(tb, &b, store, e.Partition(uint16(index), which))
			}
		}
	}
	return b.String()
}

func keptIn(tb testing.TB, b *strings.Builder, store core.Store, p core.Partition) {
	tb.Helper()
	stats, err := Stats(tb.Context(), store, p)
	if err != nil {
		tb.Fatal(err)
	}
	if stats.Enqueued == 0 {
		return
	}
	fmt.Fprintf(b, "  partition %d, sub-queue %d: %d ready, %d locked, %d deferred, %d scheduled, %d numbers, %d sessions held, %d waiting\n", p.Index, p.Sub,
		stats.Ready, stats.Locked, stats.Deferred, stats.Scheduled, stats.Enqueued, stats.SessionsHeld, stats.SessionsWaiting)
	for _, state := range []core.State{core.Active, core.Deferred, core.Scheduled} {
		ds, err := p.In(store).Peek(tb.Context(), core.PeekRequest{Max: 100, State: new(state)})
		if err != nil {
			tb.Fatal(err)
		}
		for _, d := range ds {
			fmt.Fprintf(b, "    %v %d of %s, count %d, until %s, %s: %v %q %q %q %s, %d bytes, %s\n", d.State, d.SequenceNumber, d.EnqueuedTime.UTC(), d.DeliveryCount,
				d.LockedUntil.UTC(), d.ExpiresAt.UTC(), d.MessageID, d.SessionID, d.Subject, d.ContentType, d.ScheduledEnqueueTime.UTC(), len(d.Body.Bytes), render(d.Properties))
		}
	}
	for i := range 3 {
		for _, id := range []string{"the only one", fmt.Sprintf("session number %d", i)} {
			if infos, err := p.In(store).DescribeSessions(tb.Context(), []string{id}, true); err != nil {
				tb.Fatal(err)
			} else if s := infos[0]; s.Available+s.Locked+s.Deferred > 0 || s.HasState || !s.LockedUntil.IsZero() {
				fmt.Fprintf(b, "    session %q: %d, %d, %d until %s, state of %d bytes\n", s.ID, s.Available, s.Locked, s.Deferred, s.LockedUntil.UTC(), len(s.State))
			}
		}
	}
}
