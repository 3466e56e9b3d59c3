package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// matching is a rule by a SQL expression.
func matching(name, sql string) admin.RuleProperties {
	return admin.RuleProperties{Name: name, Filter: &admin.SQLFilter{Expression: sql}}
}

func TestEveryKindOfFilterDecides(t *testing.T) {
	everywhere(t, func(e *env) {
		topic := e.topic(nil)
		for _, s := range []struct {
			name   string
			filter admin.RuleFilter
			want   string // the bodies, sorted
		}{
			{"everything", nil, "large parcel small"},
			{"nothing", &admin.FalseFilter{}, ""},
			{"sql", &admin.SQLFilter{Expression: "size >= 100 AND colour LIKE 're_' AND sys.Label IS NULL"}, "large"},
			{"parameters", &admin.SQLFilter{Expression: "size < @limit OR express = @yes", Parameters: map[string]any{"@limit": 100, "@yes": true}}, "parcel small"},
			{"unknown", &admin.SQLFilter{Expression: "absent = 1 OR NOT absent = 1"}, ""},
			{"in", &admin.SQLFilter{Expression: "colour IN ('blue', 'green') AND EXISTS(size) AND express IS NULL"}, "small"},
			{"label", &admin.CorrelationFilter{Subject: new("parcel")}, "parcel"},
			{"properties", &admin.CorrelationFilter{ApplicationProperties: map[string]any{"colour": "red", "size": 500}}, "large"},
			{"number", &admin.CorrelationFilter{ApplicationProperties: map[string]any{"size": 500.0}}, "large"}, // as JavaScript writes 500
			{"unheard-of", &admin.SQLFilter{Expression: "sys.Nothing = 1 OR [user].[size] < 18446744073709551616 AND size = 5"}, "small"},
		} {
			if s.filter == nil {
				e.subscribe(topic, s.name, nil)
			} else {
				e.subscribe(topic, s.name, nil, admin.RuleProperties{Name: "r", Filter: s.filter})
			}
			defer func() {
				want := strings.Fields(s.want)
				if len(want) == 0 {
					if n := e.subscriptionRuntime(topic, s.name).TotalMessageCount; n != 0 {
						e.Errorf("%s: got %d messages, want none", s.name, n)
					}
				} else if got := e.held(topic, s.name, len(want)); !slices.Equal(got, want) {
					e.Errorf("%s: got %v, want %v", s.name, got, want)
				}
			}()
		}
		s := e.sender(topic)
		for _, m := range []*azservicebus.Message{
			{Body: []byte("large"), ApplicationProperties: map[string]any{"size": int64(500), "colour": "red"}},
			{Body: []byte("small"), ApplicationProperties: map[string]any{"size": int32(5), "colour": "blue"}},
			{Body: []byte("parcel"), Subject: new("parcel"), ApplicationProperties: map[string]any{"size": 200.5, "colour": "red", "express": true}},
		} {
			e.post(s, m)
		}
	})
}

// subscriptionRuntime returns a subscription's counts.
func (e *env) subscriptionRuntime(topic, name string) admin.SubscriptionRuntimeProperties {
	e.Helper()
	r, err := e.admin().GetSubscriptionRuntimeProperties(e.ctx(), topic, name, nil)
	if err != nil || r == nil {
		e.Fatalf("runtime properties of %s of %s: %v %v", name, topic, r, err)
	}
	return r.SubscriptionRuntimeProperties
}

// All matching rules without an action make one copy, each with one its own.
func TestRulesWithActionsMakeCopiesOfTheirOwn(t *testing.T) {
	everywhere(t, func(e *env) {
		topic := e.topic(nil)
		acting := func(name, action string) admin.RuleProperties {
			return admin.RuleProperties{Name: name, Filter: &admin.SQLFilter{Expression: "n = 1"}, Action: &admin.SQLAction{Expression: action}}
		}
		e.subscribe(topic, "s", nil, matching("one", "n = 1"), matching("two", "n > 0"), matching("three", "n < 0"),
			acting("set", "SET priority = 'high'; SET n = n + 41; SET sys.Label = 'changed'"), acting("remove", "REMOVE colour"))
		e.subscribe(topic, "plain", nil)
		e.post(e.sender(topic), &azservicebus.Message{
			Body: []byte("x"), Subject: new("as sent"), ApplicationProperties: map[string]any{"n": int64(1), "colour": "red"},
		})
		r := e.subscriber(topic, "s")
		ms := e.take(r, 3)
		slices.SortFunc(ms, func(a, b *azservicebus.ReceivedMessage) int {
			return strings.Compare(fmt.Sprint(a.ApplicationProperties["RuleName"]), fmt.Sprint(b.ApplicationProperties["RuleName"]))
		})
		for i, want := range []string{
			"as sent map[colour:red n:1]", "as sent map[RuleName:remove n:1]", "changed map[RuleName:set colour:red n:42 priority:high]",
		} {
			if got := fmt.Sprint(*ms[i].Subject, " ", ms[i].ApplicationProperties); got != want || string(ms[i].Body) != "x" {
				e.Errorf("copy %d: got %s, want %s", i, got, want)
			}
		}
		e.complete(r, ms...)
		e.nothing(r)
		if got := e.one(e.subscriber(topic, "plain")); fmt.Sprint(*got.Subject, " ", got.ApplicationProperties) != "as sent map[colour:red n:1]" {
			e.Errorf("the other subscription's copy was changed: %+v", got)
		}
	})
}

func TestAFilterThatCannotBeEvaluatedDeadLetters(t *testing.T) {
	onEachEngine(t, func(e *env) {
		topic := e.topic(nil)
		e.subscribe(topic, "kept", nil, matching("r", "10 / n > 1"))
		e.subscribe(topic, "dropped", &admin.SubscriptionProperties{EnableDeadLetteringOnFilterEvaluationExceptions: new(false)}, matching("r", "10 / n > 1"))
		e.subscribe(topic, "never", nil, matching("r", "n LIKE 5 OR 1/0 = 1"))
		s := e.sender(topic)
		for n := range 3 {
			e.post(s, &azservicebus.Message{Body: fmt.Append(nil, n), ApplicationProperties: map[string]any{"n": int64(n)}})
		}
		for _, name := range []string{"kept", "dropped"} {
			if got := e.held(topic, name, 2); !slices.Equal(got, []string{"1", "2"}) {
				e.Errorf("%s: got %v, want 1 and 2", name, got)
			}
		}
		m := e.one(e.subscriberWith(topic, "kept", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))
		if string(m.Body) != "0" || m.DeadLetterReason == nil || *m.DeadLetterReason != "FilterException" || !strings.Contains(*m.DeadLetterErrorDescription, "zero") {
			e.Errorf("dead letter: got %q, %v %v", m.Body, m.DeadLetterReason, m.DeadLetterErrorDescription)
		}
		if n := e.subscriptionRuntime(topic, "never"); n.ActiveMessageCount != 0 || n.DeadLetterMessageCount != 3 {
			e.Errorf("a filter that can never be evaluated: got %+v, want 3 dead letters", n)
		}
		if n := e.subscriptionRuntime(topic, "dropped").DeadLetterMessageCount; n != 0 {
			e.Errorf("%d messages were dead-lettered where they should be dropped", n)
		}
	})
}

// Once a change of rules is answered, every message that is sent from then on,
// through whichever gateway, is judged by it.
func TestChangesOfRulesAreSeenEverywhereAtOnce(t *testing.T) {
	t.Parallel()
	a, b := fleet(t)
	topic := a.topic(nil)
	a.subscribe(topic, "s", nil, matching("r", "round = -1"))
	manager, s := a.admin(), b.sender(topic)
	const rounds = 25
	for round := range rounds {
		if _, err := manager.UpdateRule(a.ctx(), topic, "s", matching("r", fmt.Sprintf("round = %d", round))); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{round, round - 1} {
			b.post(s, &azservicebus.Message{Body: fmt.Append(nil, n), ApplicationProperties: map[string]any{"round": int64(n)}})
		}
	}
	r := b.subscriber(topic, "s")
	ms := b.take(r, rounds)
	for round, m := range ms {
		if string(m.Body) != fmt.Sprint(round) {
			t.Fatalf("message %d: got %q: a rule was seen late", round, m.Body)
		}
	}
	b.complete(r, ms...)
	b.nothing(r)
	// The same holds for subscriptions that come and go.
	for n := range 5 {
		name := fmt.Sprint("new-", n)
		a.subscribe(topic, name, nil)
		b.send(topic, name)
		if got := a.held(topic, name, 1); got[0] != name {
			t.Errorf("%s: got %v", name, got)
		}
		if _, err := manager.DeleteSubscription(a.ctx(), topic, name, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTopicsScheduleDetectDuplicatesAndStop(t *testing.T) {
	onEachEngine(t, func(e *env) {
		e = e.inVirtualTime()
		topic := e.topic(&admin.TopicProperties{RequiresDuplicateDetection: new(true)})
		e.subscribe(topic, "s", nil)
		s, r := e.sender(topic), e.subscriber(topic, "s")
		for range 2 {
			e.post(s, &azservicebus.Message{Body: []byte("once"), MessageID: new("m")})
		}
		due := e.now().Add(time.Hour)
		numbers, err := s.ScheduleMessages(e.ctx(), []*azservicebus.Message{{Body: []byte("later")}, {Body: []byte("never")}}, due, nil)
		if err != nil {
			e.Fatal(err)
		}
		if held, err := e.admin().GetTopicRuntimeProperties(e.ctx(), topic, nil); err != nil || held.ScheduledMessageCount != 2 {
			e.Errorf("scheduled: got %+v %v, want 2", held, err)
		}
		if err := s.CancelScheduledMessages(e.ctx(), numbers[1:], nil); err != nil {
			e.Fatal(err)
		}
		e.advance(time.Hour)
		ms := e.take(r, 2)
		if got := bodies(ms); !slices.Equal(got, []string{"once", "later"}) || ms[1].EnqueuedTime.Before(due.Add(-time.Second)) {
			e.Errorf("got %v, the second at %v", got, ms[1].EnqueuedTime)
		}
		e.complete(r, ms...)
		e.nothing(r)

		got, err := e.admin().GetTopic(e.ctx(), topic, nil)
		if err != nil {
			e.Fatal(err)
		}
		status := admin.EntityStatusSendDisabled
		got.Status = &status
		if _, err := e.admin().UpdateTopic(e.ctx(), topic, got.TopicProperties, nil); err != nil {
			e.Fatal(err)
		}
		e.wantCondition(e.sender(topic).SendMessage(e.ctx(), &azservicebus.Message{}, nil), "com.microsoft:entity-disabled")
		_, err = e.receiver(topic).ReceiveMessages(e.ctx(), 1, nil)
		if err == nil {
			e.Error("a topic was received from")
		}
	})
}

func TestSubscriptionsHaveSessionsAndDeadLetters(t *testing.T) {
	onEachEngine(t, func(e *env) {
		topic := e.topic(nil)
		e.subscribe(topic, "s", &admin.SubscriptionProperties{RequiresSession: new(true)})
		e.subscribe(topic, "plain", &admin.SubscriptionProperties{MaxDeliveryCount: new(int32(1))})
		e.sendTo(topic, "b", "1", "2")
		e.sendTo(topic, "a", "3")
		e.send(topic, "without")
		c := e.client()
		r, err := c.AcceptSessionForSubscription(e.ctx(), topic, "s", "b", nil)
		if err != nil {
			e.Fatal(err)
		}
		if got := bodies(session{r, e}.take(2)); !slices.Equal(got, []string{"1", "2"}) {
			e.Errorf("session b: got %v", got)
		}
		next, err := c.AcceptNextSessionForSubscription(e.ctx(), topic, "s", nil)
		if err != nil || next.SessionID() != "a" {
			e.Fatalf("next session: got %v %v", next, err)
		}
		// What has no session cannot be received there.
		m := e.one(e.subscriberWith(topic, "s", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))
		if string(m.Body) != "without" || *m.DeadLetterReason != "Session id is null." {
			e.Errorf("dead letter: got %q, reason %v", m.Body, *m.DeadLetterReason)
		}
		plain := e.subscriber(topic, "plain")
		if err := plain.AbandonMessage(e.ctx(), e.one(plain), nil); err != nil {
			e.Fatal(err)
		}
		m = e.one(e.subscriberWith(topic, "plain", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))
		if string(m.Body) != "1" || *m.DeadLetterReason != "MaxDeliveryCountExceeded" {
			e.Errorf("dead letter: got %q, reason %v", m.Body, *m.DeadLetterReason)
		}
	})
}

func TestPostedOverHTTPSToATopicReceivedOverAMQP(t *testing.T) {
	everywhere(t, func(e *env) {
		e = e.inVirtualTime()
		topic := e.topic(nil)
		e.subscribe(topic, "red", nil, matching("r", "Colour = 'red' AND Count > 1"))
		e.subscribe(topic, "all", nil)
		e.subscribe(topic, "sessions", &admin.SubscriptionProperties{RequiresSession: new(true)})
		e.wantHTTP(e.http(http.MethodPost, topic+"/messages", "hello", http.Header{
			"Colour": {`"red"`}, "Count": {"2"}, "BrokerProperties": {`{"Label":"greeting","SessionId":"s"}`},
		}), http.StatusCreated)
		batch := http.Header{"Content-Type": {"application/vnd.microsoft.servicebus.json"}}
		e.wantHTTP(e.http(http.MethodPost, topic+"/messages",
			`[{"Body":"a","BrokerProperties":{"SessionId":"s"},"UserProperties":{"Colour":"blue"}},{"Body":"b","BrokerProperties":{"SessionId":"t"}}]`, batch), http.StatusCreated)
		r := e.subscriber(topic, "red")
		if m := e.one(r); string(m.Body) != "hello" || *m.Subject != "greeting" || m.ApplicationProperties["Colour"] != "red" {
			e.Errorf("got %+v", m)
		}
		got := e.wantHTTP(e.http(http.MethodPost, topic+"/subscriptions/all/messages/head?timeout=10", "", nil), http.StatusCreated)
		if got.body != "hello" {
			e.Errorf("got %q", got.body)
		}
		e.wantHTTP(e.http(http.MethodDelete, got.settleAt(e), "", nil), http.StatusOK)
		for _, want := range []string{"a", "b"} {
			got := e.wantHTTP(e.http(http.MethodDelete, topic+"/Subscriptions/all/messages/head?timeout=10", "", nil), http.StatusOK)
			if got.body != want {
				e.Errorf("got %q, want %s", got.body, want)
			}
		}
		e.wantHTTP(e.http(http.MethodPost, topic+"/Subscriptions/sessions/messages/head?timeout=0", "", nil), http.StatusBadRequest)
		s, err := e.client().AcceptSessionForSubscription(e.ctx(), topic, "sessions", "s", nil)
		if err != nil {
			e.Fatal(err)
		}
		if got := bodies(session{s, e}.take(2)); !slices.Equal(got, []string{"hello", "a"}) {
			e.Errorf("session s: got %v", got)
		}
		due := e.now().Add(time.Hour).UTC().Truncate(time.Second)
		e.wantHTTP(e.http(http.MethodPost, topic+"/messages", "later", http.Header{
			"BrokerProperties": {`{"ScheduledEnqueueTimeUtc":"` + due.Format(http.TimeFormat) + `"}`},
		}), http.StatusCreated)
		e.advance(time.Hour)
		all := e.subscriber(topic, "all")
		m := e.one(all)
		if string(m.Body) != "later" || m.EnqueuedTime.Before(due) {
			e.Errorf("scheduled: got %q at %v, want later not before %v", m.Body, m.EnqueuedTime, due)
		}
		if err := all.DeadLetterMessage(e.ctx(), m, &azservicebus.DeadLetterOptions{Reason: new("why")}); err != nil {
			e.Fatal(err)
		}
		dead := e.wantHTTP(e.http(http.MethodPost, topic+"/Subscriptions/all/$DeadLetterQueue/messages/head?timeout=10", "", nil), http.StatusCreated)
		if dead.body != "later" || dead.header.Get("DeadLetterReason") != `"why"` {
			e.Errorf("dead letter: got %q, %s", dead.body, dead.header.Get("DeadLetterReason"))
		}
		e.wantHTTP(e.http(http.MethodDelete, dead.settleAt(e), "", nil), http.StatusOK)
	})
}

func TestAPartitionedTopicReachesEverySubscription(t *testing.T) {
	everywhere(t, func(e *env) {
		last := e.queue(&admin.QueueProperties{EnablePartitioning: new(true)})
		topic := e.topic(&admin.TopicProperties{EnablePartitioning: new(true)})
		e.subscribe(topic, "sessions", &admin.SubscriptionProperties{RequiresSession: new(true)})
		e.subscribe(topic, "forwarded", &admin.SubscriptionProperties{ForwardTo: &last})
		const sessions, each = 8, 5
		s := e.sender(topic)
		for i := range each {
			for n := range sessions {
				e.post(s, &azservicebus.Message{Body: fmt.Append(nil, i), SessionID: new(fmt.Sprint("s", n))})
			}
		}
		seen := map[string]bool{}
		c := e.client()
		for range sessions {
			r, err := c.AcceptNextSessionForSubscription(e.ctx(), topic, "sessions", nil)
			if err != nil {
				e.Fatal(err)
			}
			held := session{r, e}
			ms := held.take(each)
			if got := bodies(ms); seen[r.SessionID()] || !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
				e.Errorf("session %s: got %v, seen before: %v", r.SessionID(), got, seen[r.SessionID()])
			}
			seen[r.SessionID()] = true
			held.complete(ms...)
			held.end()
		}
		r := e.receiver(last)
		next := map[string]int{} // in a session the order holds to the end of the chain
		for _, m := range e.take(r, sessions*each) {
			if want := fmt.Sprint(next[*m.SessionID]); string(m.Body) != want {
				e.Errorf("forwarded, session %s: got %s, want %s", *m.SessionID, m.Body, want)
			}
			next[*m.SessionID]++
		}
		if got, err := e.admin().GetTopic(e.ctx(), topic, nil); err != nil || *got.MaxSizeInMegabytes != 16*1024 || !*got.EnablePartitioning {
			e.Errorf("topic: got %+v %v", got, err)
		}
	})
}
