package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
	"github.com/crosstown-mq/crosstown/internal/variants"
)

// told is an event as the gateway tells it.
type told struct {
	Time             time.Time
	Event            string
	SubQueue         string
	SequenceNumber   int64
	Other            int64 `json:"otherSequenceNumber"`
	MessageID        string
	FailedDeliveries int
	Until            time.Time
	Reason           string
	Policy           string
	Peer             string
	Entity           string
	Rule             string
	Plugin           string
	Gateway          string
}

// account asks what became of a message.
func (e *env) account(entity, id string) []told {
	e.Helper()
	path := "$crosstown/explain/" + entity + "?" + url.Values{"message-id": {id}}.Encode()
	a := e.wantHTTP(e.http(http.MethodGet, path, "", nil), http.StatusOK)
	var account struct{ Events []told }
	if err := json.Unmarshal([]byte(a.body), &account); err != nil {
		e.Fatalf("%s: %v", a.body, err)
	}
	return account.Events
}

// tells waits until an account is as wanted: a line an event, with the other
// entity, rule, plugin and reason.
func (e *env) tells(entity, id string, want ...string) []told {
	e.Helper()
	var got []string
	var events []told
	if !eventually.Within(patience, func() bool {
		events = e.account(entity, id)
		got = got[:0]
		for _, x := range events {
			var line strings.Builder
			line.WriteString(x.Event)
			for _, part := range []string{x.SubQueue, x.Entity, x.Rule, x.Plugin, x.Reason} {
				if part != "" {
					line.WriteString(" " + part)
				}
			}
			got = append(got, line.String())
		}
		return slices.Equal(got, want)
	}) {
		e.Fatalf("%s of %s:\ngot  %s\nwant %s", id, entity, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	return events
}

// marked is a message with an id.
func marked(id string) *azservicebus.Message {
	return &azservicebus.Message{MessageID: &id, Body: []byte(id)}
}

// remembering prepares a configuration in which all entities remember.
func remembering(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crosstown.yaml")
	if err := os.WriteFile(file, []byte("explain: [{entity: \"*\"}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// onRemembering tells a story to gateways whose entities all remember.
func onRemembering(t *testing.T, story func(e *env)) {
	t.Helper()
	t.Parallel()
	variants.Each(t, func(t *testing.T, engine string) {
		t.Parallel()
		story(&env{T: t, gw: own(t, storeOf(t, engine), "--config="+remembering(t)), plain: true})
	}, "memory", "redis")
}

func TestAGatewayExplainsHowMessagesWereSettled(t *testing.T) {
	onRemembering(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{MaxDeliveryCount: new(int32(3))})
		s := e.senderOf(e.clientAs(sendOnly, sendOnlyKey), queue)
		e.post(s, marked("m"))
		r, err := e.clientAs(listenOnly, listenKey).NewReceiverForQueue(queue, nil)
		if err != nil {
			e.Fatal(err)
		}
		if err := r.AbandonMessage(e.ctx(), e.one(r), nil); err != nil {
			e.Fatal(err)
		}
		m := e.one(r)
		if err := r.DeferMessage(e.ctx(), m, nil); err != nil {
			e.Fatal(err)
		}
		ms, err := r.ReceiveDeferredMessages(e.ctx(), []int64{*m.SequenceNumber}, nil)
		if err != nil {
			e.Fatal(err)
		}
		e.complete(r, ms...)
		events := e.tells(queue, "m", "accepted", "delivered", "abandoned", "delivered", "deferred", "delivered", "completed")
		first, second, last := events[0], events[1], events[6]
		if first.Policy != sendOnly || second.Policy != listenOnly || last.Policy != listenOnly || first.SequenceNumber != *m.SequenceNumber {
			e.Errorf("got %+v, %+v … %+v", first, second, last)
		}
		for _, x := range events {
			if !strings.HasPrefix(x.Peer, "amqp 127.0.0.1:") || !strings.Contains(x.Peer, "MSGolangClient") || x.Gateway == "" || x.MessageID != "" && x.MessageID != "m" {
				e.Errorf("got %+v", x)
			}
			if since := time.Since(x.Time); since < -time.Minute || since > time.Hour {
				e.Errorf("%s happened %v ago", x.Event, since)
			}
		}

		e.post(s, marked("client"))
		if err := r.DeadLetterMessage(e.ctx(), e.one(r), &azservicebus.DeadLetterOptions{Reason: new("ugly"), ErrorDescription: new("really")}); err != nil {
			e.Fatal(err)
		}
		dead := e.deadLetters(queue)
		e.complete(dead, e.one(dead))
		events = e.tells(queue, "client", "accepted", "delivered", "dead-lettered ugly", "delivered $DeadLetterQueue", "completed $DeadLetterQueue")
		if events[2].Other != events[4].SequenceNumber {
			e.Errorf("dead-lettered as %d, completed as %d", events[2].Other, events[4].SequenceNumber)
		}

		e.post(s, marked("count"))
		for range 3 {
			if err := r.AbandonMessage(e.ctx(), e.one(r), nil); err != nil {
				e.Fatal(err)
			}
		}
		e.tells(queue, "count", "accepted", "delivered", "abandoned", "delivered", "abandoned", "delivered", "abandoned",
			"dead-lettered MaxDeliveryCountExceeded")

		brief := e.queue(shortLock())
		e.post(e.sender(brief), marked("lost"))
		e.one(e.receiver(brief)) // and no word of it
		e.tells(brief, "lost", "accepted", "delivered", "lock-expired")

		e.post(s, &azservicebus.Message{MessageID: new("short"), TimeToLive: new(time.Second)})
		e.tells(queue, "short", "accepted", "expired")
		e.tells(queue, "nosuch")
	})
}

func TestAGatewayExplainsSchedulesDuplicatesAndSessions(t *testing.T) {
	onRemembering(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{RequiresDuplicateDetection: new(true), RequiresSession: new(true), EnablePartitioning: new(true)})
		s := e.sender(queue)
		in := func(m *azservicebus.Message) *azservicebus.Message {
			m.SessionID = new("s")
			return m
		}
		e.post(s, in(marked("m")))
		e.post(s, in(marked("m")))
		held := e.accept(queue, "s")
		held.take(1)
		held.end()
		held = e.accept(queue, "s")
		held.complete(held.take(1)...)
		e.tells(queue, "m", "accepted", "duplicate", "delivered", "released", "delivered", "completed")

		numbers, err := s.ScheduleMessages(e.ctx(), []*azservicebus.Message{in(marked("later")), in(marked("never"))}, time.Now().Add(2*time.Second), nil)
		if err != nil {
			e.Fatal(err)
		}
		if err := s.CancelScheduledMessages(e.ctx(), numbers[1:], nil); err != nil {
			e.Fatal(err)
		}
		e.tells(queue, "never", "scheduled", "cancelled")
		held.complete(held.take(1)...)
		events := e.tells(queue, "later", "scheduled", "activated", "delivered", "completed")
		if events[0].SequenceNumber != numbers[0] || events[1].Other == numbers[0] || events[1].Other != events[3].SequenceNumber || events[0].Until.IsZero() {
			e.Errorf("got %+v", events)
		}
	})
}

func TestAGatewayExplainsRulesAndForwards(t *testing.T) {
	onRemembering(t, func(e *env) {
		last := e.queue(nil)
		middle := e.queue(&admin.QueueProperties{ForwardTo: &last, ForwardDeadLetteredMessagesTo: nil})
		topic := e.topic(&admin.TopicProperties{RequiresDuplicateDetection: new(true)})
		e.subscribe(topic, "eu", &admin.SubscriptionProperties{ForwardTo: &middle},
			admin.RuleProperties{Name: "region", Filter: &admin.SQLFilter{Expression: "region = 'eu'"}},
			admin.RuleProperties{Name: "large", Filter: &admin.SQLFilter{Expression: "amount > 100"}})
		e.subscribe(topic, "audit", nil, admin.RuleProperties{
			Name: "stamp", Filter: &admin.SQLFilter{Expression: "region = 'eu'"}, Action: &admin.SQLAction{Expression: "SET audited = true"},
		})
		e.subscribe(topic, "us", nil, admin.RuleProperties{Name: "region", Filter: &admin.SQLFilter{Expression: "region = 'us'"}})
		eu, audit := topic+"/Subscriptions/eu", topic+"/Subscriptions/audit"
		s := e.sender(topic)
		m := marked("m")
		m.ApplicationProperties = map[string]any{"region": "eu", "amount": int64(500)}
		e.post(s, m)
		e.post(s, m)
		e.post(s, marked("nobody"))
		e.tells(topic, "m", "accepted", "matched "+audit+" stamp", "matched "+eu+" large, region", "duplicate")
		e.tells(topic, "nobody", "accepted", "unmatched")
		e.tells(audit, "m", "accepted")
		e.tells(eu, "m", "accepted", "forwarded "+middle)
		e.tells(middle, "m", "accepted "+eu, "forwarded "+last)
		e.tells(last, "m", "accepted "+middle)
		r := e.receiver(last)
		e.complete(r, e.one(r))
		e.tells(last, "m", "accepted "+middle, "delivered", "completed")

		if _, err := s.ScheduleMessages(e.ctx(), []*azservicebus.Message{marked("due")}, time.Now().Add(time.Second), nil); err != nil {
			e.Fatal(err)
		}
		e.tells(topic, "due", "scheduled", "activated", "unmatched", "published")

		// The command line follows it.
		story := e.crosstown("explain", "m", "--entity", topic)
		for _, line := range []string{
			topic + " (topic)\n", "accepted as 1, from " + devPolicy + " at amqp 127.0.0.1:", "matched large, region of " + eu,
			"dropped as a duplicate", eu + " (subscription)\n", "1 was forwarded to " + middle, "accepted as 1, forwarded from " + middle,
			"1 was completed, by " + devPolicy,
			"\n  did not match " + topic + "/Subscriptions/us\n    region: region = 'us' is false: region is 'eu' (string)\n",
		} {
			if !strings.Contains(story, line) {
				e.Errorf("the story lacks %q:\n%s", line, story)
			}
		}
		var accounts []struct{ Entity string }
		if err := json.Unmarshal([]byte(e.crosstown("explain", "m", "--entity", topic, "--json")), &accounts); err != nil {
			e.Fatal(err)
		}
		var names []string
		for _, a := range accounts {
			names = append(names, a.Entity)
		}
		if want := []string{topic, audit, eu, middle, last}; !slices.Equal(names, want) {
			e.Errorf("followed through %q, want %q", names, want)
		}
		if by := e.crosstown("explain", "--number", "1", "--entity", eu); !strings.Contains(by, last+" (queue)\n") {
			e.Errorf("by number: %s", by)
		}
		if here := e.crosstown("explain", "--number", "1", "--entity", eu, "--here"); strings.Contains(here, last+" (queue)\n") {
			e.Errorf("here: %s", here)
		}
	})
}

func TestAGatewayExplainsWhatPluginsDid(t *testing.T) {
	t.Parallel()
	c := newCourier(t, "pipelines: [{entity: judged, ingress: [{plugin: courier}]}]\nexplain: [{entity: \"*\"}]\n")
	e := &env{T: t, gw: own(t, "memory", "--config="+c.config), plain: true}
	e.create("judged", nil)
	e.create("other", nil)
	s := e.sender("judged")
	for _, subject := range []string{"drop", "dead enough", "to other", "keep"} {
		m := marked(strings.Fields(subject)[0])
		m.Subject = &subject
		e.post(s, m)
	}
	e.tells("judged", "drop", "dropped courier as asked")
	e.tells("judged", "dead", "diverted courier enough", "accepted $DeadLetterQueue")
	e.tells("judged", "to", "routed other courier", "accepted $Transfer", "forwarded $Transfer other")
	e.tells("judged", "keep", "accepted")
	e.tells("other", "to", "accepted judged/$Transfer")
}

// Any gateway answers for all, also after they have been killed.
func TestAnyGatewayExplainsWhatOthersDid(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	one := &env{T: t, gw: own(t, r.URL(), "--config="+remembering(t)), plain: true}
	two := &env{T: t, gw: own(t, r.URL(), "--config="+remembering(t)), plain: true}
	queue := one.queue(nil)
	one.post(one.sender(queue), marked("m"))
	receiver := one.receiver(queue)
	m := one.one(receiver)
	two.completeByToken(queue, m)
	events := two.tells(queue, "m", "accepted", "delivered", "completed")
	two.eventually("the account names the gateways", func() bool {
		events = two.account(queue, "m")
		return events[0].Gateway != "" && events[1].Gateway != ""
	})
	if events[0].Gateway != events[1].Gateway || events[2].Gateway == "" || events[0].Gateway == events[2].Gateway {
		t.Errorf("through %q, %q and %q", events[0].Gateway, events[1].Gateway, events[2].Gateway)
	}
	one.gw.kill()
	two.gw.kill()
	if err := two.gw.start(); err != nil {
		t.Fatal(err)
	}
	if after := two.tells(queue, "m", "accepted", "delivered", "completed"); !slices.Equal(after, events) {
		t.Errorf("after a restart: got %+v, want %+v", after, events)
	}
}

func TestAGatewayExplainsTransactions(t *testing.T) {
	needProton(t)
	onRemembering(t, func(e *env) {
		work, out := e.queue(nil), e.queue(nil)
		ctx, cancel := context.WithTimeout(e.Context(), patience)
		defer cancel()
		c := exec.CommandContext(ctx, systemPython, filepath.Join("testdata", "proton", "transactions.py"), "amqp://"+e.gw.host, devPolicy, devKey, work, out)
		if said, err := c.CombinedOutput(); err != nil {
			e.Fatalf("%v, said:\n%s", err, said)
		}
		events := e.account(work, "one")
		if last := events[len(events)-1]; last.Event != "completed" || last.Policy != devPolicy || last.Peer == "" {
			e.Errorf("settled in a transaction: got %+v", last)
		}
		e.tells(out, "answer", "accepted "+work+"/$Transfer")
	})
}

// A namespace remembers what its own part of the configuration says.
func TestNamespacesExplainForThemselves(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "crosstown.yaml")
	const text = `queues: [{name: q}]
explain: [{entity: other}]
namespaces:
  - name: billing
    policies: [{name: clerk, key: clerks-key, rights: Manage}]
    queues: [{name: q}]
    explain: [{entity: q}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, gw: own(t, "memory", "--config="+file), plain: true}
	e.post(e.sender("q"), marked("m"))
	s := e.senderOf(e.clientAs("clerk", "clerks-key"), "q")
	e.post(s, marked("m"))
	e.wantHTTP(e.http(http.MethodGet, "$crosstown/explain/q?message-id=m", "", nil), http.StatusNotFound)
	token := auth.SignSAS("http://"+e.gw.host+"/q", "clerk", "clerks-key", time.Now().Add(time.Hour))
	a := e.wantHTTP(e.httpAs(token, http.MethodGet, "$crosstown/explain/q?message-id=m", "", nil), http.StatusOK)
	if !strings.Contains(a.body, `"namespace":"billing"`) || strings.Count(a.body, `"event":"accepted"`) != 1 || !strings.Contains(a.body, `"policy":"clerk"`) {
		t.Errorf("got %s", a.body)
	}
}

func TestExplainNeedsManageAndAHistory(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		path := "$crosstown/explain/" + queue + "?message-id=m"
		a := e.wantHTTP(e.http(http.MethodGet, path, "", nil), http.StatusNotFound)
		if !strings.Contains(a.body, "keeps no history") {
			e.Errorf("got %s", a.body)
		}
		e.wantHTTP(e.http(http.MethodPost, path, "", nil), http.StatusMethodNotAllowed)
		e.wantHTTP(e.http(http.MethodGet, "$crosstown/explain/"+queue, "", nil), http.StatusBadRequest)
		e.wantHTTP(e.http(http.MethodGet, "$crosstown/explain/nosuch?message-id=m", "", nil), http.StatusNotFound)
		e.wantHTTP(e.http(http.MethodGet, "$crosstown/explain/"+queue+"?sequence-number=x", "", nil), http.StatusBadRequest)
		e.wantHTTP(e.httpAs("", http.MethodGet, path, "", nil), http.StatusUnauthorized)
		e.wantHTTP(e.httpAs(auth.SignSAS("http://"+e.gw.host+"/", listenOnly, listenKey, time.Now().Add(time.Hour)), http.MethodGet, path, "", nil), http.StatusUnauthorized)
	})
}
