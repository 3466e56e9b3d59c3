package storetest

import (
	"fmt"
	"reflect"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

func newNamespace(name, id string) core.Namespace {
	made := time.Date(2026, time.February, 1, 0, 0, 0, 0, time.UTC)
	return core.Namespace{
		Name: name, ID: id, CreatedAt: made, ModifiedAt: made,
		Hosts: []string{name + ".example"},
		Policies: []core.AccessRule{{
			Name: "all", PrimaryKey: "p" + id, SecondaryKey: "s" + id, Rights: core.AllRights, CreatedAt: made, ModifiedAt: made,
		}},
		Quotas: core.NamespaceQuotas{MaxEntities: 7, MaxConnections: 8, MaxSizeMegabytes: 9},
	}
}

func (s *fixture) createNamespace(n core.Namespace) core.Namespace {
	s.Helper()
	created, err := s.store.CreateNamespace(s.Context(), n)
	if err != nil {
		s.Fatalf("create namespace %s: %v", n.Name, err)
	}
	return created
}

func (s *fixture) wantNamespace(what string, got, want core.Namespace) {
	s.Helper()
	if !reflect.DeepEqual(got, want) {
		s.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func (s *fixture) populate(namespace, ids string) (ps []core.Partition) {
	s.Helper()
	queue := newEntity("Orders", ids+"q")
	queue.Namespace = namespace
	topic := newEntity("News", ids+"t")
	topic.Namespace, topic.Kind = namespace, core.Topic
	subscription := newEntity("News/Subscriptions/All", ids+"s")
	subscription.Namespace, subscription.Kind, subscription.TopicID = namespace, core.Subscription, topic.ID
	for _, e := range []core.Entity{queue, topic, subscription} {
		s.create(e)
		ps = append(ps, e.Partition(fixtureIndex, core.Main))
	}
	view, err := s.store.Topic(s.Context(), namespace, "news")
	s.wantCode("topic", err, "")
	s.sendTo(ps[0], text("in the queue"))
	publication := core.Publication{Message: text("published"), Copies: []core.Copy{{To: &ps[2], Message: text("published")}}}
	for _, a := range ps[1].In(s.store).Publish(s.Context(), view.Version, [][]core.Publication{{publication}}) {
		s.wantCode("publish", a.Err, "")
	}
	return ps
}

func (s *fixture) awaitEmpty(namespace string) {
	s.Helper()
	eventually.True(s, "a deleted namespace has no entities any more", func() bool {
		left := 0
		for _, l := range []core.Listing{{Kind: core.Queue}, {Kind: core.Topic}, {Kind: core.Subscription, Topic: "news"}} {
			es, err := s.store.Entities(s.Context(), namespace, l, 0, 10)
			s.wantCode("entities", err, "")
			left += len(es)
		}
		return left == 0
	})
}

var namespaceStories = []story{
	{"a namespace is found by its name in any case, as it was created", func(s *fixture) {
		n := newNamespace("Suite-17", "n1")
		created := s.createNamespace(n)
		n.Revision = created.Revision
		s.wantNamespace("created", created, n)
		for _, name := range []string{"Suite-17", "suite-17", "SUITE-17"} {
			got, err := s.store.Namespace(s.Context(), name)
			s.wantCode("namespace "+name, err, "")
			s.wantNamespace("namespace "+name, got, n)
		}
	}},
	{"a namespace's name can be taken once, in any case", func(s *fixture) {
		s.createNamespace(newNamespace("suite", "n1"))
		_, err := s.store.CreateNamespace(s.Context(), newNamespace("SUITE", "n2"))
		s.wantCode("create again", err, core.AlreadyExists)
		got, err := s.store.Namespace(s.Context(), "suite")
		s.wantCode("namespace", err, "")
		want(s, "id", got.ID, "n1")
	}},
	{"an unknown namespace is not found", func(s *fixture) {
		_, err := s.store.Namespace(s.Context(), "ns") // it has entities, but is not registered
		s.wantCode("namespace", err, core.NotFound)
		_, err = s.store.UpdateNamespace(s.Context(), newNamespace("ns", "ns"))
		s.wantCode("update", err, core.NotFound)
		s.wantCode("delete", s.store.DeleteNamespace(s.Context(), "ns"), core.NotFound)
		es, err := s.store.Entities(s.Context(), "ns", core.Listing{}, 0, 10)
		s.wantCode("entities", err, "")
		want(s, "entities", len(es), 1)
	}},
	{"namespaces are listed by folded name, in pages", func(s *fixture) {
		for i, name := range []string{"b", "C", "a", "D", "b-2"} {
			s.createNamespace(newNamespace(name, fmt.Sprintf("n%d", i)))
		}
		for _, c := range []struct {
			after string
			top   int
			want  string
		}{
			{"", 100, "[a b b-2 C D]"},
			{"", 2, "[a b]"},
			{"B", 2, "[b-2 C]"},
			{"b-1", 1, "[b-2]"},
			{"c", 100, "[D]"},
			{"d", 100, "[]"},
			{"zzz", 1, "[]"},
			{"", 0, "[]"},
			{"", -1, "[]"},
		} {
			ns, err := s.store.Namespaces(s.Context(), c.after, c.top)
			s.wantCode("namespaces", err, "")
			names := make([]string, len(ns))
			for i, n := range ns {
				names[i] = n.Name
			}
			want(s, fmt.Sprintf("names behind %q, at most %d", c.after, c.top), fmt.Sprint(names), c.want)
		}
	}},
	{"an update of a namespace replaces it and counts", func(s *fixture) {
		n := s.createNamespace(newNamespace("Suite", "n1"))
		n.Hosts = append(n.Hosts, "more.example")
		n.Policies[0].SecondaryKey, n.Policies[0].PrimaryKey = n.Policies[0].PrimaryKey, "new"
		n.Quotas.MaxEntities = 70
		n.ModifiedAt = n.ModifiedAt.Add(time.Hour)
		updated, err := s.store.UpdateNamespace(s.Context(), n)
		s.wantCode("update", err, "")
		if updated.Revision <= n.Revision {
			s.Fatalf("revision after the update: got %d, want more than %d", updated.Revision, n.Revision)
		}
		n.Revision = updated.Revision
		s.wantNamespace("updated", updated, n)
		got, err := s.store.Namespace(s.Context(), "suite")
		s.wantCode("namespace", err, "")
		s.wantNamespace("namespace", got, n)
	}},
	{"an update based on an old revision or another namespace is a conflict", func(s *fixture) {
		n := s.createNamespace(newNamespace("suite", "n1"))
		updated, err := s.store.UpdateNamespace(s.Context(), n)
		s.wantCode("update", err, "")
		_, err = s.store.UpdateNamespace(s.Context(), n)
		s.wantCode("update by the old revision", err, core.Conflict)
		s.wantCode("delete", s.store.DeleteNamespace(s.Context(), "suite"), "")
		again := s.createNamespace(newNamespace("suite", "n2"))
		_, err = s.store.UpdateNamespace(s.Context(), n)
		s.wantCode("update of another incarnation", err, core.Conflict)
		_, err = s.store.UpdateNamespace(s.Context(), updated)
		s.wantCode("late update of another incarnation", err, core.Conflict)
		got, err := s.store.Namespace(s.Context(), "suite")
		s.wantCode("namespace", err, "")
		s.wantNamespace("namespace", got, again)
	}},
	{"what the registry returned and what it was given are its caller's to change", func(s *fixture) {
		n := newNamespace("suite", "n1")
		created := s.createNamespace(n)
		n.Hosts[0], n.Policies[0].Name = "given", "given"
		created.Hosts[0], created.Policies[0].Name = "returned", "returned"
		got, err := s.store.Namespace(s.Context(), "suite")
		s.wantCode("namespace", err, "")
		want(s, "host", got.Hosts[0], "suite.example")
		want(s, "policy", got.Policies[0].Name, "all")
	}},
	{"a deleted namespace is gone at once, and what it held after a while", func(s *fixture) {
		s.createNamespace(newNamespace("Suite", "n1"))
		ps := s.populate("n1", "n1")
		s.wantCode("delete", s.store.DeleteNamespace(s.Context(), "SUITE"), "")
		_, err := s.store.Namespace(s.Context(), "suite")
		s.wantCode("namespace", err, core.NotFound)
		ns, err := s.store.Namespaces(s.Context(), "", 10)
		s.wantCode("namespaces", err, "")
		want(s, "namespaces", len(ns), 0)
		s.wantCode("delete again", s.store.DeleteNamespace(s.Context(), "suite"), core.NotFound)
		s.awaitEmpty("n1")
		for _, p := range ps {
			a := p.In(s.store).Append(s.Context(), [][]*core.Message{{text("late")}})
			s.wantCode("append to "+p.Entity+p.Subscription, a[0].Err, core.NotFound)
			s.wantStats("stats of "+p.Entity+p.Subscription, p, core.Stats{})
		}
		late := newEntity("late", "n1l")
		late.Namespace = "n1"
		_, err = s.store.CreateEntity(s.Context(), late, core.NamespaceQuotas{})
		s.wantCode("create an entity in a deleted namespace", err, core.NotFound)
		s.sendTexts("a") // other namespaces have not changed
		s.wantBodies("elsewhere", s.lock(9), "a")
	}},
	{"a re-created namespace never sees what the older one held", func(s *fixture) {
		for i := range 5 {
			id := fmt.Sprintf("n%d", i)
			n := s.createNamespace(newNamespace("suite", id))
			want(s, "id", n.ID, id)
			es, err := s.store.Entities(s.Context(), n.ID, core.Listing{}, 0, 10)
			s.wantCode("entities", err, "")
			want(s, "entities at first", len(es), 0)
			ps := s.populate(n.ID, id)
			s.wantBodies("messages", s.lockAt(ps[0], 9), "in the queue")
			s.wantCode("delete", s.store.DeleteNamespace(s.Context(), "suite"), "")
		}
		for i := range 5 {
			s.awaitEmpty(fmt.Sprintf("n%d", i))
		}
	}},
	{"a namespace of many entities is emptied", func(s *fixture) {
		s.createNamespace(newNamespace("suite", "n1"))
		for i := range 250 {
			e := newEntity(fmt.Sprintf("q%d", i), fmt.Sprintf("n1q%d", i))
			e.Namespace, e.Partitions = "n1", 1
			s.create(e)
		}
		s.wantCode("delete", s.store.DeleteNamespace(s.Context(), "suite"), "")
		s.awaitEmpty("n1")
	}},
	{"watchers hear of changes to namespaces, and only they do", func(s *fixture) {
		heard := make(chan string, 100)
		s.Cleanup(s.store.WatchNamespaces(func(name string) {
			select {
			case heard <- name:
			default:
			}
		}))
		strayed := make(chan string, 100)
		s.Cleanup(s.store.WatchEntities(func(namespace, name string) {
			if namespace == "" && name != "" {
				strayed <- name
			}
		}))
		await := func(what, name string) {
			s.Helper()
			timeout := time.After(bellTimeout)
			for {
				select {
				case h := <-heard:
					if h == name || h == "" { // "": changes may have been missed
						return
					}
					s.Fatalf("%s: heard of %q", what, h)
				case <-timeout:
					s.Fatalf("%s: heard nothing", what)
				}
			}
		}
		n := s.createNamespace(newNamespace("Watched", "n1"))
		await("create", "watched")
		s.create(newEntity("Unheard", "q2"))
		_, err := s.store.UpdateNamespace(s.Context(), n)
		s.wantCode("update", err, "")
		await("update", "watched")
		s.wantCode("delete", s.store.DeleteNamespace(s.Context(), "watched"), "")
		await("delete", "watched")
		want(s, "heard by who watches entities", len(strayed), 0)
	}},
}
