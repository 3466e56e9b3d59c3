package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

func (b *started) createTopic(t *testing.T, name string, change ...func(*core.Settings)) core.Entity {
	t.Helper()
	s := core.DefaultSettings(core.Topic)
	for _, c := range change {
		c(&s)
	}
	ent, err := b.CreateEntity(t.Context(), root, core.Topic, name, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ent
}

// subscribe creates a subscription with the rules given, or the default one, and
// returns its name.
func (b *started) subscribe(t *testing.T, topic, name string, rules []core.Rule, change ...func(*core.Settings)) string {
	t.Helper()
	s := core.DefaultSettings(core.Subscription)
	for _, c := range change {
		c(&s)
	}
	path := core.SubscriptionPath(topic, name)
	var first *core.Rule
	if len(rules) > 0 {
		first = &rules[0]
	}
	if _, err := b.CreateEntity(t.Context(), root, core.Subscription, path, s, first); err != nil {
		t.Fatal(err)
	}
	for _, r := range rules[min(1, len(rules)):] {
		if _, err := b.CreateRule(t.Context(), root, path, r); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func sqlRule(name, filter, action string) core.Rule {
	return core.Rule{Name: name, Filter: core.Filter{SQL: filter}, Action: action}
}

func sessions(s *core.Settings) { s.RequiresSession = true }

// all peeks at what an address holds.
func (b *started) all(t *testing.T, address string) []core.Delivery {
	t.Helper()
	ds, err := b.Peek(t.Context(), root, core.At(address), nil, 0, 10000)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func (b *started) bodiesIn(t *testing.T, address string) string {
	t.Helper()
	return sortedBodies(b.all(t, address))
}

// with sets user properties.
func with(m *core.Message, ps ...core.Property) *core.Message {
	var err error
	if m.Properties, err = core.NewProperties(ps...); err != nil {
		panic(err)
	}
	return m
}

func property(t *testing.T, d core.Delivery, key string) any {
	t.Helper()
	v, _ := d.Properties.Get(key)
	return v
}

func TestASubscriptionGetsWhatItsRulesSay(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		everything := b.subscribe(t, "t", "everything", nil)
		nothing := b.subscribe(t, "t", "nothing", []core.Rule{sqlRule("no", "1=0", "")})
		without := b.subscribe(t, "t", "without", nil)
		if err := b.DeleteRule(t.Context(), root, without, "$default"); err != nil {
			t.Fatal(err)
		}
		several := b.subscribe(t, "t", "several", []core.Rule{
			sqlRule("a", "n >= 1", ""), sqlRule("b", "n >= 2", ""), sqlRule("c", "n = 3", "SET n = 30"), sqlRule("d", "n > 2", "SET x = 'y'"),
		})
		var ms []*core.Message
		for i := range 4 {
			ms = append(ms, with(text(fmt.Sprint(i)), core.Property{Key: "n", Value: int64(i)}))
		}
		numbers := b.send(t, "t", ms...)
		for address, want := range map[string]string{everything: "0 1 2 3", nothing: "", without: "", several: "1 2 3 3 3", "t": ""} {
			if got := b.bodiesIn(t, address); got != want {
				t.Errorf("%s: got %q, want %q", address, got, want)
			}
		}
		made := map[any]core.Delivery{}
		for _, d := range b.all(t, several) {
			if d.EnqueuedSequenceNumber != numbers[d.Body.Bytes[0]-'0'] {
				t.Errorf("message %s came from %d, want %v", d.Body.Bytes, d.EnqueuedSequenceNumber, numbers)
			}
			if string(d.Body.Bytes) == "3" {
				made[property(t, d, "RuleName")] = d
			}
		}
		if len(made) != 3 || property(t, made["c"], "n") != int64(30) || property(t, made["d"], "x") != "y" || property(t, made[nil], "n") != int64(3) {
			t.Errorf("the copies of message 3: %v", made)
		}
	})
}

func TestASenderCannotTellATopicFromAQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t", partitioned)
		sub := b.subscribe(t, "t", "s", nil)
		s := b.sender(t, "t")
		good, bad := text("good"), text("bad")
		bad.TimeToLive = -1
		answers := s.Send(t.Context(), [][]*core.Message{{good}, {bad}, {text("a"), text("b")}})
		if answers[0].Err != nil || !errors.Is(answers[1].Err, core.OutOfRange) || answers[2].Err != nil || len(answers[2].Numbers) != 2 {
			t.Fatalf("got %v", answers)
		}
		if got := b.bodiesIn(t, sub); got != "a b good" {
			t.Errorf("got %q, want the good ones", got)
		}
		keyed := func(n int) []*core.Message {
			m := text(fmt.Sprint(n))
			m.SessionID = "one"
			return []*core.Message{m}
		}
		for _, a := range s.Send(t.Context(), [][]*core.Message{keyed(1), keyed(2), keyed(3)}) {
			index, _ := core.SplitSequenceNumber(a.Numbers[0])
			if want := core.PartitionOf("one", 4); index != want {
				t.Errorf("a message of a session lies in partition %d, want %d", index, want)
			}
		}
		b.store.fail(core.NotDone{Err: errors.New("connection refused")}, 1, 2, 3)
		for _, a := range s.Send(t.Context(), each(numbered(8)...)) {
			if index, _ := core.SplitSequenceNumber(append(a.Numbers, -1)[0]); a.Err != nil || index != 0 {
				t.Errorf("with three partitions down: got %v", a)
			}
		}
	})
}

func TestACopyLivesNoLongerThanItsTopicAndSubscriptionSay(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		lives := func(d time.Duration) func(*core.Settings) {
			return func(s *core.Settings) { s.DefaultMessageTimeToLive = d }
		}
		b.createTopic(t, "t", lives(time.Hour))
		long := b.subscribe(t, "t", "long", nil)
		short := b.subscribe(t, "t", "short", nil, lives(time.Minute))
		changed := b.subscribe(t, "t", "changed", []core.Rule{{Name: "r", Filter: core.Filter{Kind: core.TrueFilter}, Action: "SET sys.TimeToLive = @day", ActionParameters: day(t)}})
		if ent, _, err := b.Entity(t.Context(), root, long); err != nil || ent.Settings.DefaultMessageTimeToLive != core.Forever {
			t.Errorf("the subscription's own default is %v, %v, want it as it was given", ent.Settings.DefaultMessageTimeToLive, err)
		}
		b.send(t, "t", text("m"))
		for address, want := range map[string]time.Duration{long: time.Hour, short: time.Minute, changed: time.Hour} {
			ds := b.all(t, address)
			if len(ds) != 1 || ds[0].TimeToLive != want || ds[0].ExpiresAt.Sub(ds[0].EnqueuedTime) != want {
				t.Errorf("%s: got %v, want a life of %v", address, ds, want)
			}
		}
	})
}

// day is a parameter of a day in .NET ticks.
func day(t *testing.T) core.Properties {
	t.Helper()
	p, err := core.NewProperties(core.Property{Key: "@day", Value: "1.00:00:00"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMessagesWithoutASessionAreDeadLetteredWhereOneIsRequired(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		strict := b.subscribe(t, "t", "strict", nil, sessions)
		lax := b.subscribe(t, "t", "lax", nil)
		made := b.subscribe(t, "t", "made", []core.Rule{sqlRule("r", "1=1", "SET sys.SessionId = 'made'")}, sessions)
		none, some := text("none"), text("some")
		some.SessionID = "s"
		b.send(t, "t", none, some)
		for address, want := range map[string]string{strict: "some", lax: "none some", made: "none some", made + "/$DeadLetterQueue": ""} {
			if got := b.bodiesIn(t, address); got != want {
				t.Errorf("%s: got %q, want %q", address, got, want)
			}
		}
		dead := b.all(t, strict+"/$DeadLetterQueue")
		if len(dead) != 1 || string(dead[0].Body.Bytes) != "none" ||
			property(t, dead[0], core.PropertyDeadLetterReason) != core.ReasonNoSession || property(t, dead[0], core.PropertyDeadLetterDescription) != core.DescriptionNoSession {
			t.Errorf("dead letters: %v", dead)
		}
	})
}

func TestAMessageThatCannotBeEvaluatedIsDeadLetteredOrDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		broken := []core.Rule{sqlRule("div", "1 / n = 1", ""), sqlRule("mod", "1 % n = 1", ""), sqlRule("fine", "ok = 'yes'", ""), sqlRule("never", "1/0 = 1", ""), sqlRule("like", "ok LIKE 5", "")}
		keeps := b.subscribe(t, "t", "keeps", broken)
		drops := b.subscribe(t, "t", "drops", broken, func(s *core.Settings) { s.DeadLetteringOnFilterEvaluationExceptions = false })
		b.send(t, "t", with(text("m"), core.Property{Key: "n", Value: int64(0)}, core.Property{Key: "ok", Value: "yes"}))
		for address, want := range map[string]string{keeps: "m", drops: "m", drops + "/$DeadLetterQueue": ""} {
			if got := b.bodiesIn(t, address); got != want {
				t.Errorf("%s: got %q, want %q", address, got, want)
			}
		}
		dead := b.all(t, keeps+"/$DeadLetterQueue")
		if len(dead) != 1 || property(t, dead[0], core.PropertyDeadLetterReason) != core.ReasonFilterException ||
			!strings.Contains(fmt.Sprint(property(t, dead[0], core.PropertyDeadLetterDescription)), "Rule 'div'") {
			t.Errorf("dead letters: %v, want one that names the rule", dead)
		}
	})
}

func TestAStoredRuleThatCannotBeCompiledIsNoMatch(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil)
		ent, err := b.store.Entity(t.Context(), "ns", sub)
		if err != nil {
			t.Fatal(err)
		}
		ent, _, err = b.store.ChangeRule(t.Context(), ent, core.RuleChange{Rule: sqlRule("odd", "???", "")})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = b.store.ChangeRule(t.Context(), ent, core.RuleChange{Rule: core.Rule{Name: core.DefaultRuleName}, Remove: true}); err != nil {
			t.Fatal(err)
		}
		b.send(t, "t", text("m"))
		if got := b.bodiesIn(t, sub) + "|" + b.bodiesIn(t, sub+"/$DeadLetterQueue"); got != "|m" {
			t.Errorf("got %q, want a dead letter", got)
		}
	})
}

func TestAnActionCannotMoveAMessageToAnotherPartition(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t", partitioned)
		sub := b.subscribe(t, "t", "s", []core.Rule{sqlRule("r", "1=1", "SET sys.SessionId = 'one'")}, sessions)
		for i := range 4 {
			m := text(fmt.Sprint(i))
			m.PartitionKey = fmt.Sprint("key", i)
			b.send(t, "t", m)
		}
		alive, dead := 0, 0
		for _, d := range b.all(t, sub) {
			if index, _ := core.SplitSequenceNumber(d.SequenceNumber); index != core.PartitionOf("one", 4) {
				t.Errorf("a message of the session lies in partition %d", index)
			}
			alive++
		}
		for _, d := range b.all(t, sub+"/$DeadLetterQueue") {
			if property(t, d, core.PropertyDeadLetterReason) != core.ReasonFilterException {
				t.Errorf("dead letter %v", d)
			}
			dead++
		}
		if alive+dead != 4 || dead == 0 {
			t.Errorf("%d messages and %d dead letters, want 4 with some dead", alive, dead)
		}
	})
}

func TestWhatIsScheduledOnATopicIsPublishedWhenDue(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		early := b.subscribe(t, "t", "early", nil)
		at := func(body string, after time.Duration) *core.Message {
			m := text(body)
			m.ScheduledEnqueueTime = b.store.Now().Add(after)
			return m
		}
		numbers := b.send(t, "t", at("soon", time.Minute), at("later", 2*time.Hour), at("never", time.Hour), at("past", -time.Hour))
		if got := b.bodiesIn(t, early); got != "past" {
			t.Errorf("at once: got %q", got)
		}
		if ds := b.all(t, "t"); len(ds) != 3 || ds[0].State != core.Scheduled {
			t.Errorf("the topic holds %v, want what is scheduled", ds)
		}
		if err := b.Cancel(t.Context(), root, core.At("t"), numbers[2:3]); err != nil {
			t.Errorf("cancel: %v", err)
		}
		if err := b.Cancel(t.Context(), root, core.At("t"), numbers[2:3]); !errors.Is(err, core.MessageNotFound) {
			t.Errorf("cancel again: got %v", err)
		}
		late := b.subscribe(t, "t", "late", nil)
		_, rt, err := b.Entity(t.Context(), root, "t")
		if err != nil || rt.Scheduled != 2 || rt.Subscriptions != 2 {
			t.Errorf("counts: got %+v, %v, want 2 scheduled, 2 subscriptions", rt, err)
		}
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if got := b.bodiesIn(t, late); got != "" {
			t.Errorf("too soon: got %q", got)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		for address, want := range map[string]string{early: "past soon", late: "soon", "t": "later"} {
			if got := b.bodiesIn(t, address); got != want {
				t.Errorf("%s after a minute: got %q, want %q", address, got, want)
			}
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		for address, want := range map[string]string{early: "later past soon", late: "later soon", "t": ""} {
			if got := b.bodiesIn(t, address); got != want {
				t.Errorf("%s after two hours: got %q, want %q", address, got, want)
			}
		}
	})
}

func TestAPublicationMeetsTheLatestRules(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil)
		s := b.sender(t, "t")
		s.Send(t.Context(), each(text("1")))
		deaf := &unwatched{Store: b.store.Store}
		other := New(deaf, Options{Namespace: "ns"})
		defer other.stop()
		there, err := other.OpenSender(t.Context(), root, core.At("t"), nil)
		if err != nil {
			t.Fatal(err)
		}
		there.Send(t.Context(), each(text("2")))
		for i, rule := range []string{"1=0", "1=1"} {
			if _, err := b.UpdateRule(t.Context(), root, sub, sqlRule("$default", rule, "")); err != nil {
				t.Fatal(err)
			}
			for _, a := range there.Send(t.Context(), each(text(fmt.Sprint(3+i)), text(fmt.Sprint(5+i)))) {
				if a.Err != nil {
					t.Errorf("through a gateway that has not heard of the change: %v", a.Err)
				}
			}
		}
		if got := b.bodiesIn(t, sub); got != "1 2 4 6" {
			t.Errorf("got %q, want what came before and after it matched nothing", got)
		}
	})
}

// unwatched is a store that tells nobody of changes.
type unwatched struct{ core.Store }

func (*unwatched) WatchEntities(func(namespace, name string)) (stop func()) { return func() {} }

func TestASenderGivesUpOnSubscriptionsThatKeepChanging(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		b.subscribe(t, "t", "s", nil)
		restless := &restlessStore{Store: b.store.Store, after: 1}
		b.wrap(restless)
		got := b.sender(t, "t").Send(t.Context(), each(numbered(3)...))
		if got[0].Err != nil || !errors.Is(got[1].Err, core.Busy) || !errors.Is(got[2].Err, core.Busy) {
			t.Errorf("got %v, want one sent and two to try again", got)
		}
		if restless.calls != publishTries {
			t.Errorf("tried %d times, want %d", restless.calls, publishTries)
		}
	})
}

// restlessStore publishes a few groups and answers Conflict to all else.
type restlessStore struct {
	core.Store
	after, calls int
}

// Partition wraps the operations on a partition.
func (s *restlessStore) Partition(r core.Ref, p core.Policy) core.Partition {
	return core.Partition{Ref: r, Policy: p, Operations: restlessStorePartition{s.Store.Partition(r, p), s}}
}

// restlessStorePartition is a partition of a restlessStore.
type restlessStorePartition struct {
	core.Partition
	*restlessStore
}

func (s restlessStorePartition) Publish(ctx context.Context, version int64, groups [][]core.Publication) []core.Appended {
	s.calls++
	n := min(s.after, len(groups))
	s.after -= n
	return append(s.Operations.Publish(ctx, version, groups[:n]), failed(len(groups)-n, core.Conflict)...)
}

func TestTopicsAndSubscriptionsHaveOneDirection(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		sub := b.subscribe(t, "t", "s", nil)
		b.create(t, "q")
		for address, want := range map[string]string{
			sub: "send to its topic 't'", "t/$DeadLetterQueue": "send to 't'", "q/$Transfer": "send to 'q'",
		} {
			_, err := b.OpenSender(t.Context(), root, core.At(address), nil)
			if !errors.Is(err, core.NotAllowed) || !strings.Contains(core.TextOf(err), want) {
				t.Errorf("send to %s: got %v, want …%s", address, err, want)
			}
		}
		for address, want := range map[string]string{
			"t": "receive from its subscriptions, 't/Subscriptions/<name>'", "t/$DeadLetterQueue": "receive from its subscriptions",
			"q/$Transfer": "from 'q/$Transfer/$DeadLetterQueue'", "t/$Transfer": "is a topic",
		} {
			_, err := b.OpenReceiver(t.Context(), root, core.At(address), core.ReceiverOptions{})
			if !errors.Is(err, core.NotAllowed) || !strings.Contains(core.TextOf(err), want) {
				t.Errorf("receive from %s: got %v, want …%s", address, err, want)
			}
		}
		if _, err := b.Purge(t.Context(), root, core.At("t"), b.store.Now(), 1); !errors.Is(err, core.NotAllowed) {
			t.Errorf("purge a topic: got %v", err)
		}
		in := b.receive(t, "T/subscriptions/S", core.PeekLock, 1)
		b.send(t, "t", text("m"))
		if got := in.take(); bodies(got) != "m" {
			t.Errorf("received %v", got)
		}
	})
}

func TestASubscriptionCollectsWhateverItsStatus(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		var subs []string
		for _, s := range []core.Status{core.StatusDisabled, core.StatusReceiveDisabled, core.StatusSendDisabled} {
			subs = append(subs, b.subscribe(t, "t", string(s), nil, func(q *core.Settings) { q.Status = s }))
		}
		b.send(t, "t", text("m"))
		for i, sub := range subs {
			ent, err := b.store.Entity(t.Context(), "ns", sub)
			if err != nil {
				t.Fatal(err)
			}
			if stats, err := storetest.Stats(t.Context(), b.store, ent.Partition(0, core.Main)); err != nil || stats.Ready != 1 {
				t.Errorf("%s: holds %+v, %v, want one message", sub, stats, err)
			}
			_, err = b.OpenReceiver(t.Context(), root, core.At(sub), core.ReceiverOptions{})
			if wantErr := i < 2; errors.Is(err, core.EntityDisabled) != wantErr {
				t.Errorf("%s: receive: %v", sub, err)
			}
		}
		ent, _, err := b.Entity(t.Context(), root, "t")
		if err != nil {
			t.Fatal(err)
		}
		for status, code := range map[core.Status]core.Code{core.StatusSendDisabled: core.EntityDisabled, core.StatusDisabled: core.EntityDisabled, core.StatusReceiveDisabled: ""} {
			ent.Settings.Status = status
			if _, err := b.UpdateEntity(t.Context(), root, "t", ent.Settings); err != nil {
				t.Fatal(err)
			}
			if _, err := b.OpenSender(t.Context(), root, core.At("t"), nil); core.CodeOf(err) != code {
				t.Errorf("send to a topic that is %s: got %v, want %q", status, err, code)
			}
		}
	})
}

// What has expired where nobody reads does not keep a topic full.
func TestAFullTopicMakesRoomOfWhatHasExpired(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t", func(s *core.Settings) {
			s.MaxSizeInMegabytes, s.DefaultMessageTimeToLive = 1, time.Minute
		})
		b.subscribe(t, "t", "unread", nil)
		big := func() *core.Message { return text(strings.Repeat("x", 200<<10)) }
		s := b.sender(t, "t")
		var err error
		for range 8 {
			if err = s.Send(t.Context(), each(big()))[0].Err; err != nil {
				break
			}
		}
		if !errors.Is(err, core.QuotaExceeded) {
			t.Fatalf("a full topic: got %v, want %v", err, core.QuotaExceeded)
		}
		time.Sleep(2 * time.Minute)
		for i, a := range s.Send(t.Context(), each(big(), big())) {
			if a.Err != nil || a.Numbers[0] == 0 {
				t.Errorf("message %d, when all has expired: got %+v", i, a)
			}
		}
	})
}
