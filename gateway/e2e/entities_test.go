package e2e

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// topic creates a topic and deletes it, with its subscriptions, after the test.
func (e *env) topic(p *admin.TopicProperties) string {
	e.Helper()
	a, name := e.admin(), "t-"+e.name()
	if _, err := a.CreateTopic(e.ctx(), name, &admin.CreateTopicOptions{Properties: p}); err != nil {
		e.Fatalf("create topic %s: %v", name, err)
	}
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = a.DeleteTopic(ctx, name, nil) // the test may have deleted it
	})
	return name
}

// subscribe creates a subscription. Of the rules the first comes with it.
func (e *env) subscribe(topic, name string, p *admin.SubscriptionProperties, rules ...admin.RuleProperties) {
	e.Helper()
	if p == nil {
		p = &admin.SubscriptionProperties{}
	}
	if len(rules) > 0 {
		p.DefaultRule = &rules[0]
	}
	if _, err := e.admin().CreateSubscription(e.ctx(), topic, name, &admin.CreateSubscriptionOptions{Properties: p}); err != nil {
		e.Fatalf("create subscription %s of %s: %v", name, topic, err)
	}
	for _, r := range rules[min(1, len(rules)):] {
		e.rule(topic, name, r)
	}
}

func (e *env) rule(topic, subscription string, r admin.RuleProperties) {
	e.Helper()
	if _, err := e.admin().CreateRule(e.ctx(), topic, subscription, &admin.CreateRuleOptions{Name: &r.Name, Filter: r.Filter, Action: r.Action}); err != nil {
		e.Fatalf("create rule %s: %v", r.Name, err)
	}
}

// subscriber opens a peek-lock receiver of a subscription.
func (e *env) subscriber(topic, subscription string) *azservicebus.Receiver {
	e.Helper()
	return e.subscriberWith(topic, subscription, nil)
}

func (e *env) subscriberWith(topic, subscription string, o *azservicebus.ReceiverOptions) *azservicebus.Receiver {
	e.Helper()
	r, err := e.client().NewReceiverForSubscription(topic, subscription, o)
	if err != nil {
		e.Fatal(err)
	}
	return r
}

// held are the bodies of all messages of a subscription, sorted, taken away.
func (e *env) held(topic, subscription string, n int) []string {
	e.Helper()
	r := e.subscriberWith(topic, subscription, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	got := bodies(e.take(r, n))
	slices.Sort(got)
	return got
}

// session is a session that is held.
type session struct {
	*azservicebus.SessionReceiver
	e *env
}

// accept takes a named session of a queue.
func (e *env) accept(queue, id string) session {
	e.Helper()
	r, err := e.client().AcceptSessionForQueue(e.ctx(), queue, id, nil)
	if err != nil {
		e.Fatalf("accept session %s: %v", id, err)
	}
	return session{r, e}
}

// next takes the next session of a queue.
func (e *env) next(queue string) session {
	e.Helper()
	r, err := e.client().AcceptNextSessionForQueue(e.ctx(), queue, nil)
	if err != nil {
		e.Fatalf("accept the next session: %v", err)
	}
	return session{r, e}
}

// take receives exactly n messages.
func (s session) take(n int) []*azservicebus.ReceivedMessage {
	s.e.Helper()
	var got []*azservicebus.ReceivedMessage
	for ctx := s.e.ctx(); len(got) < n; {
		ms, err := s.ReceiveMessages(ctx, n-len(got), &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: patience / 2})
		if err != nil {
			s.e.Fatalf("receive message %d of %d of session %s: %v", len(got)+1, n, s.SessionID(), err)
		}
		got = append(got, ms...)
	}
	return got
}

// complete settles messages.
func (s session) complete(ms ...*azservicebus.ReceivedMessage) {
	s.e.Helper()
	for _, m := range ms {
		if err := s.CompleteMessage(s.e.ctx(), m, nil); err != nil {
			s.e.Fatalf("complete message %d of session %s: %v", *m.SequenceNumber, s.SessionID(), err)
		}
	}
}

// end gives the session back.
func (s session) end() {
	s.e.Helper()
	if err := s.Close(s.e.ctx()); err != nil {
		s.e.Fatalf("close session %s: %v", s.SessionID(), err)
	}
}

// sendTo sends messages of these bodies to a session.
func (e *env) sendTo(entity, session string, bodies ...string) {
	e.Helper()
	s := e.sender(entity)
	for _, b := range bodies {
		e.post(s, &azservicebus.Message{Body: []byte(b), SessionID: &session})
	}
}

// withSessions are the settings of a queue with sessions.
func withSessions() *admin.QueueProperties {
	return &admin.QueueProperties{RequiresSession: new(true)}
}

func TestATopicKeepsItsSettings(t *testing.T) {
	onEachEngine(t, func(e *env) {
		a := e.admin()
		status := admin.EntityStatusActive
		topic := e.topic(&admin.TopicProperties{
			MaxSizeInMegabytes: new(int32(2048)), RequiresDuplicateDetection: new(true), DefaultMessageTimeToLive: new("PT3M"),
			DuplicateDetectionHistoryTimeWindow: new("PT4M"), EnableBatchedOperations: new(true), Status: &status, AutoDeleteOnIdle: new("PT7M"),
			SupportOrdering: new(true), UserMetadata: new("m"),
		})
		got, err := a.GetTopic(e.ctx(), topic, nil)
		if err != nil || got == nil || *got.DefaultMessageTimeToLive != "PT3M" || !*got.RequiresDuplicateDetection || *got.MaxSizeInMegabytes != 2048 || *got.UserMetadata != "m" {
			e.Fatalf("topic: got %+v %v", got, err)
		}
		e.subscribe(topic, "sub", &admin.SubscriptionProperties{
			LockDuration: new("PT30S"), RequiresSession: new(true), DefaultMessageTimeToLive: new("PT2M"), DeadLetteringOnMessageExpiration: new(true),
			EnableDeadLetteringOnFilterEvaluationExceptions: new(false), MaxDeliveryCount: new(int32(3)), AutoDeleteOnIdle: new("PT11M"), UserMetadata: new("s"),
		})
		e.subscribe(topic, "other", nil, admin.RuleProperties{Name: "c", Filter: &admin.CorrelationFilter{Subject: new("x")}})
		sub, err := a.GetSubscription(e.ctx(), topic, "sub", nil)
		if err != nil || sub == nil || sub.SubscriptionName != "sub" || *sub.LockDuration != "PT30S" || !*sub.RequiresSession || *sub.MaxDeliveryCount != 3 || *sub.EnableDeadLetteringOnFilterEvaluationExceptions {
			e.Fatalf("subscription: got %+v %v", sub, err)
		}
		sub.MaxDeliveryCount = new(int32(5))
		if got, err := a.UpdateSubscription(e.ctx(), topic, "sub", sub.SubscriptionProperties, nil); err != nil || *got.MaxDeliveryCount != 5 {
			e.Errorf("update: got %+v %v", got, err)
		}
		sub.RequiresSession = new(false)
		if _, err := a.UpdateSubscription(e.ctx(), topic, "sub", sub.SubscriptionProperties, nil); err == nil {
			e.Error("RequiresSession was changed")
		}
		held, err := a.GetTopicRuntimeProperties(e.ctx(), topic, nil)
		if err != nil || held.SubscriptionCount != 2 || held.SQLFilterCount != 1 || held.CorrelationFilterCount != 1 || held.CreatedAt.IsZero() {
			e.Errorf("runtime: got %+v %v", held, err)
		}
		var names []string
		for pages := a.NewListSubscriptionsPager(topic, &admin.ListSubscriptionsOptions{MaxPageSize: 1}); pages.More(); {
			page, err := pages.NextPage(e.ctx())
			if err != nil {
				e.Fatal(err)
			}
			for _, s := range page.Subscriptions {
				names = append(names, s.SubscriptionName)
			}
		}
		if !slices.Equal(names, []string{"other", "sub"}) {
			e.Errorf("subscriptions: got %v", names)
		}
		queue, err := a.GetQueue(e.ctx(), topic, nil) // the SDK takes a topic for a queue without settings, or for none
		if err == nil && queue != nil && queue.LockDuration != nil {
			e.Errorf("a topic is shown as a queue: %+v", queue)
		}
		if _, err := a.DeleteTopic(e.ctx(), topic, nil); err != nil {
			e.Fatal(err)
		}
		if sub, err := a.GetSubscription(e.ctx(), topic, "sub", nil); err != nil || sub != nil {
			e.Errorf("after its topic was deleted: got %+v %v", sub, err)
		}
	})
}

// The service addresses entities by their paths alone: clients tell by the description
// what they got. The .NET SDK makes MessagingEntityNotFound of it.
func TestATopicAskedForAsAQueueIsATopic(t *testing.T) {
	onEachEngine(t, func(e *env) {
		topic, queue := e.topic(nil), e.queue(nil)
		for name, want := range map[string]string{topic: "<TopicDescription ", queue: "<QueueDescription "} {
			if got := e.wantHTTP(e.http(http.MethodGet, name+"?api-version=2021-05", "", nil), http.StatusOK); !strings.Contains(got.body, want) {
				e.Errorf("%s: got %s, want a %s", name, got.body, want)
			}
		}
		if got, err := e.admin().GetTopic(e.ctx(), topic, nil); err != nil || got == nil || got.TopicName != topic {
			e.Errorf("the topic: got %+v, %v", got, err)
		}
	})
}

func TestRulesOfEveryKindAreKept(t *testing.T) {
	onEachEngine(t, func(e *env) {
		a, topic := e.admin(), e.topic(nil)
		e.subscribe(topic, "sub", nil)
		when := time.Date(2001, 1, 1, 1, 2, 3, 0, time.UTC)
		parameters := map[string]any{"@s": "hello", "@i": int64(100), "@f": 100.1, "@d": when, "@b": true}
		for _, want := range []admin.RuleProperties{
			{Name: "true", Filter: &admin.TrueFilter{}},
			{Name: "false", Filter: &admin.FalseFilter{}},
			{Name: "sql", Filter: &admin.SQLFilter{Expression: "a = 'hello' AND sys.Label IS NOT NULL"}},
			{Name: "parameters", Filter: &admin.SQLFilter{Expression: "a = @s OR a = @i OR a = @f OR a = @d OR a = @b", Parameters: parameters}},
			{Name: "correlation", Filter: &admin.CorrelationFilter{
				ContentType: new("c"), CorrelationID: new("i"), MessageID: new("m"), ReplyTo: new("r"), ReplyToSessionID: new("rs"), SessionID: new("s"),
				Subject: new("l"), To: new("t"), ApplicationProperties: map[string]any{"p": "hello", "n": int64(5)},
			}},
			{Name: "action", Filter: &admin.TrueFilter{}, Action: &admin.SQLAction{Expression: "SET a = @s; REMOVE b", Parameters: map[string]any{"@s": "x"}}},
		} {
			e.rule(topic, "sub", want)
			got, err := a.GetRule(e.ctx(), topic, "sub", want.Name, nil)
			if err != nil || got == nil {
				e.Fatalf("%s: %+v %v", want.Name, got, err)
			}
			if !reflect.DeepEqual(got.RuleProperties, want) {
				e.Errorf("%s: got %+v, want %+v", want.Name, got.RuleProperties, want)
			}
			if _, err := a.UpdateRule(e.ctx(), topic, "sub", want); err != nil {
				e.Errorf("%s: update: %v", want.Name, err)
			}
			if _, err := a.DeleteRule(e.ctx(), topic, "sub", want.Name, nil); err != nil {
				e.Errorf("%s: delete: %v", want.Name, err)
			}
		}
		bad := &admin.CreateRuleOptions{Name: new("bad"), Filter: &admin.SQLFilter{Expression: "a = = b"}}
		_, err := a.CreateRule(e.ctx(), topic, "sub", bad)
		e.wantStatus(err, 400)
		e.wantText(err, "position 5")
	})
}
