package broker

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// withQuotas is a broker whose namespace may hold what *q says.
func withQuotas(tb testing.TB, q *core.NamespaceQuotas) *Broker {
	tb.Helper()
	store := memory.New(memory.Options{})
	tb.Cleanup(func() { _ = store.Close() })
	return New(store, Options{Namespace: "id", Name: "ns", Quotas: func() core.NamespaceQuotas { return *q }})
}

func sized(megabytes int64) core.Settings {
	s := core.DefaultSettings(core.Queue)
	s.MaxSizeInMegabytes = megabytes
	return s
}

func TestANamespaceHoldsAsManyEntitiesAsItsQuota(t *testing.T) {
	t.Parallel()
	q := core.NamespaceQuotas{MaxEntities: 2}
	b := withQuotas(t, &q)
	if _, err := b.CreateEntity(t.Context(), root, core.Queue, "a", sized(1), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateEntity(t.Context(), root, core.Topic, "b", core.DefaultSettings(core.Topic), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateEntity(t.Context(), root, core.Queue, "c", sized(1), nil); !errors.Is(err, core.QuotaExceeded) || !strings.Contains(core.TextOf(err), "'ns' has 2") {
		t.Errorf("a third: got %v", err)
	}
	if _, err := b.CreateEntity(t.Context(), root, core.Subscription, core.SubscriptionPath("b", "s"), core.DefaultSettings(core.Subscription), nil); err != nil {
		t.Errorf("a subscription, which does not count: %v", err)
	}
	q.MaxEntities = 3
	if _, err := b.CreateEntity(t.Context(), root, core.Queue, "c", sized(1), nil); err != nil {
		t.Errorf("with a larger quota: %v", err)
	}
}

func TestANamespacesEntitiesAreNoLargerTogetherThanItsQuota(t *testing.T) {
	t.Parallel()
	b := withQuotas(t, &core.NamespaceQuotas{MaxSizeMegabytes: 3000})
	if _, err := b.CreateEntity(t.Context(), root, core.Queue, "a", sized(1024), nil); err != nil {
		t.Fatal(err)
	}
	partitioned := sized(64) // 1024 together
	partitioned.EnablePartitioning = true
	if _, err := b.CreateEntity(t.Context(), root, core.Queue, "b", partitioned, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateEntity(t.Context(), root, core.Queue, "c", sized(953), nil); !errors.Is(err, core.QuotaExceeded) || !strings.Contains(core.TextOf(err), "other entities have 2048 MB, and this entity would have 953 MB") {
		t.Errorf("one MB too many: got %v", err)
	}
	if _, err := b.CreateEntity(t.Context(), root, core.Queue, "c", sized(952), nil); err != nil {
		t.Errorf("what is left: %v", err)
	}
	if _, err := b.UpdateEntity(t.Context(), root, "c", sized(953)); !errors.Is(err, core.QuotaExceeded) {
		t.Errorf("growing by one MB: got %v", err)
	}
	smaller := sized(900)
	smaller.MaxDeliveryCount = 7
	if e, err := b.UpdateEntity(t.Context(), root, "c", smaller); err != nil || e.Settings.MaxDeliveryCount != 7 {
		t.Errorf("shrinking: got %+v, %v", e.Settings, err)
	}
	if _, err := b.UpdateEntity(t.Context(), root, "c", sized(952)); err != nil {
		t.Errorf("growing again: %v", err)
	}
}

func TestTheSizeQuotaHoldsAgainstManyAtOnce(t *testing.T) {
	t.Parallel()
	b := withQuotas(t, &core.NamespaceQuotas{MaxSizeMegabytes: 500})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { _, _ = b.CreateEntity(t.Context(), root, core.Queue, "q"+string(rune('a'+i)), sized(100), nil) })
	}
	all.Wait()
	page, _, err := b.Entities(t.Context(), root, core.Listing{Kind: core.Queue}, 0, 100)
	if err != nil || len(page) != 5 {
		t.Errorf("got %d queues, %v, want 5", len(page), err)
	}
}
