package redis_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// keysBelow lists all keys with a prefix, of a server or of a cluster.
func keysBelow(t *testing.T, url, prefix string) []string {
	t.Helper()
	if url == server(t).URL() {
		keys, err := server(t).Client().Keys(t.Context(), prefix+"*").Result()
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(keys, isFormat)
	}
	nodes := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{strings.TrimPrefix(cluster.NodeURL(0), "redis://")}})
	defer func() { _ = nodes.Close() }()
	var mu sync.Mutex
	var all []string
	err := nodes.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, prefix+"*").Result()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, keys...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, isFormat)
}

// isFormat reports whether a key is that of the store's format, its stamp or its gateways, which stay, or of a
// receipt.
func isFormat(key string) bool {
	return isReceipt(key) || strings.HasSuffix(key, "{ct}f") || strings.HasSuffix(key, "{ct}s") || strings.HasSuffix(key, "{ct}g")
}

// awaitSealed waits until nothing is left of deleted namespaces but the seals on
// their catalogues.
func awaitSealed(t *testing.T, url, prefix string, namespaces int) {
	t.Helper()
	var keys []string
	if !eventually.Within(eventually.Bound, func() bool {
		keys = keysBelow(t, url, prefix)
		return len(keys) == namespaces && !slices.ContainsFunc(keys, func(k string) bool { return !strings.HasSuffix(k, "}d") })
	}) {
		t.Fatalf("keys of deleted namespaces are left: %v", keys)
	}
}

// settleIn makes a namespace with queues and topics with subscriptions, all of which
// have messages in some state.
func settleIn(t *testing.T, s core.Store, id string, queues, topics int) {
	t.Helper()
	create := func(e core.Entity) core.Entity {
		e.Namespace, e.Partitions, e.Settings = id, 2, core.DefaultSettings(e.Kind)
		e.Settings.RequiresSession = e.Kind == core.Queue
		e.Settings.RequiresDuplicateDetection = true
		e, err := s.CreateEntity(t.Context(), e, core.NamespaceQuotas{})
		if err != nil {
			t.Fatalf("create %s: %v", &e, err)
		}
		return e
	}
	for i := range queues {
		name := fmt.Sprintf("q%d", i)
		p := new(create(core.Entity{Name: name, ID: id + name})).Partition(1, core.Main)
		for n := range 3 {
			m := message("x")
			m.MessageID, m.SessionID = core.StringID(fmt.Sprint(n)), "s"
			if a := p.In(s).Append(t.Context(), [][]*core.Message{{m}}); a[0].Err != nil {
				t.Fatalf("append: %v", a[0].Err)
			}
		}
		l, _, _, err := p.In(s).AcceptSession(t.Context(), core.SessionRequest{Next: true})
		if err != nil {
			t.Fatalf("accept: %v", err)
		}
		if err := p.In(s).SetSessionState(t.Context(), l, []byte("state")); err != nil {
			t.Fatalf("state: %v", err)
		}
		ds := lockIn(t, s, p, l, 2)
		if err := settle(s, p, core.DeadLetterOutcome, ds[0]); err != nil {
			t.Fatalf("dead-letter: %v", err)
		}
	}
	for i := range topics {
		name := fmt.Sprintf("t%d", i)
		topic := create(core.Entity{Kind: core.Topic, Name: name, ID: id + name})
		var targets []core.Partition
		for j := range 3 {
			sub := create(core.Entity{
				Kind: core.Subscription, Name: core.SubscriptionPath(name, fmt.Sprint("s", j)), ID: fmt.Sprint(id, name, j), TopicID: topic.ID,
			})
			targets = append(targets, sub.Partition(0, core.Main))
		}
		view, err := s.Topic(t.Context(), id, name)
		if err != nil {
			t.Fatalf("topic: %v", err)
		}
		large := message(strings.Repeat("x", 2000))
		for _, a := range topic.Partition(0, core.Main).In(s).Publish(t.Context(), view.Version, [][]core.Publication{{to(large, targets...)}}) {
			if a.Err != nil {
				t.Fatalf("publish: %v", a.Err)
			}
		}
	}
}

func createNamespace(t *testing.T, s core.Store, name, id string) core.Namespace {
	t.Helper()
	n, err := s.CreateNamespace(t.Context(), core.Namespace{Name: name, ID: id})
	if err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	return n
}

func TestADeletedNamespaceLeavesNoKeys(t *testing.T) {
	t.Parallel()
	deployments(t, func(t *testing.T, url string) {
		names := prefix()
		s := open(t, url, redisstore.Options{Prefix: names})
		createNamespace(t, s, "suite", "n1")
		settleIn(t, s, "n1", 5, 5)
		if err := s.TouchEntities(t.Context(), "n1", map[string]time.Time{"q0": s.Now()}); err != nil {
			t.Fatal(err)
		}
		if err := s.DeleteNamespace(t.Context(), "Suite"); err != nil {
			t.Fatal(err)
		}
		awaitSealed(t, url, names, 1)
	})
}

// Whoever deleted a namespace may die over removing what it held, or before.
func TestAnotherStoreRemovesWhatADeadOneLeft(t *testing.T) {
	t.Parallel()
	for _, amid := range []bool{false, true} {
		t.Run(fmt.Sprintf("amid %v", amid), func(t *testing.T) {
			t.Parallel()
			deployments(t, func(t *testing.T, url string) { takeOver(t, url, amid) })
		})
	}
}

// takeOver has one store delete a namespace and end, at once or amid the removal.
func takeOver(t *testing.T, url string, amid bool) {
	clock, names := storetest.NewClock(), prefix()
	o := redisstore.Options{Prefix: names, Clock: clock.Now}
	dying, err := redisstore.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	createNamespace(t, dying, "suite", "n1")
	settleIn(t, dying, "n1", 150, 20)
	before := len(keysBelow(t, url, names))
	if err := dying.DeleteNamespace(t.Context(), "suite"); err != nil {
		t.Fatal(err)
	}
	if amid {
		eventually.True(t, "the store begins to remove keys", func() bool { return len(keysBelow(t, url, names)) <= before-10 })
	}
	if err := dying.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d keys were left", len(keysBelow(t, url, names)), before)
	clock.Advance(2 * time.Minute) // it has lost its claim by then
	open(t, url, o)
	awaitSealed(t, url, names, 1)
}

func TestStoresShareTheRemovalOfNamespaces(t *testing.T) {
	t.Parallel()
	names := prefix()
	o := redisstore.Options{Prefix: names}
	stores := []*redisstore.Store{open(t, server(t).URL(), o), open(t, server(t).URL(), o)}
	const namespaces = 20
	for i := range namespaces {
		id := fmt.Sprintf("n%d", i)
		createNamespace(t, stores[i%2], id, id)
		settleIn(t, stores[i%2], id, 2, 1)
	}
	for i := range namespaces {
		if err := stores[(i+1)%2].DeleteNamespace(t.Context(), fmt.Sprintf("n%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	awaitSealed(t, server(t).URL(), names, namespaces)
}

func TestOtherStoresHearOfNamespaces(t *testing.T) {
	t.Parallel()
	deployments(t, func(t *testing.T, url string) {
		o := redisstore.Options{Prefix: prefix()}
		here, there := open(t, url, o), open(t, url, o)
		heard := make(chan string, 100)
		t.Cleanup(there.WatchNamespaces(func(name string) { heard <- name }))
		await := func(what string) {
			t.Helper()
			timeout := time.After(patience)
			for {
				select {
				case h := <-heard:
					switch h {
					case "watched":
						return
					case "": // the line is new
					default:
						t.Fatalf("%s: heard of %q", what, h)
					}
				case <-timeout:
					t.Fatalf("%s: heard nothing", what)
				}
			}
		}
		n := createNamespace(t, here, "Watched", "n1")
		await("create")
		if _, err := here.UpdateNamespace(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		await("update")
		if err := here.DeleteNamespace(t.Context(), "watched"); err != nil {
			t.Fatal(err)
		}
		await("delete")
		if _, err := there.Namespace(t.Context(), "watched"); core.CodeOf(err) != core.NotFound {
			t.Fatalf("namespace after its deletion: got %v", err)
		}
	})
}

// Of several who would make or change the same namespace at once one does.
func TestRacesForANamespaceHaveOneWinner(t *testing.T) {
	t.Parallel()
	o := redisstore.Options{Prefix: prefix()}
	stores := []*redisstore.Store{open(t, server(t).URL(), o), open(t, server(t).URL(), o)}
	race := func(what string, lost core.Code, try func(s core.Store, i int) error) {
		t.Helper()
		var wg sync.WaitGroup
		errs := make([]error, 16)
		for i := range errs {
			wg.Go(func() { errs[i] = try(stores[i%2], i) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			switch core.CodeOf(err) {
			case "":
				won++
			case lost:
			default:
				t.Errorf("%s: %v", what, err)
			}
		}
		if won != 1 {
			t.Errorf("%s: %d have won, want 1", what, won)
		}
	}
	race("create", core.AlreadyExists, func(s core.Store, i int) error {
		_, err := s.CreateNamespace(t.Context(), core.Namespace{Name: "suite", ID: fmt.Sprintf("n%d", i)})
		return err
	})
	n, err := stores[0].Namespace(t.Context(), "suite")
	if err != nil {
		t.Fatal(err)
	}
	race("update", core.Conflict, func(s core.Store, _ int) error {
		_, err := s.UpdateNamespace(t.Context(), n)
		return err
	})
	race("delete", core.NotFound, func(s core.Store, _ int) error { return s.DeleteNamespace(t.Context(), "suite") })
}

func TestAnEntityThatIsRefusedLeavesNoKeys(t *testing.T) {
	t.Parallel()
	names := prefix()
	s := open(t, server(t).URL(), redisstore.Options{Prefix: names})
	e := core.Entity{Namespace: "ns", Name: "q", ID: "q", Partitions: 4, Settings: core.DefaultSettings(core.Queue)}
	if _, err := s.CreateEntity(t.Context(), e, core.NamespaceQuotas{MaxSizeMegabytes: 1023}); core.CodeOf(err) != core.QuotaExceeded {
		t.Fatalf("create: got %v, want %v", err, core.QuotaExceeded)
	}
	if keys := keysBelow(t, server(t).URL(), names); len(keys) > 0 {
		t.Errorf("keys of an entity that is not there: %v", keys)
	}
}

// Sizes are summed up a page of entities at a time.
func TestQuotasCountAllOfManyEntities(t *testing.T) {
	t.Parallel()
	s := open(t, server(t).URL(), redisstore.Options{Prefix: prefix()})
	const entities = 1100
	q := core.NamespaceQuotas{MaxSizeMegabytes: entities}
	e := core.Entity{Namespace: "ns", Partitions: 1, Settings: core.DefaultSettings(core.Queue)}
	e.Settings.MaxSizeInMegabytes = 1
	for i := range entities {
		e.Name, e.ID, e.Kind = fmt.Sprintf("e%d", i), fmt.Sprintf("x%d", i), core.Kind(i%2)
		limit := q
		if i%100 != 99 {
			limit = core.NamespaceQuotas{}
		}
		if _, err := s.CreateEntity(t.Context(), e, limit); err != nil {
			t.Fatalf("create %d: %v", i, err)
		}
	}
	e.Name, e.ID = "more", "more"
	if _, err := s.CreateEntity(t.Context(), e, q); core.CodeOf(err) != core.QuotaExceeded {
		t.Errorf("create one too many: got %v, want %v", err, core.QuotaExceeded)
	}
}

// A page that is not full is the last one, also while namespaces or entities are deleted.
func TestPagesAreFullWhileOthersGo(t *testing.T) {
	t.Parallel()
	const stay, top = 20, 15
	for name, k := range map[string]struct {
		create, remove func(s *redisstore.Store, name string) error
		page           func(s *redisstore.Store) (n int, err error)
	}{
		"namespaces": {
			func(s *redisstore.Store, name string) error {
				createNamespace(t, s, name, name)
				return nil
			},
			func(s *redisstore.Store, name string) error { return s.DeleteNamespace(t.Context(), name) },
			func(s *redisstore.Store) (int, error) {
				ns, err := s.Namespaces(t.Context(), "", top)
				return len(ns), err
			},
		},
		"entities": {
			func(s *redisstore.Store, name string) error {
				_, err := s.CreateEntity(t.Context(), core.Entity{Namespace: "ns", Name: name, ID: name, Kind: core.Queue, Partitions: 1}, core.NamespaceQuotas{})
				return err
			},
			func(s *redisstore.Store, name string) error { return s.DeleteEntity(t.Context(), "ns", name) },
			func(s *redisstore.Store) (int, error) {
				es, err := s.Entities(t.Context(), "ns", core.Listing{Kind: core.Queue}, 0, top)
				return len(es), err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := redisstore.Options{Prefix: prefix()}
			here, there := open(t, server(t).URL(), o), open(t, server(t).URL(), o)
			for i := range stay {
				if err := k.create(here, fmt.Sprintf("stays%02d", i)); err != nil {
					t.Fatal(err)
				}
			}
			over := make(chan struct{})
			var going sync.WaitGroup
			going.Go(func() {
				defer close(over)
				for i := range 300 {
					name := fmt.Sprint("goes", i)
					if err := cmp.Or(k.create(there, name), k.remove(there, name)); err != nil {
						t.Error(err)
					}
				}
			})
			for done := false; !done && !t.Failed(); {
				select {
				case <-over:
					done = true
				default:
				}
				if n, err := k.page(here); err != nil || n != top {
					t.Errorf("got %d of %d, %v", n, top, err)
				}
			}
			going.Wait()
		})
	}
}
