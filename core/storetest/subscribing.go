package storetest

import (
	"errors"
	"fmt"
	"math"
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
		e.Rules = everyRule(p.fixture)
		created := p.create(e)
		e.Revision = created.Revision
		bare := e
		bare.Rules = nil
		p.wantSubscription("created", created, bare)
		e.Rules[0].Filter.Correlation.Label = nil // the caller may change what it has passed to the store
		e.Rules = everyRule(p.fixture)
		got, err := p.store.Entity(p.Context(), "ns", "NEWS/subscriptions/big-orders")
		p.wantCode("entity", err, "")
		p.wantSubscription("entity", got, bare)
		for range 2 {
			there := p.look().Subscriptions[2]
			p.wantSubscription("of the topic", there, e)
			there.Rules[0].Filter.Correlation.Label = nil // and what the store has returned
			there.Rules[1].Name = "changed"
		}
		updated, err := p.store.UpdateEntity(p.Context(), bare, core.NamespaceQuotas{})
		p.wantCode("update", err, "")
		e.Revision = updated.Revision
		p.wantSubscription("updated", p.look().Subscriptions[2], e)
	})},
	{"rules are changed one by one, and listed by page", onTopic(func(p *press) {
		all := everyRule(p.fixture)
		e := newSubscription(p.entity, "d")
		e.Rules = all
		e = p.create(e)
		change := func(c core.RuleChange) {
			p.Helper()
			before := p.look().Version
			e.UpdatedAt = e.UpdatedAt.Add(time.Hour)
			changed, version, err := p.store.ChangeRule(p.Context(), e, c)
			p.wantCode("change a rule", err, "")
			want(p.fixture, "version", version, before+1)
			want(p.fixture, "version of the topic", p.look().Version, version)
			want(p.fixture, "revision", changed.Revision, e.Revision+1)
			_, _, err = p.store.ChangeRule(p.Context(), e, c)
			p.wantCode("change by an old revision", err, core.Conflict)
			got, err := p.store.Entity(p.Context(), "ns", e.Name)
			p.wantCode("entity", err, "")
			p.wantSubscription("entity", got, changed)
			e = changed
		}
		listed := func(skip, top int, want ...core.Rule) {
			p.Helper()
			e, got := e, e
			rules, err := p.store.Rules(p.Context(), e, skip, top)
			p.wantCode("rules", err, "")
			e.Rules, got.Rules = want, rules
			p.wantSubscription("rules", got, e)
		}
		added := core.Rule{Name: "Next", Filter: core.Filter{Kind: core.FalseFilter}, CreatedAt: all[0].CreatedAt}
		change(core.RuleChange{Rule: added})
		listed(0, 9, all[0], all[1], added, all[2])
		listed(0, math.MaxInt, all[0], all[1], added, all[2])
		listed(1, 2, all[1], added)
		listed(3, 2, all[2])
		listed(4, 2)
		listed(0, 0)
		renamed := added
		renamed.Name, renamed.Action = "NEXT", "SET a = 1"
		change(core.RuleChange{Rule: renamed})
		change(core.RuleChange{Rule: core.Rule{Name: "SQL"}, Remove: true})
		change(core.RuleChange{Rule: core.Rule{Name: "nex"}, Remove: true}) // does not exist
		listed(0, 9, all[0], all[1], renamed)
		p.wantSubscription("of the topic", p.look().Subscriptions[3], func() core.Entity {
			e := e
			e.Rules = []core.Rule{all[0], all[1], renamed}
			return e
		}())
		r, err := p.store.Rule(p.Context(), e, "next")
		p.wantCode("rule", err, "")
		want(p.fixture, "rule's name", r.Name, "NEXT")
		for _, name := range []string{"nex", "next2", "sql", ""} {
			_, err = p.store.Rule(p.Context(), e, name)
			p.wantCode("rule "+name, err, core.NotFound)
		}
		p.deleteEntity(e.Name)
		_, _, err = p.store.ChangeRule(p.Context(), e, core.RuleChange{Rule: added})
		p.wantCode("change a rule of what is gone", err, core.NotFound)
		listed(0, 9)
		again := newSubscription(p.entity, "d")
		again.ID += "2"
		e = p.create(again)
		listed(0, 9)
		p.deleteEntity("news")
		listed(0, 9)
	})},
	{"a publication by an older version than a rule's change is refused", onTopic(func(p *press) {
		v := p.look()
		_, version, err := p.store.ChangeRule(p.Context(), v.Subscriptions[0], core.RuleChange{Rule: everyRule(p.fixture)[0]})
		p.wantCode("change a rule", err, "")
		p.version = v.Version
		p.wantCode("publish", p.tryPublish(p.to(text("x"), "a")).Err, core.Conflict)
		p.version = version
		p.publish(p.to(text("x"), "a"))
	})},
	{"a topic knows its subscriptions by folded name", onTopic(func(p *press) {
		p.create(newSubscription(p.entity, "B2"))
		other := p.create(newTopic("News2", "t2"))
		p.create(newSubscription(other, "x"))
		v := p.look()
		p.wantEntity("topic", v.Entity, p.entity)
		want(p.fixture, "subscriptions", names(v.Subscriptions),
			"[News/Subscriptions/a News/Subscriptions/b News/Subscriptions/B2 News/Subscriptions/c]")
		p.deleteEntity("news/subscriptions/b")
		want(p.fixture, "subscriptions then", names(p.look().Subscriptions),
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
		p.create(newSchedule("Orders"))
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
			{core.Listing{Kind: core.Schedule}, 0, 9, "[$schedules/Orders]"},
		} {
			es, err := p.store.Entities(p.Context(), "ns", c.listing, c.skip, c.top)
			p.wantCode("entities", err, "")
			want(p.fixture, fmt.Sprintf("names of %v %q", c.listing.Kind, c.listing.Topic), names(es), c.want)
		}
	})},
	{"a schedule is kept beside a queue of its name", func(s *fixture) {
		made := s.create(newSchedule("Orders"))
		made.Schedule.LastTick = s.clock.Now().UTC()
		changed, err := s.store.UpdateEntity(s.Context(), made, core.NamespaceQuotas{})
		s.wantCode("update", err, "")
		_, err = s.store.UpdateEntity(s.Context(), made, core.NamespaceQuotas{})
		s.wantCode("update of an older revision", err, core.Conflict)
		got, err := s.store.Entity(s.Context(), "ns", core.SchedulePath("ORDERS"))
		s.wantCode("entity", err, "")
		want(s, "schedule", fmt.Sprint(got.Kind, got.Revision, got.Schedule.Cron, got.Schedule.LastTick, got.Schedule.Message.Properties),
			fmt.Sprint(changed.Kind, int64(2), "@daily", made.Schedule.LastTick, map[string]any{"n": "1"}))
		s.deleteEntity(core.SchedulePath("orders"))
		_, err = s.store.Entity(s.Context(), "ns", core.SchedulePath("Orders"))
		s.wantCode("deleted schedule", err, core.NotFound)
		_, err = s.store.Entity(s.Context(), "ns", "Orders")
		s.wantCode("queue of its name", err, "")
	}},
	{"a subscription needs a topic", func(s *fixture) {
		_, err := s.store.CreateEntity(s.Context(), newSubscription(newTopic("nosuch", "t9"), "a"), core.NamespaceQuotas{})
		s.wantCode("create without a topic", err, core.NotFound)
		_, err = s.store.CreateEntity(s.Context(), newSubscription(s.entity, "a"), core.NamespaceQuotas{})
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
		_, err := p.store.UpdateEntity(p.Context(), e, core.NamespaceQuotas{})
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
				if _, err := p.store.CreateEntity(p.Context(), newSubscription(p.entity, name), core.NamespaceQuotas{}); err != nil {
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
		want(p.fixture, "copies", len(all), publishers*each)
		for i, d := range all {
			want(p.fixture, "number", d.SequenceNumber, number(int64(i+1)))
			want(p.fixture, "number in the topic", d.EnqueuedSequenceNumber, number(int64(i+1)))
		}
		// A subscription has the messages that were published since its creation: the last of those
		// that the first subscription has.
		for i := range changes {
			if i%3 == 2 {
				continue
			}
			ds := p.peek(p.at(fmt.Sprintf("m%d", i)))
			for j, d := range ds {
				want(p.fixture, "number in the topic", d.EnqueuedSequenceNumber, all[len(all)-len(ds)+j].EnqueuedSequenceNumber)
			}
		}
	})},
}

func everyRule(s *fixture) []core.Rule {
	at := time.Date(2026, time.February, 3, 0, 0, 0, 0, time.UTC)
	empty := ""
	return []core.Rule{
		{
			Name: "correlation", Filter: core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{
				Label: &empty, Properties: properties(s, "k", "v"),
			}}, CreatedAt: at,
		},
		{Name: "every", Filter: core.Filter{Kind: core.TrueFilter}, CreatedAt: at},
		{
			Name: "sql", Filter: core.Filter{Kind: core.SQLFilter, SQL: "a > @b", Parameters: properties(s, "@b", "1")},
			Action: "SET x = @y", ActionParameters: properties(s, "@y", "2"), CreatedAt: at,
		},
	}
}

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
				x.Copies = append(x.Copies, core.Copy{To: new(e.Partition(fixtureIndex, core.Main)), Message: m})
			}
			a := p.topic.In(p.store).Publish(p.Context(), v.Version, [][]core.Publication{{x}})
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

func names(es []core.Entity) string {
	list := make([]string, len(es))
	for i, e := range es {
		list[i] = e.Name
	}
	return fmt.Sprint(list)
}

func (s *fixture) wantSubscription(what string, got, want core.Entity) {
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
