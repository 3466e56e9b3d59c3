package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func TestTopicsAndSubscriptionsAreCreatedReadListedAndDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		topic := b.createTopic(t, "Orders", partitioned)
		if topic.Kind != core.Topic || topic.Partitions != 4 || topic.Settings.MaxSizeInMegabytes != 16384 {
			t.Errorf("topic: %+v", topic)
		}
		path := b.subscribe(t, "orders", "West", nil)
		b.subscribe(t, "ORDERS", "east", nil)
		got, rt, err := b.Entity(t.Context(), root, "orders/subscriptions/west")
		if err != nil || got.Kind != core.Subscription || got.Name != "Orders/Subscriptions/West" || got.TopicID != topic.ID ||
			got.Partitions != 4 || rt.Availability != "Available" {
			t.Errorf("subscription: %+v, %+v, %v", got, rt, err)
		}
		subs, _, err := b.Entities(t.Context(), root, core.Listing{Kind: core.Subscription, Topic: "orders"}, 0, 10)
		if err != nil || len(subs) != 2 || subs[0].Name != "Orders/Subscriptions/east" {
			t.Errorf("subscriptions: %v, %v", subs, err)
		}
		queues, _, err := b.Entities(t.Context(), root, core.Listing{}, 0, 10)
		topics, counts, err2 := b.Entities(t.Context(), root, core.Listing{Kind: core.Topic}, 0, 10)
		if err != nil || err2 != nil || len(queues) != 0 || len(topics) != 1 || counts[0].Subscriptions != 2 || counts[0].SQLFilters != 2 {
			t.Errorf("queues %v, %v, topics %v %+v, %v", queues, err, topics, counts, err2)
		}
		s := b.sender(t, "orders")
		in := b.receive(t, path, core.PeekLock, 1)
		if err := b.DeleteEntity(t.Context(), root, "Orders"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := in.closures(); len(got) != 1 || !errors.Is(got[0], core.NotFound) {
			t.Errorf("the receiver was told %v", got)
		}
		if a := s.Send(t.Context(), each(text("m"))); !errors.Is(a[0].Err, core.NotFound) {
			t.Errorf("send to what is gone: %v", a)
		}
		if _, _, err := b.Entity(t.Context(), root, path); !errors.Is(err, core.NotFound) {
			t.Errorf("subscription of a topic that is gone: %v", err)
		}
	})
}

func TestASubscriptionIsRefusedBeforeAnythingIsStored(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.createTopic(t, "t")
		b.subscribe(t, "t", "taken", nil)
		bad, unnamed := sqlRule("bad", "a ==", ""), sqlRule("a/b", "1=1", "")
		for _, c := range []struct {
			name string
			rule *core.Rule
			code core.Code
			text string
		}{
			{"t/Subscriptions/new", &bad, core.InvalidArgument, "Rule 'bad': SQL filter, position 4"},
			{"t/Subscriptions/new", &unnamed, core.InvalidArgument, "The rule name 'a/b' contains"},
			{"t/Subscriptions/a b", nil, core.InvalidArgument, "The subscription name 'a b' is not allowed"},
			{"new", nil, core.InvalidArgument, "'new' cannot be the name of a subscription"},
			{"missing/Subscriptions/new", nil, core.NotFound, "The messaging entity 'missing' could not be found."},
			{"q/Subscriptions/new", nil, core.NotFound, "The messaging entity 'q' could not be found."},
			{"T/subscriptions/TAKEN", nil, core.AlreadyExists, "The messaging entity 'ns:Topic:t|TAKEN' already exists."},
		} {
			_, err := b.CreateEntity(t.Context(), root, core.Subscription, c.name, core.DefaultSettings(core.Subscription), c.rule)
			if core.CodeOf(err) != c.code || !strings.HasPrefix(core.TextOf(err), c.text) {
				t.Errorf("%s: got %v, want %s: %s…", c.name, err, c.code, c.text)
			}
		}
		if subs, _, err := b.Entities(t.Context(), root, core.Listing{Kind: core.Subscription, Topic: "t"}, 0, 10); err != nil || len(subs) != 1 {
			t.Errorf("there are %v, %v, want only the one", subs, err)
		}
		for name, kind := range map[string]core.Kind{"T": core.Queue, "Q": core.Topic} {
			if _, err := b.CreateEntity(t.Context(), root, kind, name, core.DefaultSettings(kind), nil); !errors.Is(err, core.AlreadyExists) || !strings.HasPrefix(core.TextOf(err), "Conflict. ") {
				t.Errorf("a %s of a taken name: got %v", kind, err)
			}
		}
		if _, _, err := b.Entities(t.Context(), root, core.Listing{Kind: core.Subscription, Topic: "q"}, 0, 10); !errors.Is(err, core.NotFound) {
			t.Errorf("subscriptions of a queue: got %v", err)
		}
	})
}

func TestSettingsThatAKindDoesNotHaveKeepTheirDefaults(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		all := core.Settings{
			LockDuration: 2 * time.Minute, MaxSizeInMegabytes: 2048, MaxMessageSizeInKilobytes: 2048, RequiresDuplicateDetection: true,
			DuplicateDetectionHistoryTimeWindow: time.Minute, RequiresSession: true, DefaultMessageTimeToLive: time.Hour,
			DeadLetteringOnMessageExpiration: true, DeadLetteringOnFilterEvaluationExceptions: true, FilteringMessagesBeforePublishing: true,
			EnableSubscriptionPartitioning: true, MaxDeliveryCount: 3, Status: core.StatusActive, UserMetadata: "mine", AutoDeleteOnIdle: time.Hour,
			IsAnonymousAccessible: true, AuthorizationRules: []core.AccessRule{{Name: "n", PrimaryKey: "k", Rights: core.Send}},
		}
		queue, err := b.CreateEntity(t.Context(), root, core.Queue, "q", all, nil)
		if s := queue.Settings; err != nil || s.FilteringMessagesBeforePublishing || s.DeadLetteringOnFilterEvaluationExceptions || !s.RequiresSession || s.MaxDeliveryCount != 3 {
			t.Errorf("queue: %+v, %v", s, err)
		}
		topic, err := b.CreateEntity(t.Context(), root, core.Topic, "t", all, nil)
		if s := topic.Settings; err != nil || s.RequiresSession || s.LockDuration != time.Minute || s.MaxDeliveryCount != 10 || !s.FilteringMessagesBeforePublishing || !s.RequiresDuplicateDetection || s.DeadLetteringOnMessageExpiration {
			t.Errorf("topic: %+v, %v", s, err)
		}
		sub, err := b.CreateEntity(t.Context(), root, core.Subscription, "t/Subscriptions/s", all, nil)
		if s := sub.Settings; err != nil || !s.RequiresSession || s.RequiresDuplicateDetection || s.MaxSizeInMegabytes != 1024 || s.IsAnonymousAccessible || s.AuthorizationRules != nil || s.MaxDeliveryCount != 3 {
			t.Errorf("subscription: %+v, %v", s, err)
		}
		for name, c := range map[string]struct {
			change func(*core.Settings)
			text   string
		}{
			"t":                 {partitioned, "Partitioning cannot be changed for Topic. "},
			"T":                 {func(s *core.Settings) { s.RequiresDuplicateDetection = false }, "The value for the RequiresDuplicateDetection property of an existing Topic cannot be changed. "},
			"t/Subscriptions/s": {func(s *core.Settings) { s.RequiresSession = false }, "The value for the RequiresSession property of an existing Subscription cannot be changed. "},
		} {
			changed := all
			c.change(&changed)
			if _, err := b.UpdateEntity(t.Context(), root, name, changed); !errors.Is(err, core.InvalidArgument) || core.TextOf(err) != c.text {
				t.Errorf("%s: got %v, want %s", name, err, c.text)
			}
		}
		all.DefaultMessageTimeToLive = 2 * time.Hour
		if sub, err = b.UpdateEntity(t.Context(), root, sub.Name, all); err != nil || sub.Settings.DefaultMessageTimeToLive != 2*time.Hour {
			t.Errorf("updated subscription: %+v, %v, want the time to live it was given", sub, err)
		}
		if rules, err := b.Rules(t.Context(), root, sub.Name, 0, 9); err != nil || len(rules) != 1 {
			t.Errorf("rules of the updated subscription: %v, %v, want the one it had", rules, err)
		}
	})
}

func ruleNames(rules []core.Rule) string {
	var names []string
	for _, r := range rules {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

func TestRulesAreCreatedReadReplacedAndDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", []core.Rule{sqlRule("", "a = 1", "")})
		made := b.store.Now()
		time.Sleep(time.Hour)
		for _, name := range []string{"b", "A", "c"} {
			if r, err := b.CreateRule(t.Context(), root, "T/subscriptions/S", sqlRule(name, "x = 1", "SET y = 2")); err != nil || !r.CreatedAt.Equal(b.store.Now()) {
				t.Errorf("create %s: %+v, %v", name, r, err)
			}
		}
		rules, err := b.Rules(t.Context(), root, sub, 0, 100)
		if err != nil || ruleNames(rules) != "$Default A b c" || !rules[0].CreatedAt.Equal(made) {
			t.Errorf("got %v, %v", rules, err)
		}
		_, err = b.CreateRule(t.Context(), root, sub, sqlRule("B", "1=1", ""))
		if !errors.Is(err, core.AlreadyExists) || !strings.HasPrefix(core.TextOf(err), "The messaging entity 'ns:Topic:t|s|B' already exists.") {
			t.Errorf("create again: %v", err)
		}
		r, err := b.UpdateRule(t.Context(), root, sub, core.Rule{Name: "$default", Filter: core.Filter{Kind: core.FalseFilter}})
		if err != nil || r.Name != core.DefaultRuleName || !r.CreatedAt.Equal(made) {
			t.Errorf("update: %+v, %v", r, err)
		}
		if err := b.DeleteRule(t.Context(), root, sub, "a"); err != nil {
			t.Error(err)
		}
		rules, err = b.Rules(t.Context(), root, sub, 0, 100)
		if err != nil || ruleNames(rules) != "$Default b c" || rules[0].Filter.Kind != core.FalseFilter {
			t.Errorf("got %v, %v", rules, err)
		}
		for what, err := range map[string]error{
			"update": errorOf(b.UpdateRule(t.Context(), root, sub, sqlRule("A", "1=1", ""))), "delete": b.DeleteRule(t.Context(), root, sub, "A"),
			"of none": b.DeleteRule(t.Context(), root, "t/Subscriptions/none", "A"), "create of none": errorOf(b.CreateRule(t.Context(), root, "t/Subscriptions/none", sqlRule("A", "1=1", ""))),
		} {
			if !errors.Is(err, core.NotFound) {
				t.Errorf("%s: got %v, want %v", what, err, core.NotFound)
			}
		}
		if _, err := b.CreateRule(t.Context(), root, "t", sqlRule("A", "1=1", "")); !errors.Is(err, core.NotAllowed) {
			t.Errorf("a rule of a topic: got %v", err)
		}
		if _, err := b.CreateRule(t.Context(), root, sub, sqlRule("A", "a ~ b", "")); !errors.Is(err, core.InvalidArgument) {
			t.Errorf("a rule that is no SQL: got %v", err)
		}
		listener := core.Identity{{Rights: core.Listen | core.Send}}
		for i, err := range []error{
			errorOf(b.Rules(t.Context(), listener, sub, 0, 100)), errorOf(b.CreateRule(t.Context(), listener, sub, sqlRule("A", "1=1", ""))),
			errorOf(b.UpdateRule(t.Context(), listener, sub, sqlRule("b", "1=1", ""))), b.DeleteRule(t.Context(), listener, sub, "b"),
		} {
			if !errors.Is(err, core.Unauthorized) {
				t.Errorf("%d: without Manage: got %v", i, err)
			}
		}
	})
}

// A gateway that changes a rule knows what the change makes of the topic's rules.
func TestChangedRuleDoesNotReloadTheTopic(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", []core.Rule{sqlRule("m", "n = 'none'", "")})
		b.subscribe(t, "t", "other", []core.Rule{sqlRule("m", "n = 'none'", "")})
		b.send(t, "t", text("before"))
		topics := b.store.topicCalls()
		for i := range 5 {
			name := fmt.Sprint("r", i)
			if _, err := b.CreateRule(t.Context(), root, sub, sqlRule(name, "n = 'x'", "")); err != nil {
				t.Fatal(err)
			}
			b.send(t, "t", with(text(fmt.Sprint("x", i)), core.Property{Key: "n", Value: "x"}), with(text("y"), core.Property{Key: "n", Value: "y"}))
			if _, err := b.UpdateRule(t.Context(), root, sub, sqlRule(name, "n = 'y'", "")); err != nil {
				t.Fatal(err)
			}
			b.send(t, "t", with(text("x"), core.Property{Key: "n", Value: "x"}), with(text(fmt.Sprint("y", i)), core.Property{Key: "n", Value: "y"}))
			if err := b.DeleteRule(t.Context(), root, sub, name); err != nil {
				t.Fatal(err)
			}
			b.send(t, "t", with(text("x"), core.Property{Key: "n", Value: "x"}), with(text("y"), core.Property{Key: "n", Value: "y"}))
		}
		if got := b.bodiesIn(t, sub); got != "x0 x1 x2 x3 x4 y0 y1 y2 y3 y4" {
			t.Errorf("got %q", got)
		}
		if got := b.store.topicCalls(); got != topics {
			t.Errorf("the topic was read %d times more", got-topics)
		}
		if _, err := b.CreateRule(t.Context(), root, sub, sqlRule("all", "1 = 1", "")); err != nil {
			t.Fatal(err)
		}
		b.send(t, "t", text("z"))
		if got := b.bodiesIn(t, sub); got != "x0 x1 x2 x3 x4 y0 y1 y2 y3 y4 z" {
			t.Errorf("with a rule that matches all: got %q", got)
		}
	})
}

func TestConcurrentRuleChangesAllTakeEffect(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil)
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				if _, err := b.CreateRule(t.Context(), root, sub, sqlRule(fmt.Sprint("r", i), "1=1", "")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if rules, err := b.Rules(t.Context(), root, sub, 0, 100); err != nil || ruleNames(rules) != "$Default r0 r1 r2 r3 r4 r5" {
			t.Errorf("got %v, %v", rules, err)
		}
		b.wrap(&contended{Store: b.store.Store, left: ruleTries})
		if err := b.DeleteRule(t.Context(), root, sub, "r0"); !errors.Is(err, core.Conflict) {
			t.Errorf("after %d conflicts: got %v", ruleTries, err)
		}
	})
}

func TestTopicsHaveLimits(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		topic := b.createTopic(t, "t")
		many := make([]core.Rule, maxSQLFilters-1)
		for i := range many {
			many[i] = sqlRule(fmt.Sprintf("r%04d", i), "1=1", "")
		}
		for i := range maxSubscriptions - 1 {
			ent := core.Entity{
				Namespace: "ns", Kind: core.Subscription, Name: core.SubscriptionPath("t", fmt.Sprint("s", i)), ID: core.NewIncarnation(),
				TopicID: topic.ID, Partitions: 1, Settings: core.DefaultSettings(core.Subscription),
			}
			if i == 0 {
				ent.Rules = many
			}
			if _, err := b.store.CreateEntity(t.Context(), ent, core.NamespaceQuotas{}); err != nil {
				t.Fatal(err)
			}
		}
		sub := b.subscribe(t, "t", "last", []core.Rule{sqlRule("r", "1=1", "")})
		if _, err := b.CreateRule(t.Context(), root, sub, sqlRule("more", "1=1", "")); !errors.Is(err, core.QuotaExceeded) {
			t.Errorf("one SQL filter more: got %v", err)
		}
		if _, err := b.CreateRule(t.Context(), root, sub, core.Rule{Name: "true", Filter: core.Filter{Kind: core.TrueFilter}}); err != nil {
			t.Errorf("another filter: got %v", err)
		}
		_, err := b.CreateEntity(t.Context(), root, core.Subscription, "t/Subscriptions/more", core.DefaultSettings(core.Subscription), nil)
		if !errors.Is(err, core.QuotaExceeded) {
			t.Errorf("one subscription more: got %v", err)
		}
	})
}

func TestIdleTopicsAndSubscriptionsAreDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		soon := func(s *core.Settings) { s.AutoDeleteOnIdle = 5 * time.Minute }
		b.createTopic(t, "unused", soon)
		b.subscribe(t, "unused", "s", nil)
		b.createTopic(t, "busy", soon)
		b.subscribe(t, "busy", "unread", nil, soon)
		read := b.subscribe(t, "busy", "read", nil, soon)
		b.createTopic(t, "scheduled", soon)
		later := text("m")
		later.ScheduledEnqueueTime = b.store.Now().Add(time.Hour)
		b.send(t, "scheduled", later)
		in := b.receive(t, read, core.PeekLock, 1)
		for range 5 {
			time.Sleep(4 * time.Minute)
			b.send(t, "busy", text("m"))
		}
		var names []string
		if err := b.walk(t.Context(), func(ent *core.Entity) {
			names = append(names, ent.Name)
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != "busy busy/Subscriptions/read scheduled" {
			t.Errorf("there are %q", got)
		}
		in.Close()
	})
}
