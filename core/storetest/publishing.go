package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

type press struct {
	*fixture
	entity  core.Entity
	topic   core.Partition // tests change its policy
	version int64          // as look last read it
}

// onTopic turns a test of a topic with the subscriptions a, b and c into one of a fixture.
func onTopic(tell func(*press)) func(*fixture) {
	return func(s *fixture) {
		p := &press{fixture: s}
		p.entity = s.create(newTopic("News", "t1"))
		p.topic = core.Partition{
			Ref:    core.Ref{Entity: "t1", Index: fixtureIndex},
			Policy: core.Policy{Partitioned: true, LockDuration: lockDuration},
		}
		for _, name := range []string{"a", "b", "c"} {
			s.create(newSubscription(p.entity, name))
		}
		p.look()
		tell(p)
	}
}

func newTopic(name, id string) core.Entity {
	e := newEntity(name, id)
	e.Kind, e.Settings = core.Topic, core.DefaultSettings(core.Topic)
	return e
}

func newSubscription(topic core.Entity, name string) core.Entity {
	e := newEntity(core.SubscriptionPath(topic.Name, name), topic.ID+core.FoldName(name))
	e.Kind, e.Settings, e.TopicID, e.Partitions = core.Subscription, core.DefaultSettings(core.Subscription), topic.ID, topic.Partitions
	return e
}

func newSchedule(name string) core.Entity {
	e := newEntity(core.SchedulePath(name), "s"+core.FoldName(name))
	e.Kind, e.Settings, e.Partitions = core.Schedule, core.Settings{}, 0
	e.Schedule = &core.ScheduleSettings{Name: name, Cron: "@daily", Entity: "orders", Message: core.ScheduledMessage{Properties: map[string]any{"n": "1"}}}
	return e
}

func (p *press) look() core.TopicView {
	p.Helper()
	v, err := p.store.Topic(p.Context(), "ns", "news")
	if err != nil {
		p.Fatalf("topic: %v", err)
	}
	p.version = v.Version
	return v
}

func (p *press) at(name string) core.Partition {
	return core.Partition{
		Ref:    core.Ref{Entity: "t1", Subscription: "t1" + name, Index: p.topic.Index},
		Policy: core.Policy{Partitioned: true, LockDuration: lockDuration, MaxDeliveryCount: maxDeliveries},
	}
}

func (p *press) to(m *core.Message, names ...string) core.Publication {
	x := core.Publication{Message: m}
	for _, name := range names {
		own := *m
		x.Copies = append(x.Copies, core.Copy{To: new(p.at(name)), Message: &own})
	}
	return x
}

func (p *press) tryPublish(group ...core.Publication) core.Appended {
	p.Helper()
	a := p.topic.In(p.store).Publish(p.Context(), p.version, [][]core.Publication{group})
	if len(a) != 1 {
		p.Fatalf("publish: got %d answers, want 1", len(a))
	}
	return a[0]
}

func (p *press) publish(group ...core.Publication) []int64 {
	p.Helper()
	a := p.tryPublish(group...)
	if a.Err != nil || len(a.Numbers) != len(group) {
		p.Fatalf("publish: got %+v, want %d numbers", a, len(group))
	}
	return a.Numbers
}

func (p *press) wantCopies(what string, wanted map[string]string) {
	p.Helper()
	for _, name := range []string{"a", "b", "c"} {
		var got strings.Builder
		for _, d := range p.peek(p.at(name)) {
			got.WriteString(string(d.Body.Bytes))
		}
		want(p.fixture, fmt.Sprintf("%s: subscription %s", what, name), got.String(), wanted[name])
	}
}

func (s *fixture) deleteEntity(name string) {
	s.Helper()
	s.wantCode("delete "+name, s.store.DeleteEntity(s.Context(), "ns", name), "")
}

var publishStories = []story{
	{"copies that are handed over and those that are locked are all copies, once and in order", onTopic(func(p *press) {
		names := []string{"a", "b"} // nothing takes the copies of c
		takers := map[string]*taker{}
		for _, name := range names {
			takers[name] = &taker{}
			p.Cleanup(p.at(name).In(p.store).Watch(takers[name]))
		}
		got := map[string][]string{}
		take := func(name string, ds []core.Delivery) {
			for i := range ds {
				got[name] = append(got[name], string(ds[i].Body.Bytes[:min(5, len(ds[i].Body.Bytes))]))
				p.settleAt(p.at(name), ds[i], core.Complete)
			}
		}
		var wanted []string
		for i := range 40 {
			var group []core.Publication
			for j := range 1 + i%3 {
				body := fmt.Sprintf("%02d.%02d", i, j)
				wanted = append(wanted, body)
				if i%4 == 3 {
					body += strings.Repeat(" and more", 1000) // an engine may store it once for all copies
				}
				m := text(body)
				if i%2 == 1 {
					m.TimeToLive = time.Hour
				}
				group = append(group, p.to(m, "a", "b", "c"))
			}
			for k, name := range names {
				takers[name].credit = (i + 2*k) % 5 // 0: the receiver is busy
			}
			p.publish(group...)
			for k, name := range names {
				take(name, takers[name].taken)
				takers[name].taken = nil
				if (i+k)%3 == 0 {
					take(name, p.lockAt(p.at(name), len(wanted)))
				}
			}
		}
		for _, name := range names {
			take(name, p.lockAt(p.at(name), len(wanted)))
			if !slices.Equal(got[name], wanted) {
				p.Errorf("messages of the subscription %s: got %q, want %q", name, got[name], wanted)
			}
			if n := takers[name].reserved; n != 0 {
				p.Errorf("%s: %d messages are still reserved", name, n)
			}
		}
	})},
	{"every subscription gets its own copy", onTopic(func(p *press) {
		m := text("1", id("x"), ttl(time.Minute))
		want(p.fixture, "number", p.publish(p.to(m, "a", "b"))[0], number(1))
		p.wantCopies("published", map[string]string{"a": "1", "b": "1"})
		p.wantStats("the topic itself", p.topic, core.Stats{})
		for _, name := range []string{"a", "b"} {
			d := p.lockOneAt(p.at(name))
			p.wantDelivery("copy", d, core.Delivery{
				Message: m,
				BrokerProperties: core.BrokerProperties{
					SequenceNumber:         number(1),
					EnqueuedSequenceNumber: number(1),
					EnqueuedTime:           p.clock.Now(),
					ExpiresAt:              p.clock.Now().Add(time.Minute),
					Partitioned:            true,
				},
			})
			p.wantTime("locked until", d.LockedUntil, p.clock.Now().Add(lockDuration))
			if name == "a" {
				p.settleAt(p.at(name), d, core.Complete)
			}
		}
		p.wantCopies("completed in one", map[string]string{"b": "1"})
	})},
	{"every publication takes a number of the topic, every copy one of its subscription", onTopic(func(p *press) {
		ns := p.publish(p.to(text("1"), "a"), p.to(text("2")), p.to(text("3"), "b", "a"))
		for i, n := range ns {
			want(p.fixture, "number", n, number(int64(i+1)))
		}
		want(p.fixture, "number", p.publish(p.to(text("4"), "b"))[0], number(4))
		p.wantCopies("published", map[string]string{"a": "13", "b": "34"})
		for name, origins := range map[string][]int64{"a": {1, 3}, "b": {3, 4}} {
			for i, d := range p.peek(p.at(name)) {
				want(p.fixture, "number of a copy", d.SequenceNumber, number(int64(i+1)))
				want(p.fixture, "number in the topic", d.EnqueuedSequenceNumber, number(origins[i]))
			}
		}
	})},
	{"a subscription can get several copies, each with its own properties", onTopic(func(p *press) {
		m := text("1")
		m.Properties = properties(p, "k", "sent")
		x := p.to(m, "a", "a", "b")
		x.Copies[0].Message.Properties = properties(p, "k", "first")
		x.Copies[1].Message.Properties = properties(p, "k", "second")
		p.publish(x)
		p.wantCopies("published", map[string]string{"a": "11", "b": "1"})
		for i, k := range []string{"first", "second"} {
			got, _ := p.peek(p.at("a"))[i].Properties.Get("k")
			want(p.fixture, "property", got, any(k))
		}
		p.settleAt(p.at("b"), p.lockOneAt(p.at("b")), core.Abandon, properties(p, "k", "changed"))
		got, _ := p.peek(p.at("a"))[0].Properties.Get("k")
		want(p.fixture, "property of another copy", got, any("first"))
	})},
	{"every field of a message survives publication", onTopic(func(p *press) {
		for _, m := range fullMessages(p.fixture) {
			p.publish(p.to(m, "a", "b"))
			for _, name := range []string{"a", "b"} {
				d := p.lockOneAt(p.at(name))
				var diff differences
				diffMessage(&diff, d.Message, m)
				want(p.fixture, "differences", diff.String(), "")
				p.settleAt(p.at(name), d, core.Complete)
			}
		}
	})},
	{"a body outlives its other copies", onTopic(func(p *press) {
		p.publish(p.to(text("1"), "a", "b", "c"), p.to(text("2"), "a", "b"))
		p.settleAt(p.at("a"), p.lockOneAt(p.at("a")), core.Complete)
		p.settleAt(p.at("b"), p.lockOneAt(p.at("b")), core.DeadLetterOutcome)
		p.wantCopies("after", map[string]string{"a": "2", "b": "2", "c": "1"})
		p.wantBodies("dead letter", p.lockAt(sub(p.at("b"), core.DeadLetter), 9), "1")
		p.deleteEntity("news/subscriptions/a")
		p.wantCopies("one deleted", map[string]string{"b": "2", "c": "1"})
	})},
	{"a copy can be a dead letter from the beginning", onTopic(func(p *press) {
		x := p.to(text("1", ttl(time.Second)), "a", "b")
		x.Copies[0].To = new(sub(*x.Copies[0].To, core.DeadLetter))
		x.Copies[0].Message.Properties = properties(p, core.PropertyDeadLetterReason, core.ReasonFilterException)
		p.publish(p.to(text("0")), x)
		p.wantCopies("published", map[string]string{"b": "1"})
		dead := sub(p.at("a"), core.DeadLetter)
		enqueued := p.clock.Now()
		p.clock.Advance(time.Hour)
		p.wantDelivery("dead letter", p.lockOneAt(dead), core.Delivery{
			Message: x.Copies[0].Message,
			BrokerProperties: core.BrokerProperties{
				SequenceNumber: number(1), EnqueuedSequenceNumber: number(2),
				EnqueuedTime: enqueued, ExpiresAt: enqueued.Add(time.Second), Partitioned: true,
			},
		})
	})},
	{"subscriptions are queues", onTopic(func(p *press) {
		at := p.at("a")
		at.DeadLetterExpired, at.MaxDeliveryCount = true, 2
		p.publish(p.to(text("1"), "a", "b"), p.to(text("2", ttl(time.Second)), "a"), p.to(text("3"), "a"))
		ds := p.lockAt(at, 2)
		p.settleAt(at, ds[0], core.Defer)
		p.settleAt(at, ds[1], core.Abandon)
		p.clock.Advance(time.Second)
		p.wantBodies("left", p.lockAt(at, 9), "3")
		p.wantReason("expired", p.lockOneAt(sub(at, core.DeadLetter)), core.ReasonExpired, core.DescriptionExpired)
		got, _, err := at.In(p.store).Lock(p.Context(), core.LockRequest{Numbers: []int64{ds[0].SequenceNumber}, Deferred: true})
		p.wantCode("lock deferred", err, "")
		p.wantBodies("deferred", got, "1")
		p.clock.Advance(lockDuration)
		p.lockAt(at, 9)
		p.clock.Advance(lockDuration)
		p.wantBodies("dead letters", p.peek(sub(at, core.DeadLetter)), "2", "1", "3")
		p.wantStats("the other subscription", p.at("b"), core.Stats{Ready: 1})
	})},
	{"partitions of a topic publish apart", onTopic(func(p *press) {
		p.publish(p.to(text("1"), "a"))
		p.topic.Index = 0
		want(p.fixture, "number", p.publish(p.to(text("2"), "a"))[0], core.SequenceNumber(0, 1))
		p.wantCopies("first", map[string]string{"a": "2"})
		p.topic.Index = fixtureIndex
		p.wantCopies("last", map[string]string{"a": "1"})
	})},
	{"copies for a subscription with sessions join them", onTopic(func(p *press) {
		x := p.to(text("1", in("x")), "a", "b")
		x.Copies[0].To.Sessions = true
		p.publish(x)
		p.wantBodies("without sessions", p.lockAt(p.at("b"), 9), "1")
		p.main = p.at("a")
		p.main.Sessions = true
		l := p.acceptNext("x")
		p.publish(x)
		p.wantBodies("in the session", p.lockIn(l, 9), "1", "1")
	})},
	{"copies ignore the ids, schedules and keys of messages", onTopic(func(p *press) {
		p.topic.DuplicateWindow = time.Hour
		for _, sent := range []string{"1", "2"} {
			x := p.to(text("x", id(sent)), "a")
			m := x.Copies[0].Message
			m.MessageID, m.ScheduledEnqueueTime = core.StringID("same"), p.clock.Now().Add(time.Hour)
			m.Transit = &core.Transit{Key: "same"}
			p.publish(x)
		}
		p.wantStats("copies", p.at("a"), core.Stats{Ready: 2})
	})},
	{"a topic drops duplicates before they are copied", onTopic(func(p *press) {
		p.topic.DuplicateWindow = time.Minute
		p.publish(p.to(text("1", id("x")), "a"))
		ns := p.publish(p.to(text("2", id("x")), "a", "b"), p.to(text("3", id("y")), "a"))
		want(p.fixture, "number of the duplicate", ns[0], 0)
		want(p.fixture, "number after it", ns[1], number(2))
		p.wantCopies("published", map[string]string{"a": "13"})
	})},
	{"the bells of all subscriptions ring", onTopic(func(p *press) {
		a, b := p.bell(p.at("a")), p.bell(p.at("b"))
		dead := p.bell(sub(p.at("c"), core.DeadLetter))
		x := p.to(text("1"), "a", "b", "c")
		x.Copies[2].To = new(sub(*x.Copies[2].To, core.DeadLetter))
		a("a", func() { b("b", func() { dead("c", func() { p.publish(x) }) }) })
	})},
	{"a publication to many subscriptions reaches all of them", onTopic(func(p *press) {
		const n = 300
		x := core.Publication{Message: text("1")}
		for i := range n {
			name := fmt.Sprintf("m%d", i)
			p.create(newSubscription(p.entity, name))
			x.Copies = append(x.Copies, core.Copy{To: new(p.at(name)), Message: x.Message})
		}
		p.look()
		p.publish(x, x)
		for i := range n {
			p.wantBodies("copies", p.lockAt(p.at(fmt.Sprintf("m%d", i)), 9), "1", "1")
		}
	})},
	{"publishing to an unknown topic", onTopic(func(p *press) {
		for _, ref := range []core.Ref{{Entity: "nosuch"}, {Entity: "t1", Index: fixturePartitions}} {
			p.topic.Ref = ref
			p.wantCode("publish", p.tryPublish(p.to(text("1"))).Err, core.NotFound)
		}
	})},
}

var fenceStories = []story{
	{"a publication by an old version of the subscriptions is a conflict", onTopic(func(p *press) {
		changes := map[string]func(){
			"create": func() { p.create(newSubscription(p.entity, "d")) },
			"update": func() {
				e, err := p.store.Entity(p.Context(), "ns", "news/subscriptions/a")
				p.wantCode("entity", err, "")
				e.Rules = []core.Rule{{Name: "r", Filter: core.Filter{Kind: core.FalseFilter}}}
				_, err = p.store.UpdateEntity(p.Context(), e, core.NamespaceQuotas{})
				p.wantCode("update", err, "")
			},
			"delete": func() { p.deleteEntity("news/subscriptions/b") },
		}
		for what, change := range changes {
			change()
			answers := p.topic.In(p.store).Publish(p.Context(), p.version, [][]core.Publication{
				{p.to(text("x"), "a")}, {p.to(text("y"), "a", "c")},
			})
			want(p.fixture, "answers", len(answers), 2)
			for _, a := range answers {
				p.wantCode("publish after "+what, a.Err, core.Conflict)
			}
			old := p.version
			if v := p.look(); v.Version <= old {
				p.Fatalf("version after %s: got %d, want more than %d", what, v.Version, old)
			}
		}
		p.wantCopies("nothing published", nil)
		want(p.fixture, "number", p.publish(p.to(text("1"), "a", "b", "c"))[0], number(1))
		p.wantCopies("published", map[string]string{"a": "1", "c": "1"})
	})},
	{"what does not change subscriptions does not change their version", onTopic(func(p *press) {
		p.wantCode("touch", p.store.TouchEntities(p.Context(), "ns", map[string]time.Time{
			"news/subscriptions/a": p.clock.Now(), "news": p.clock.Now(),
		}), "")
		_, err := p.store.CreateEntity(p.Context(), newSubscription(p.entity, "A"), core.NamespaceQuotas{})
		p.wantCode("create again", err, core.AlreadyExists)
		p.wantCode("delete unknown", p.store.DeleteEntity(p.Context(), "ns", "news/subscriptions/z"), core.NotFound)
		p.create(newSubscription(p.create(newTopic("Other", "t2")), "a"))
		p.publish(p.to(text("1"), "a"))
	})},
	{"a new subscription gets what is published from then on", onTopic(func(p *press) {
		p.publish(p.to(text("1"), "a"))
		p.create(newSubscription(p.entity, "d"))
		p.look()
		p.publish(p.to(text("2"), "a", "d"))
		d := p.lockOneAt(p.at("d"))
		p.wantBodies("copy", []core.Delivery{d}, "2")
		want(p.fixture, "number", d.SequenceNumber, number(1))
		want(p.fixture, "number in the topic", d.EnqueuedSequenceNumber, number(2))
	})},
	{"the scheduled are fenced too, and stay", onTopic(func(p *press) {
		p.publish(p.to(text("1", p.after(time.Second))))
		p.clock.Advance(time.Second)
		d := p.lockOneAt(p.topic)
		p.create(newSubscription(p.entity, "d"))
		x := p.to(d.Message, "a")
		x.Source = d.LockToken
		p.wantCode("publish", p.tryPublish(x).Err, core.Conflict)
		p.wantStats("the topic", p.topic, core.Stats{Locked: 1})
		p.look()
		p.publish(x)
		p.wantStats("the topic", p.topic, core.Stats{})
	})},
	{"a deleted subscription is gone with its messages", onTopic(func(p *press) {
		p.publish(p.to(text("1"), "a", "b"), p.to(text("2"), "a"))
		at := p.at("a")
		ds := p.lockAt(at, 2)
		p.settleAt(at, ds[1], core.DeadLetterOutcome)
		p.deleteEntity("News/Subscriptions/A")
		p.wantUnknown(at, ds[0].LockToken)
		p.wantUnknown(sub(at, core.DeadLetter), ds[0].LockToken)
		_, err := p.store.Entity(p.Context(), "ns", "news/subscriptions/a")
		p.wantCode("entity", err, core.NotFound)
		p.wantCopies("left", map[string]string{"b": "1"})
		e := newSubscription(p.entity, "a")
		e.ID = "again"
		p.create(e)
		at.Subscription = "again"
		p.wantStats("created again", at, core.Stats{})
	})},
	{"a deleted topic is gone with its subscriptions", onTopic(func(p *press) {
		p.publish(p.to(text("1"), "a", "b"), p.to(text("2", p.after(time.Second))))
		d := p.lockOneAt(p.at("a"))
		p.deleteEntity("news")
		for _, name := range []string{"news", "news/subscriptions/a", "news/subscriptions/b", "news/subscriptions/c"} {
			_, err := p.store.Entity(p.Context(), "ns", name)
			p.wantCode("entity "+name, err, core.NotFound)
		}
		_, err := p.store.Topic(p.Context(), "ns", "news")
		p.wantCode("topic", err, core.NotFound)
		p.wantUnknown(p.at("a"), d.LockToken)
		p.wantUnknown(sub(p.at("a"), core.DeadLetter), d.LockToken)
		p.wantUnknown(p.topic, d.LockToken)
		p.wantCode("publish", p.tryPublish(p.to(text("3"), "a")).Err, core.NotFound)
		_, err = p.store.CreateEntity(p.Context(), newSubscription(p.entity, "d"), core.NamespaceQuotas{})
		p.wantCode("create a subscription", err, core.NotFound)
		e := p.create(newTopic("news", "t9"))
		v := p.look()
		want(p.fixture, "subscriptions of a new topic", len(v.Subscriptions), 0)
		p.create(newSubscription(e, "a"))
		want(p.fixture, "subscriptions then", len(p.look().Subscriptions), 1)
	})},
}

var duePublishStories = []story{
	{"a scheduled publication waits in the topic", onTopic(func(p *press) {
		due := p.clock.Now().Add(time.Minute)
		ns := p.publish(p.to(text("1", p.after(time.Minute)), "a", "b"), p.to(text("2"), "a"), p.to(text("3", p.after(time.Minute)), "a"))
		want(p.fixture, "number", ns[0], number(1))
		want(p.fixture, "number", ns[1], number(2))
		want(p.fixture, "number", ns[2], number(3))
		p.wantCopies("at first", map[string]string{"a": "2"})
		p.wantStats("the topic", p.topic, core.Stats{Scheduled: 2})
		p.wantTime("next", p.sweep(p.topic), due)
		got := p.peek(p.topic)
		p.wantBodies("peeked", got, "1", "3")
		want(p.fixture, "state", got[0].State, core.Scheduled)
		p.wantCode("cancel", p.topic.In(p.store).Cancel(p.Context(), ns[2:]), "")
		p.clock.Advance(time.Minute)
		p.wantStats("the topic, once it is due", p.topic, core.Stats{Ready: 1})
		p.wantCopies("once it is due", map[string]string{"a": "2"})
		d := p.lockOneAt(p.topic)
		want(p.fixture, "number once it is due", d.SequenceNumber, number(4))
		x := p.to(d.Message, "a", "c")
		x.Source = d.LockToken
		want(p.fixture, "number as published", p.publish(x)[0], number(4))
		p.wantStats("the topic, once it is published", p.topic, core.Stats{})
		p.wantCopies("published", map[string]string{"a": "21", "c": "1"})
		c := p.lockOneAt(p.at("c"))
		want(p.fixture, "number in the topic", c.EnqueuedSequenceNumber, number(4))
		p.wantTime("enqueued", c.EnqueuedTime, p.clock.Now())
		want(p.fixture, "next number", p.publish(p.to(text("5")))[0], number(5))
	})},
	{"what is due waits for its publication, however often that fails", onTopic(func(p *press) {
		p.publish(p.to(text("1", p.after(time.Second))))
		p.clock.Advance(time.Second)
		for n := range uint32(20) {
			want(p.fixture, "delivery count", p.lockOneAt(p.topic).DeliveryCount, n)
			p.clock.Advance(lockDuration)
		}
		p.wantStats("the topic", p.topic, core.Stats{Ready: 1})
	})},
	{"what is due and was delivered before is first, whatever its number", onTopic(func(p *press) {
		p.publish(p.to(text("1", p.after(time.Second))), p.to(text("2", p.after(time.Second))), p.to(text("3", p.after(time.Second))))
		p.clock.Advance(time.Second)
		byNumber, _, err := p.topic.In(p.store).Lock(p.Context(), core.LockRequest{Numbers: []int64{number(5)}})
		p.wantCode("lock", err, "")
		p.wantBodies("by number", byNumber, "2")
		p.settleAt(p.topic, byNumber[0], core.Abandon)
		again := p.lockOneAt(p.topic)
		p.wantBodies("the first", []core.Delivery{again}, "2")
		p.settleAt(p.topic, again, core.Abandon)
		removed, err := p.topic.In(p.store).Purge(p.Context(), 2)
		p.wantCode("purge", err, "")
		want(p.fixture, "purged", removed, 2)
		p.wantBodies("the others", p.lockAt(p.topic, 9), "3")
	})},
	{"a publication whose source is lost does nothing", onTopic(func(p *press) {
		p.publish(p.to(text("1", p.after(time.Second))), p.to(text("2", p.after(time.Second))))
		p.clock.Advance(time.Second)
		ds := p.lockAt(p.topic, 2)
		first, second := p.to(ds[0].Message, "a"), p.to(ds[1].Message, "a")
		first.Source, second.Source = ds[0].LockToken, ds[1].LockToken
		forged := first
		forged.Source = core.NewLockToken(fixtureIndex, first.Source.Number(), first.Source.Nonce()+1)
		p.wantCode("forged", p.tryPublish(p.to(text("x"), "a"), forged).Err, core.LockLost)
		p.wantCode("half lost", p.tryPublish(first, forged).Err, core.LockLost)
		p.wantCode("twice", p.tryPublish(first, second, first).Err, core.LockLost)
		p.wantStats("the topic", p.topic, core.Stats{Locked: 2})
		answers := p.topic.In(p.store).Publish(p.Context(), p.version, [][]core.Publication{
			{first}, {first, p.to(text("x"), "b")}, {p.to(text("3"), "b"), second},
		})
		for i, code := range []core.Code{"", core.LockLost, ""} {
			p.wantCode("group", answers[i].Err, code)
		}
		p.wantCopies("published", map[string]string{"a": "12", "b": "3"})
		p.clock.Advance(lockDuration)
		p.wantCode("again", p.tryPublish(first).Err, core.LockLost)
	})},
	{"a publication whose source's lock has expired does nothing", onTopic(func(p *press) {
		p.publish(p.to(text("1", p.after(time.Second))))
		p.clock.Advance(time.Second)
		d := p.lockOneAt(p.topic)
		x := p.to(d.Message, "a")
		x.Source = d.LockToken
		p.clock.Advance(lockDuration)
		p.wantCode("publish", p.tryPublish(x).Err, core.LockLost)
		p.wantCopies("nothing", nil)
		p.wantStats("the topic", p.topic, core.Stats{Ready: 1})
	})},
	{"what is due is not a duplicate of itself, and needs no room", onTopic(func(p *press) {
		p.topic.DuplicateWindow = time.Hour
		p.publish(p.to(text("1", id("x"), p.after(time.Second))))
		want(p.fixture, "number of a duplicate", p.publish(p.to(text("2", id("x")), "a"))[0], 0)
		p.clock.Advance(time.Second)
		p.topic.MaxBytes = 1
		p.wantCode("publish to a full topic", p.tryPublish(p.to(text("3"), "a")).Err, core.QuotaExceeded)
		d := p.lockOneAt(p.topic)
		m := *d.Message
		m.ScheduledEnqueueTime = p.clock.Now().Add(time.Hour)
		x := p.to(&m, "a")
		x.Source = d.LockToken
		want(p.fixture, "number", p.publish(x)[0], d.SequenceNumber)
		p.wantCopies("published", map[string]string{"a": "1"})
	})},
	{"the bell of the topic rings when something is due", onTopic(func(p *press) {
		listen := p.bell(p.topic)
		listen("schedule", func() { p.publish(p.to(text("1", p.after(time.Second)))) })
		listen("activation", func() { p.clock.Advance(time.Second); p.sweep(p.topic) })
	})},
	{"a topic is full by what its subscriptions hold", onTopic(func(p *press) {
		p.topic.MaxBytes = 3000
		big := func() *core.Message { return text(string(make([]byte, 4000))) }
		want(p.fixture, "number without copies", p.publish(p.to(big()))[0], number(1))
		p.publish(p.to(big(), "a", "b"))
		answers := p.topic.In(p.store).Publish(p.Context(), p.version, [][]core.Publication{{p.to(text("x"), "c")}, {p.to(text("y"))}})
		for _, a := range answers {
			p.wantCode("publish", a.Err, core.QuotaExceeded)
		}
		p.settleAt(p.at("a"), p.lockOneAt(p.at("a")), core.Complete)
		p.wantCode("one copy left", p.tryPublish(p.to(text("x"), "c")).Err, core.QuotaExceeded)
		p.settleAt(p.at("b"), p.lockOneAt(p.at("b")), core.DeadLetterOutcome)
		p.wantCode("that one dead-lettered", p.tryPublish(p.to(text("x"), "c")).Err, core.QuotaExceeded)
		dead := sub(p.at("b"), core.DeadLetter)
		p.settleAt(dead, p.lockOneAt(dead), core.Complete)
		want(p.fixture, "number once there is room", p.publish(p.to(big(), "c"))[0], number(3))
		p.wantCode("full again", p.tryPublish(p.to(text("x"), "a")).Err, core.QuotaExceeded)
		p.deleteEntity("news/subscriptions/c")
		p.look()
		p.publish(p.to(big(), "a"))
	})},
	{"a topic's size is what it and its subscriptions hold", onTopic(func(p *press) {
		const kept = 100_000
		size := func(at core.Partition) int64 {
			return p.stats(at).Bytes
		}
		want(p.fixture, "size of nothing", size(p.topic), 0)
		p.publish(p.to(text(string(make([]byte, kept))), "a"))
		if got := size(p.topic); got < kept || got > 2*kept {
			p.Errorf("size of the topic with one message: got %d, want %d to %d", got, kept, 2*kept)
		}
		p.publish(p.to(text(string(make([]byte, kept)), p.after(time.Hour))))
		if got := size(p.topic); got < 2*kept || got > 3*kept {
			p.Errorf("size of the topic with a second message, which is scheduled: got %d, want %d to %d", got, 2*kept, 3*kept)
		}
		p.settleAt(p.at("a"), p.lockOneAt(p.at("a")), core.Complete)
		if got := size(p.topic); got < kept || got >= 2*kept {
			p.Errorf("size of the topic after the first message was settled: got %d, want %d to %d", got, kept, 2*kept)
		}
	})},
	{"a topic's size is that of the dead letters and transfers of its subscriptions too", onTopic(func(p *press) {
		const kept = 100_000
		a, b := p.at("a"), p.at("b")
		size := func(at core.Partition) int64 { return p.stats(at).Bytes }
		p.publish(p.to(text(string(make([]byte, kept))), "a", "b")) // the copies share the body
		p.settleAt(a, p.lockOneAt(a), core.DeadLetterOutcome)
		p.settleAt(b, p.lockOneAt(b), core.DeadLetterOutcome)
		p.sendTo(sub(a, core.Transfer), text(string(make([]byte, kept))))
		p.sendTo(sub(b, core.TransferDeadLetter), text(string(make([]byte, kept))))
		if got := size(p.topic); got < 3*kept || got > 5*kept {
			p.Errorf("size of the topic with dead letters, a transfer and a transfer dead letter: got %d, want %d to %d", got, 3*kept, 5*kept)
		}
		p.deleteEntity("news/subscriptions/b")
		p.look()
		if got := size(p.topic); got < 2*kept || got > 3*kept {
			p.Errorf("size of the topic after one subscription was deleted: got %d, want %d to %d", got, 2*kept, 3*kept)
		}
		p.settleAt(sub(a, core.DeadLetter), p.lockOneAt(sub(a, core.DeadLetter)), core.Complete)
		if got := size(p.topic); got < kept || got > 2*kept {
			p.Errorf("size of the topic after the remaining dead letter was settled: got %d, want %d to %d", got, kept, 2*kept)
		}
		p.settleAt(sub(a, core.Transfer), p.lockOneAt(sub(a, core.Transfer)), core.Complete)
		want(p.fixture, "size of nothing", size(p.topic), 0)
	})},
	{"a topic is full by what it has scheduled", onTopic(func(p *press) {
		p.topic.MaxBytes = 3000
		ns := p.publish(p.to(text(string(make([]byte, 4000)), p.after(time.Hour))))
		p.wantCode("publish", p.tryPublish(p.to(text("x"), "a")).Err, core.QuotaExceeded)
		p.wantCode("cancel", p.topic.In(p.store).Cancel(p.Context(), ns), "")
		p.publish(p.to(text("x"), "a"))
	})},
}
