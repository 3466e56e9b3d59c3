package storetest

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

var catalogueStories = []story{
	{"an entity is found by its name in any case, as it was created", func(s *fixture) {
		e := newEntity("Sales/Invoices-2", "q2")
		e.Partitions = 1
		e.Settings = core.Settings{
			LockDuration:                        7 * time.Second,
			MaxSizeInMegabytes:                  2048,
			MaxMessageSizeInKilobytes:           1024,
			RequiresDuplicateDetection:          true,
			DuplicateDetectionHistoryTimeWindow: time.Hour,
			RequiresSession:                     true,
			DefaultMessageTimeToLive:            core.Forever,
			DeadLetteringOnMessageExpiration:    true,
			MaxDeliveryCount:                    5,
			EnableBatchedOperations:             true,
			Status:                              core.StatusSendDisabled,
			ForwardTo:                           "elsewhere",
			ForwardDeadLetteredMessagesTo:       "nowhere",
			UserMetadata:                        "<é \"&>",
			AutoDeleteOnIdle:                    10 * time.Minute,
			EnablePartitioning:                  true,
			SupportOrdering:                     true,
			EnableExpress:                       true,
			IsAnonymousAccessible:               true,
			AuthorizationRules: []core.AccessRule{{
				Name: "listen", PrimaryKey: "p", SecondaryKey: "s", Rights: core.Listen,
				CreatedAt: e.CreatedAt, ModifiedAt: e.CreatedAt.Add(time.Second),
			}},
		}
		created := s.create(e)
		e.Revision = created.Revision
		s.wantEntity("created", created, e)
		for _, name := range []string{"Sales/Invoices-2", "sales/invoices-2", "SALES/INVOICES-2"} {
			got, err := s.store.Entity(s.Context(), "ns", name)
			s.wantCode("entity "+name, err, "")
			s.wantEntity("entity "+name, got, e)
		}
	}},
	{"a name can be taken once per namespace, in any case", func(s *fixture) {
		_, err := s.store.CreateEntity(s.Context(), newEntity("ORDERS", "q2"), core.NamespaceQuotas{})
		s.wantCode("create again", err, core.AlreadyExists)
		other := newEntity("Orders", "q3")
		other.Namespace = "other"
		s.create(other)
		got, err := s.store.Entity(s.Context(), "ns", "orders")
		s.wantCode("entity", err, "")
		want(s, "id", got.ID, "q1")
	}},
	{"an unknown entity is not found", func(s *fixture) {
		_, err := s.store.Entity(s.Context(), "ns", "nosuch")
		s.wantCode("entity", err, core.NotFound)
		_, err = s.store.Entity(s.Context(), "other", "orders")
		s.wantCode("entity of another namespace", err, core.NotFound)
		_, err = s.store.UpdateEntity(s.Context(), newEntity("nosuch", "q9"), core.NamespaceQuotas{})
		s.wantCode("update", err, core.NotFound)
		s.wantCode("delete", s.store.DeleteEntity(s.Context(), "ns", "nosuch"), core.NotFound)
	}},
	{"entities are listed by folded name, in pages", func(s *fixture) {
		for i, name := range []string{"b", "C", "a", "D"} {
			s.create(newEntity(name, fmt.Sprintf("p%d", i)))
		}
		elsewhere := newEntity("aa", "p9")
		elsewhere.Namespace = "other"
		s.create(elsewhere)
		for _, c := range []struct {
			skip, top int
			want      string
		}{
			{0, 100, "[a b C D Orders]"},
			{0, 2, "[a b]"},
			{1, 3, "[b C D]"},
			{4, 100, "[Orders]"},
			{5, 100, "[]"},
			{99, 1, "[]"},
			{0, 0, "[]"},
		} {
			es, err := s.store.Entities(s.Context(), "ns", core.Listing{}, c.skip, c.top)
			s.wantCode("entities", err, "")
			names := make([]string, len(es))
			for i, e := range es {
				names[i] = e.Name
			}
			want(s, fmt.Sprintf("names from %d, at most %d", c.skip, c.top), fmt.Sprint(names), c.want)
		}
		es, err := s.store.Entities(s.Context(), "empty", core.Listing{}, 0, 9)
		s.wantCode("entities of an unknown namespace", err, "")
		want(s, "entities of an unknown namespace", len(es), 0)
	}},
	{"an update replaces the settings and counts", func(s *fixture) {
		e := s.entity
		e.Settings.MaxDeliveryCount = 77
		e.Settings.AuthorizationRules = []core.AccessRule{{Name: "r", PrimaryKey: "k", Rights: core.Send}}
		e.UpdatedAt = e.UpdatedAt.Add(time.Hour)
		updated, err := s.store.UpdateEntity(s.Context(), e, core.NamespaceQuotas{})
		s.wantCode("update", err, "")
		if updated.Revision <= e.Revision {
			s.Fatalf("revision after the update: got %d, want more than %d", updated.Revision, e.Revision)
		}
		e.Revision = updated.Revision
		s.wantEntity("updated", updated, e)
		got, err := s.store.Entity(s.Context(), "ns", "orders")
		s.wantCode("entity", err, "")
		s.wantEntity("entity", got, e)
	}},
	{"an update based on an old revision or another entity is a conflict", func(s *fixture) {
		if _, err := s.store.UpdateEntity(s.Context(), s.entity, core.NamespaceQuotas{}); err != nil {
			s.Fatalf("update: %v", err)
		}
		_, err := s.store.UpdateEntity(s.Context(), s.entity, core.NamespaceQuotas{})
		s.wantCode("update by the old revision", err, core.Conflict)
		current, err := s.store.Entity(s.Context(), "ns", "orders")
		s.wantCode("entity", err, "")
		current.ID = "q7"
		_, err = s.store.UpdateEntity(s.Context(), current, core.NamespaceQuotas{})
		s.wantCode("update of another incarnation", err, core.Conflict)
	}},
	{"an update keeps the messages", func(s *fixture) {
		s.sendTexts("a")
		if _, err := s.store.UpdateEntity(s.Context(), s.entity, core.NamespaceQuotas{}); err != nil {
			s.Fatalf("update: %v", err)
		}
		s.wantBodies("messages", s.lock(9), "a")
	}},
	{"what the store returned and what it was given are its caller's to change", func(s *fixture) {
		e := newEntity("rules", "q2")
		e.Settings.AuthorizationRules = []core.AccessRule{{Name: "r", PrimaryKey: "k", Rights: core.Send}}
		created := s.create(e)
		e.Settings.AuthorizationRules[0].Name = "given"
		created.Settings.AuthorizationRules[0].Name = "returned"
		got, err := s.store.Entity(s.Context(), "ns", "rules")
		s.wantCode("entity", err, "")
		want(s, "rule", got.Settings.AuthorizationRules[0].Name, "r")
	}},
	{"a deleted entity is gone with its messages", func(s *fixture) {
		s.sendTexts("a", "b")
		s.send(text("later", s.after(time.Minute)))
		d := s.lockOne()
		s.wantCode("delete", s.store.DeleteEntity(s.Context(), "ns", "ORDERS"), "")
		_, err := s.store.Entity(s.Context(), "ns", "orders")
		s.wantCode("entity", err, core.NotFound)
		s.wantUnknown(s.main, d.LockToken)
		s.wantUnknown(s.dead(), d.LockToken)
		s.clock.Advance(time.Hour)
		s.wantUnknown(s.main, d.LockToken)
		s.wantCode("delete again", s.store.DeleteEntity(s.Context(), "ns", "orders"), core.NotFound)
	}},
	{"a re-created entity has fresh partitions", func(s *fixture) {
		s.main.DuplicateWindow = time.Hour
		s.send(text("old", id("1")))
		s.send(text("dead", id("2")))
		ds := s.lock(2)
		s.settle(ds[1], core.DeadLetterOutcome)
		s.wantCode("delete", s.store.DeleteEntity(s.Context(), "ns", "orders"), "")
		e := s.create(newEntity("orders", "q2"))
		s.wantUnknown(s.main, ds[0].LockToken)
		s.main.Entity = e.ID
		s.wantStats("main", s.main, core.Stats{})
		s.wantStats("dead letters", s.dead(), core.Stats{})
		s.wantCode("old token", s.trySettle(s.main, ds[0].LockToken, core.Complete, core.Properties{}), core.LockLost)
		want(s, "first number", s.send(text("new", id("1")))[0], number(1))
	}},
	{"touching records the latest use and nothing else", func(s *fixture) {
		later := time.Date(2026, time.April, 1, 2, 3, 4, 5e6, time.UTC)
		touch := func(name string, at time.Time) {
			s.Helper()
			s.wantCode("touch", s.store.TouchEntities(s.Context(), "ns", map[string]time.Time{name: at}), "")
		}
		touch("ORDERS", later)
		touch("orders", later.Add(-time.Hour))
		touch("nosuch", later)
		wanted := s.entity
		wanted.AccessedAt = later
		got, err := s.store.Entity(s.Context(), "ns", "orders")
		s.wantCode("entity", err, "")
		s.wantEntity("touched", got, wanted)
		_, err = s.store.Entity(s.Context(), "ns", "nosuch")
		s.wantCode("touched but unknown", err, core.NotFound)
	}},
	{"an update does not take back the latest use", func(s *fixture) {
		at := time.Date(2026, time.April, 1, 0, 0, 0, 0, time.UTC)
		s.wantCode("touch", s.store.TouchEntities(s.Context(), "ns", map[string]time.Time{"orders": at}), "")
		updated, err := s.store.UpdateEntity(s.Context(), s.entity, core.NamespaceQuotas{})
		s.wantCode("update", err, "")
		s.wantTime("accessed, as returned", updated.AccessedAt, at)
		got, err := s.store.Entity(s.Context(), "ns", "orders")
		s.wantCode("entity", err, "")
		s.wantTime("accessed", got.AccessedAt, at)
	}},
	{"watchers hear of changes to entities", func(s *fixture) {
		heard := make(chan [2]string, 100)
		s.Cleanup(s.store.WatchEntities(func(namespace, name string) {
			select {
			case heard <- [2]string{namespace, name}:
			default:
			}
		}))
		await := func(what, name string) {
			s.Helper()
			timeout := time.After(bellTimeout)
			for {
				select {
				case h := <-heard:
					// Two empty strings mean that changes may have been missed.
					if h == [2]string{"ns", name} || h == [2]string{} {
						return
					}
					s.Fatalf("%s: heard of %q", what, h)
				case <-timeout:
					s.Fatalf("%s: heard nothing", what)
				}
			}
		}
		e := s.create(newEntity("Watched", "q2"))
		await("create", "watched")
		if _, err := s.store.UpdateEntity(s.Context(), e, core.NamespaceQuotas{}); err != nil {
			s.Fatalf("update: %v", err)
		}
		await("update", "watched")
		s.wantCode("delete", s.store.DeleteEntity(s.Context(), "ns", "watched"), "")
		await("delete", "watched")
	}},
}

// wantEntity compares all fields. Times need not have the same zone.
func (s *fixture) wantEntity(what string, got, want core.Entity) {
	s.Helper()
	for _, e := range []*core.Entity{&got, &want} {
		e.CreatedAt, e.UpdatedAt, e.AccessedAt = e.CreatedAt.UTC(), e.UpdatedAt.UTC(), e.AccessedAt.UTC()
		rules := make([]core.AccessRule, len(e.Settings.AuthorizationRules))
		for i, r := range e.Settings.AuthorizationRules {
			r.CreatedAt, r.ModifiedAt = r.CreatedAt.UTC(), r.ModifiedAt.UTC()
			rules[i] = r
		}
		e.Settings.AuthorizationRules = rules
	}
	if !reflect.DeepEqual(got, want) {
		s.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

var quotaStories = []story{
	{"a namespace holds as many queues and topics as its quota", func(s *fixture) {
		q := core.NamespaceQuotas{MaxEntities: 3} // the fixture has one
		topic := newTopic("news", "t1")
		for _, e := range []core.Entity{newEntity("second", "q2"), topic} {
			_, err := s.store.CreateEntity(s.Context(), e, q)
			s.wantCode("create "+e.Name, err, "")
		}
		_, err := s.store.CreateEntity(s.Context(), newEntity("third", "q3"), q)
		s.wantCode("create one too many", err, core.QuotaExceeded)
		_, err = s.store.Entity(s.Context(), "ns", "third")
		s.wantCode("the one too many", err, core.NotFound)
		s.wantUnknown(core.Partition{Ref: core.Ref{Entity: "q3"}, Policy: s.main.Policy}, core.NewLockToken(0, 1, 1))
		_, err = s.store.CreateEntity(s.Context(), newEntity("ORDERS", "q4"), q)
		s.wantCode("create what is there", err, core.AlreadyExists)
		_, err = s.store.CreateEntity(s.Context(), newSubscription(topic, "a"), q)
		s.wantCode("create a subscription, which does not count", err, "")
		elsewhere := newEntity("third", "q5")
		elsewhere.Namespace = "other"
		_, err = s.store.CreateEntity(s.Context(), elsewhere, core.NamespaceQuotas{MaxEntities: 1})
		s.wantCode("create in another namespace", err, "")
		s.wantCode("delete", s.store.DeleteEntity(s.Context(), "ns", "news"), "")
		_, err = s.store.CreateEntity(s.Context(), newEntity("third", "q3"), q)
		s.wantCode("create once there is room", err, "")
		s.create(newEntity("fourth", "q6")) // without quotas
	}},
	{"the entities of a namespace are no larger together than its quota", func(s *fixture) {
		q := core.NamespaceQuotas{MaxSizeMegabytes: 1024 + 100 + 16*10} // the fixture's queue has 1024
		sized := func(name, id string, megabytes int64, partitioned bool) core.Entity {
			e := newEntity(name, id)
			e.Settings.MaxSizeInMegabytes, e.Settings.EnablePartitioning = megabytes, partitioned
			e.Settings.UserMetadata = `"MaxSizeInMegabytes":5,"EnablePartitioning":true`
			return e
		}
		create := func(what string, e core.Entity, code core.Code) core.Entity {
			s.Helper()
			made, err := s.store.CreateEntity(s.Context(), e, q)
			s.wantCode(what, err, code)
			return made
		}
		create("create a partitioned one", sized("p", "q2", 10, true), "")
		create("create one that is too large by one", sized("q", "q3", 101, false), core.QuotaExceeded)
		made := create("create one that just fits", sized("q", "q3", 100, false), "")
		create("create the smallest", sized("r", "q4", 1, false), core.QuotaExceeded)
		made.Settings.MaxSizeInMegabytes = 101
		_, err := s.store.UpdateEntity(s.Context(), made, q)
		s.wantCode("let it grow", err, core.QuotaExceeded)
		made.Settings.MaxSizeInMegabytes = 99
		made, err = s.store.UpdateEntity(s.Context(), made, q)
		s.wantCode("let it shrink", err, "")
		made.Settings.MaxSizeInMegabytes = 100
		made, err = s.store.UpdateEntity(s.Context(), made, q)
		s.wantCode("let it grow again", err, "")
		q.MaxSizeMegabytes = 1
		made.Settings.MaxDeliveryCount = 3
		_, err = s.store.UpdateEntity(s.Context(), made, q)
		s.wantCode("change it, without growth, in a namespace that is too large", err, "")
		stale := made
		stale.Settings.MaxSizeInMegabytes = 1000
		_, err = s.store.UpdateEntity(s.Context(), stale, q)
		s.wantCode("let it grow by an old revision", err, core.Conflict)
		create("create a topic that is too large", newTopic("t", "t1"), core.QuotaExceeded)
		topic := s.create(newTopic("t", "t1"))
		sub, err := s.store.CreateEntity(s.Context(), newSubscription(topic, "a"), q)
		s.wantCode("create a subscription, which does not count", err, "")
		sub.Settings.MaxSizeInMegabytes *= 2
		_, err = s.store.UpdateEntity(s.Context(), sub, q)
		s.wantCode("update a subscription, which does not count", err, "")
	}},
	{"many that create and let grow at once do not exceed the quotas", func(s *fixture) {
		q := core.NamespaceQuotas{MaxEntities: 8, MaxSizeMegabytes: 1024 + 1000}
		var work sync.WaitGroup
		for i := range 16 {
			work.Go(func() {
				e := newEntity(fmt.Sprint("e", i), fmt.Sprint("x", i))
				e.Settings.MaxSizeInMegabytes = 100
				e, err := s.store.CreateEntity(s.Context(), e, q)
				if err != nil {
					return
				}
				e.Settings.MaxSizeInMegabytes = 200
				_, _ = s.store.UpdateEntity(s.Context(), e, q) // fails if there is no room
			})
		}
		work.Wait()
		es, err := s.store.Entities(s.Context(), "ns", core.Listing{}, 0, 100)
		s.wantCode("entities", err, "")
		if len(es) > q.MaxEntities {
			s.Fatalf("entities: got %d, want no more than %d", len(es), q.MaxEntities)
		}
		sum := int64(0)
		for i := range es {
			sum += es[i].Megabytes()
		}
		want(s, "megabytes", sum, q.MaxSizeMegabytes)
	}},
}
