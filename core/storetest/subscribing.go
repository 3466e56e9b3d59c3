package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

var subscriptionStories = []story{
	{"a subscription is found with all that was said of it", onTopic(func(p *press) {
		e := newSubscription(p.entity, "Big-Orders")
		e.Settings.RequiresSession, e.Settings.DeadLetteringOnFilterEvaluationExceptions = true, false
		e.Settings.ForwardTo = "elsewhere"
		e.Rules = everyRule(p.stage)
		created := p.create(e)
		e.Revision = created.Revision
		p.wantSubscription("created", created, e)
		e.Rules[2].Filter.Correlation.Label = nil // what was given is the caller's to change
		e.Rules = everyRule(p.stage)
		got, err := p.store.Entity(p.Context(), "ns", "NEWS/subscriptions/big-orders")
		p.wantCode("entity", err, "")
		p.wantSubscription("entity", got, e)
		got.Rules[2].Filter.Correlation.Label = nil // and so is what was returned
		got.Rules[1].Name = "changed"
		for _, s := range p.look().Subscriptions {
			if s.ID == e.ID {
				p.wantSubscription("of the topic", s, e)
			}
		}
		e.Rules = e.Rules[:1]
		updated, err := p.store.UpdateEntity(p.Context(), e)
		p.wantCode("update", err, "")
		e.Revision = updated.Revision
		p.wantSubscription("updated", p.look().Subscriptions[2], e)
	})},
	{"a topic knows its subscriptions by folded name", onTopic(func(p *press) {
		p.create(newSubscription(p.entity, "B2"))
		other := p.create(newTopic("News2", "t2"))
		p.create(newSubscription(other, "x"))
		v := p.look()
		p.wantEntity("topic", v.Entity, p.entity)
		want(p.stage, "subscriptions", names(v.Subscriptions),
			"[News/Subscriptions/a News/Subscriptions/b News/Subscriptions/B2 News/Subscriptions/c]")
		p.deleteEntity("news/subscriptions/b")
		want(p.stage, "subscriptions then", names(p.look().Subscriptions),
			"[News/Subscriptions/a News/Subscriptions/B2 News/Subscriptions/c]")
	})},
	{"what is no topic is none", onTopic(func(p *press) {
		for _, name := range []string{"orders", "news/subscriptions/a", "nosuch"} {
			_, err := p.store.Topic(p.Context(), "ns", name)
			p.wantCode("topic "+name, err, core.NotFound)
		}
		_, err := p.store.Topic(p.Context(), "other", "news")
		p.wantCode("topic of another namespace", err, core.NotFound)
	})},
	{"kinds are listed apart", onTopic(func(p *press) {
		p.create(newEntity("queue2", "q2"))
		p.create(newSubscription(p.create(newTopic("alerts", "t2")), "x"))
		for _, c := range []struct {
			listing   core.Listing
			skip, top int
			want      string
		}{
			{core.Listing{Kind: core.Queue}, 0, 9, "[Orders queue2]"},
			{core.Listing{Kind: core.Topic}, 0, 9, "[alerts News]"},
			{core.Listing{Kind: core.Topic}, 1, 9, "[News]"},
			{core.Listing{Kind: core.Subscription, Topic: "NEWS"}, 0, 9, "[News/Subscriptions/a News/Subscriptions/b News/Subscriptions/c]"},
			{core.Listing{Kind: core.Subscription, Topic: "news"}, 1, 1, "[News/Subscriptions/b]"},
			{core.Listing{Kind: core.Subscription, Topic: "alerts"}, 0, 9, "[alerts/Subscriptions/x]"},
			{core.Listing{Kind: core.Subscription, Topic: "nosuch"}, 0, 9, "[]"},
			{core.Listing{Kind: core.Subscription, Topic: "orders"}, 0, 9, "[]"},
		} {
			es, err := p.store.Entities(p.Context(), "ns", c.listing, c.skip, c.top)
			p.wantCode("entities", err, "")
			want(p.stage, fmt.Sprintf("names of %v %q", c.listing.Kind, c.listing.Topic), names(es), c.want)
		}
	})},
	{"a subscription needs a topic", func(s *stage) {
		_, err := s.store.CreateEntity(s.Context(), newSubscription(newTopic("nosuch", "t9"), "a"))
		s.wantCode("create without a topic", err, core.NotFound)
		_, err = s.store.CreateEntity(s.Context(), newSubscription(s.entity, "a"))
		s.wantCode("create at a queue", err, core.NotFound)
		_, err = s.store.Entity(s.Context(), "ns", "nosuch/subscriptions/a")
		s.wantCode("entity", err, core.NotFound)
	}},
	{"watchers of a topic hear of its subscriptions", onTopic(func(p *press) {
		heard := make(chan string, 1000)
		p.Cleanup(p.store.WatchEntities(func(namespace, name string) {
			if namespace == "" {
				name = "*"
			}
			select {
			case heard <- name:
			default:
			}
		}))
		await := func(what string, wanted ...string) {
			p.Helper()
			missing := make(map[string]bool)
			for _, name := range wanted {
				missing[name] = true
			}
			timeout := time.After(bellTimeout)
			for len(missing) > 0 {
				select {
				case name := <-heard:
					if name == "*" { // changes may have been missed
						return
					}
					delete(missing, name)
				case <-timeout:
					p.Fatalf("%s: heard nothing of %v", what, missing)
				}
			}
		}
		e := p.create(newSubscription(p.entity, "D"))
		await("create", "news", "news/subscriptions/d")
		_, err := p.store.UpdateEntity(p.Context(), e)
		p.wantCode("update", err, "")
		await("update", "news", "news/subscriptions/d")
		p.deleteEntity("news/subscriptions/d")
		await("delete", "news", "news/subscriptions/d")
		p.deleteEntity("news")
		await("delete the topic", "news", "news/subscriptions/a", "news/subscriptions/b", "news/subscriptions/c")
	})},
	{"publishers at once, while subscriptions come and go: each gets what it should", onTopic(func(p *press) {
		const publishers, each, changes = 3, 40, 12
		var work sync.WaitGroup
		var conflicts atomic.Int64
		for range publishers {
			work.Go(func() { p.publishAll(each, &conflicts) })
		}
		work.Go(func() {
			for i := range changes {
				name := fmt.Sprintf("m%d", i)
				if _, err := p.store.CreateEntity(p.Context(), newSubscription(p.entity, name)); err != nil {
					p.Errorf("create %s: %v", name, err)
				}
				if i%3 == 2 {
					if err := p.store.DeleteEntity(p.Context(), "ns", "news/subscriptions/"+name); err != nil {
						p.Errorf("delete %s: %v", name, err)
					}
				}
			}
		})
		work.Wait()
		p.Logf("%d conflicts", conflicts.Load())
		all := p.peek(p.at("a"))
		want(p.stage, "copies", len(all), publishers*each)
		for i, d := range all {
			want(p.stage, "number", d.SequenceNumber, number(int64(i+1)))
			want(p.stage, "number in the topic", d.EnqueuedSequenceNumber, number(int64(i+1)))
		}
		// A subscription gets everything from its creation on: the end of what the
		// first one got.
		for i := range changes {
			if i%3 == 2 {
				continue
			}
			ds := p.peek(p.at(fmt.Sprintf("m%d", i)))
			for j, d := range ds {
				want(p.stage, "number in the topic", d.EnqueuedSequenceNumber, all[len(all)-len(ds)+j].EnqueuedSequenceNumber)
			}
		}
	})},
}

// everyRule makes a rule of each kind.
func everyRule(s *stage) []core.Rule {
	at := time.Date(2026, time.February, 3, 0, 0, 0, 0, time.UTC)
	empty := ""
	return []core.Rule{
		{Name: core.DefaultRuleName, Filter: core.Filter{Kind: core.TrueFilter}, CreatedAt: at},
		{
			Name: "sql", Filter: core.Filter{Kind: core.SQLFilter, SQL: "a > @b", Parameters: properties(s, "@b", "1")},
			Action: "SET x = @y", ActionParameters: properties(s, "@y", "2"), CreatedAt: at,
		},
		{
			Name: "correlation", Filter: core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{
				Label: &empty, Properties: properties(s, "k", "v"),
			}}, CreatedAt: at,
		},
	}
}

// publishAll publishes n messages to all subscriptions, one by one.
func (p *press) publishAll(n int, conflicts *atomic.Int64) {
	for range n {
		m := text("x")
		for {
			v, err := p.store.Topic(p.Context(), "ns", "news")
			if err != nil {
				p.Errorf("topic: %v", err)
				return
			}
			x := core.Publication{Message: m}
			for _, e := range v.Subscriptions {
				x.Copies = append(x.Copies, core.Copy{To: e.Partition(stageIndex, core.Main), Message: m})
			}
			a := p.store.Publish(p.Context(), p.topic, v.Version, [][]core.Publication{{x}})
			if a[0].Err == nil {
				break
			}
			if !errors.Is(a[0].Err, core.Conflict) {
				p.Errorf("publish: %v", a[0].Err)
				return
			}
			conflicts.Add(1)
		}
	}
}

// names lists the names of entities.
func names(es []core.Entity) string {
	list := make([]string, len(es))
	for i, e := range es {
		list[i] = e.Name
	}
	return fmt.Sprint(list)
}

// wantSubscription is wantEntity for rules too, of which instants are compared
// as instants.
func (s *stage) wantSubscription(what string, got, want core.Entity) {
	s.Helper()
	if len(got.Rules) != len(want.Rules) {
		s.Fatalf("%s: got %d rules, want %d", what, len(got.Rules), len(want.Rules))
	}
	for i := range got.Rules {
		g, w := got.Rules[i], want.Rules[i]
		g.CreatedAt, w.CreatedAt = g.CreatedAt.UTC(), w.CreatedAt.UTC()
		if !reflect.DeepEqual(g, w) {
			s.Fatalf("%s: rule %d:\n got %+v\nwant %+v", what, i, g, w)
		}
	}
	got.Rules, want.Rules = nil, nil
	s.wantEntity(what, got, want)
}
