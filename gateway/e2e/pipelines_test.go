package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/built"
	"github.com/crosstown-mq/crosstown/internal/variants"
)

// courier is the plugin of testdata/courier as one gateway runs it.
type courier struct {
	*testing.T
	pidFile string
	config  string
}

var buildCourier = sync.OnceValues(func() (string, error) { return built.Program(scratch, "./testdata/courier") })

// newCourier prepares a configuration with the plugin and these pipelines.
func newCourier(t *testing.T, pipelines string) *courier {
	t.Helper()
	program, err := buildCourier()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := &courier{T: t, pidFile: filepath.Join(dir, "pid"), config: filepath.Join(dir, "crosstown.yaml")}
	text := fmt.Sprintf("plugins:\n  - {name: courier, path: %q, args: [%q], call-timeout: 1s, backoff-min: 10ms, backoff-max: 100ms, failures: 1000}\n%s",
		program, c.pidFile, pipelines)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// kill ends the plugin's process as kill -9 does.
func (c *courier) kill() {
	c.Helper()
	text, err := os.ReadFile(c.pidFile)
	if err != nil {
		c.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil || pid <= 1 {
		c.Fatalf("its process id is %q: %v", text, err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
}

// hold keeps the plugin from starting again until the returned function is called.
func (c *courier) hold() (release func()) {
	c.Helper()
	if err := os.WriteFile(c.pidFile+".stop", nil, 0o600); err != nil {
		c.Fatal(err)
	}
	return func() {
		if err := os.Remove(c.pidFile + ".stop"); err != nil {
			c.Fatal(err)
		}
	}
}

// storeOf starts the engine of a name, and returns it as --store takes it.
func storeOf(t *testing.T, engine string) string {
	t.Helper()
	if engine == "memory" {
		return engine
	}
	return redistest.Start(t, redistest.Options{AOF: "always"}).URL()
}

func subjected(body, subject string) *azservicebus.Message {
	return &azservicebus.Message{Body: []byte(body), Subject: &subject}
}

// texts are the bodies of all that a queue, or its dead-letter queue, holds, in order.
func (e *env) texts(queue string, o *azservicebus.ReceiverOptions) string {
	e.Helper()
	var all []string
	for _, m := range e.everything(e.receiverWith(queue, o)) {
		all = append(all, string(m.Body))
	}
	return strings.Join(all, " ")
}

var ofDeadLetters = &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}

// holds waits until a queue holds these bodies, in order.
func (e *env) holds(queue string, o *azservicebus.ReceiverOptions, want string) {
	e.Helper()
	got := ""
	defer func() {
		if e.Failed() {
			e.Logf("%s holds %q", queue, got)
		}
	}()
	e.eventually(fmt.Sprintf("%s holds %q", queue, want), func() bool {
		got = e.texts(queue, o)
		return got == want
	})
}

func TestMessagesPassAPluginOnTheirWay(t *testing.T) {
	t.Parallel()
	variants.Each(t, func(t *testing.T, engine string) {
		t.Parallel()
		c := newCourier(t, `
pipelines:
  - entity: in*
    ingress: [{plugin: courier, parameters: {as: courier}, unavailable: park}]
  - entity: strict
    ingress: [{plugin: courier}]
  - entity: lenient
    ingress: [{plugin: courier, unavailable: pass}]
  - entity: letters
    follow-to: [as*]
`)
		e := &env{T: t, gw: own(t, storeOf(t, engine), "--config", c.config), plain: true}
		for _, name := range []string{"in", "strict", "lenient", "letters", "out", "aside"} {
			e.create(name, nil)
		}
		e.create("forwarding", &admin.QueueProperties{ForwardTo: new("in")})
		s := e.sender("in")
		for i, subject := range []string{"", "to out", "drop", "dead end", "also out aside", "set"} {
			e.post(s, subjected(fmt.Sprint(i), subject))
		}
		e.post(e.sender("forwarding"), subjected("6", "to out"))
		// A refusal reaches the sender, over AMQP and HTTP; one that is forwarded has none.
		const refused = "Message 1 of 1: the plugin 'courier' refused the message: wrong: as asked."
		if err := s.SendMessage(e.ctx(), subjected("refused", "refuse wrong"), nil); err == nil || !strings.Contains(err.Error(), "amqp:not-allowed") || !strings.Contains(err.Error(), refused) {
			t.Errorf("a refusal over AMQP: got %v", err)
		}
		answer := e.wantHTTP(e.http("POST", "in/messages", "refused", http.Header{"BrokerProperties": {`{"Label":"refuse wrong"}`}}), 400)
		if !strings.Contains(answer.body, "refused the message: wrong") {
			t.Errorf("a refusal over HTTP: got %s", answer.body)
		}
		e.post(e.sender("forwarding"), subjected("9", "refuse wrong"))
		e.post(e.sender("letters"), &azservicebus.Message{Body: []byte("7"), To: new("aside")})
		e.post(e.sender("letters"), &azservicebus.Message{Body: []byte("8"), To: new("out")}) // which is not allowed
		e.holds("in", nil, "0 4 5")
		e.holds("in", ofDeadLetters, "3 9")
		e.holds("out", nil, "1 4 6")
		e.holds("aside", nil, "4 7")
		e.holds("letters", nil, "8")
		if dead := e.one(e.deadLetters("in")); *dead.DeadLetterReason != "end" || *dead.DeadLetterErrorDescription != "as asked" {
			t.Errorf("dead because of %q, %q", *dead.DeadLetterReason, *dead.DeadLetterErrorDescription)
		}
		for _, m := range e.take(e.receiver("in"), 3) {
			if by := m.ApplicationProperties["by"]; string(m.Body) == "5" && by != "courier" {
				t.Errorf("a property was set to %v", by)
			}
		}

		counts := e.wantHTTP(e.http("GET", "$crosstown/pipelines", "", nil), 200).body
		for _, want := range []string{
			`{"entity":"in","stage":"ingress","plugin":"courier","judged":10,"dropped":1,"deadLettered":2,"rejected":2,"routed":3,"parked":0,"passedUnjudged":0,"refused":0}`,
			`{"entity":"letters","stage":"to","plugin":"to","judged":2,`,
		} {
			if !strings.Contains(counts, want) {
				t.Errorf("counts: got %s, want %s", counts, want)
			}
		}

		// The plugin is gone, and stays away for a while.
		release := c.hold()
		c.kill()
		if err := e.sender("strict").SendMessage(e.ctx(), subjected("no", ""), nil); err == nil || !strings.Contains(err.Error(), "plugin 'courier'") {
			t.Errorf("without the plugin: got %v", err)
		}
		e.post(e.sender("lenient"), subjected("passed", "drop"))
		e.holds("lenient", nil, "passed")
		want := []string{"0", "4", "5"}
		for i := 10; i < 30; i++ {
			e.post(s, subjected(fmt.Sprint(i), []string{"", "to out"}[i%2]))
			if i%2 == 0 {
				want = append(want, fmt.Sprint(i))
			}
		}
		if r := e.runtime("in"); r.TransferMessageCount != 20 || r.ActiveMessageCount != 3 {
			t.Errorf("while the plugin is away: %d are parked, %d active", r.TransferMessageCount, r.ActiveMessageCount)
		}
		release()
		began := time.Now()
		for i := 30; i < 36; i += 2 { // may be judged at once, and must not overtake
			e.post(s, subjected(fmt.Sprint(i), ""))
			want = append(want, fmt.Sprint(i))
		}
		e.holds("in", nil, strings.Join(want, " "))
		t.Logf("what was parked was there %v after the plugin could start", time.Since(began).Round(time.Millisecond))
		e.holds("out", nil, "1 4 6 11 13 15 17 19 21 23 25 27 29")
		e.post(e.sender("strict"), subjected("yes", ""))
		e.holds("strict", nil, "yes")
	}, "memory", "redis")
}

func TestRulesAskAPlugin(t *testing.T) {
	t.Parallel()
	c := newCourier(t, `
topics:
  - name: declared
    subscriptions: [{name: green, rules: [{name: r, plugin: courier, parameters: {"1": green}}]}]
`)
	e := &env{T: t, gw: own(t, "memory", "--config", c.config), plain: true}
	topic := e.topic(nil)
	e.subscribe(topic, "red", nil, admin.RuleProperties{Name: "r", Filter: &admin.SQLFilter{Expression: "plugin('courier', @colour)", Parameters: map[string]any{"@colour": "red"}}})
	e.subscribe(topic, "others", nil, admin.RuleProperties{Name: "r", Filter: &admin.SQLFilter{Expression: "NOT plugin('courier', 'red') AND NOT plugin('courier', 'blue')"}})
	for _, subject := range []string{"red", "green", "blue", "red"} {
		e.post(e.sender(topic), subjected(subject, subject))
		e.post(e.sender("declared"), subjected(subject, subject))
	}
	if got := fmt.Sprint(e.held(topic, "red", 2), e.held(topic, "others", 1), e.held("declared", "green", 1)); got != "[red red] [green] [green]" {
		t.Errorf("got %s", got)
	}
	_, err := e.admin().CreateRule(e.ctx(), topic, "red", &admin.CreateRuleOptions{Name: new("x"), Filter: &admin.SQLFilter{Expression: "plugin('postman')"}})
	if err == nil || !strings.Contains(err.Error(), "calls 'postman', which is not a plugin that rules may call: 'courier' may be called") {
		t.Errorf("an unknown plugin: got %v", err)
	}
}

// The plugin is killed again and again under load. Whatever was accepted is
// where its subject says, once.
func TestNothingAcceptedIsLostWithAPlugin(t *testing.T) {
	t.Parallel()
	seed := numberFrom(t, seedVariable, rand.Int64())
	t.Logf("%s=%d", seedVariable, seed)
	kills := numberFrom(t, killsVariable, defaultKills)
	c := newCourier(t, `
pipelines:
  - {entity: strict, ingress: [{plugin: courier, unavailable: refuse}]}
  - {entity: patient, ingress: [{plugin: courier, unavailable: park}]}
`)
	e := &env{T: t, gw: own(t, redistest.Start(t, redistest.Options{AOF: "always"}).URL(), "--config", c.config), plain: true}
	for _, name := range []string{"strict", "patient", "plain", "out"} {
		e.create(name, &admin.QueueProperties{EnablePartitioning: new(name != "plain")})
	}
	e.create("forwarding", &admin.QueueProperties{ForwardTo: new("strict")})
	subjects := []string{"", "to out", "dead end", "also out"}
	want := map[string][]string{} // bodies by place
	var mu sync.Mutex
	accept := func(queue, body, subject string) {
		mu.Lock()
		defer mu.Unlock()
		at := []string{queue}
		switch subject {
		case "to out":
			at = []string{"out"}
		case "dead end":
			at = []string{queue + " dead"}
		case "also out":
			at = append(at, "out")
		}
		for _, place := range at {
			want[place] = append(want[place], body)
		}
	}
	stop := make(chan struct{})
	var senders sync.WaitGroup
	halt := sync.OnceFunc(func() {
		close(stop)
		senders.Wait()
	})
	defer halt()
	refused, slowest := 0, time.Duration(0)
	for who, queue := range []string{"strict", "strict", "patient", "patient", "forwarding", "plain"} {
		s := e.sender(queue)
		senders.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				body, subject := fmt.Sprintf("%d/%d", who, n), subjects[n%len(subjects)]
				began := time.Now()
				err := s.SendMessage(e.ctx(), subjected(body, subject), nil)
				mu.Lock()
				if slowest = max(slowest, time.Since(began)); err != nil {
					refused++
				}
				mu.Unlock()
				switch {
				case err == nil && queue == "plain":
					accept("plain", body, "")
				case err == nil && queue == "forwarding":
					accept("strict", body, subject)
				case err == nil:
					accept(queue, body, subject)
				case queue == "strict" && strings.Contains(err.Error(), "plugin 'courier'"):
				default:
					t.Errorf("%s: %v", queue, err)
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	for range kills {
		time.Sleep(time.Duration(100+random.IntN(900)) * time.Millisecond) // random moments are what this is about
		c.kill()
	}
	halt()
	e.eventually("all that was parked or forwarded has arrived", func() bool {
		for _, name := range []string{"strict", "patient", "forwarding"} {
			if r := e.runtime(name); r.TransferMessageCount > 0 || name == "forwarding" && r.TotalMessageCount > 0 {
				return false
			}
		}
		return true
	})
	total := 0
	for _, place := range []string{"strict", "strict dead", "patient", "patient dead", "plain", "out"} {
		queue, dead := strings.CutSuffix(place, " dead")
		var o *azservicebus.ReceiverOptions
		if dead {
			o = ofDeadLetters
		}
		got := e.everything(e.receiverWith(queue, o))
		var bodies []string
		for _, m := range got {
			bodies = append(bodies, string(m.Body))
		}
		slices.Sort(bodies)
		slices.Sort(want[place])
		total += len(bodies)
		if !slices.Equal(bodies, want[place]) {
			t.Errorf("%s: %d are there, %d should be: %s", place, len(bodies), len(want[place]), difference(bodies, want[place]))
		}
	}
	if total == 0 {
		t.Error("nothing was sent: the test has shown nothing")
	}
	t.Logf("%d messages arrived, %d sends were refused, the slowest took %v", total, refused, slowest.Round(time.Millisecond))
}

// Gateways are killed while messages are routed and forwarded through plugins,
// and senders send again what they got no answer for: duplicate detection makes
// once of it, whether a message was kept or routed.
func TestRoutedMessagesAreThereOnceWhenGatewaysDie(t *testing.T) {
	t.Parallel()
	seed := numberFrom(t, seedVariable, rand.Int64())
	t.Logf("%s=%d", seedVariable, seed)
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	var es []*env
	for range 2 {
		c := newCourier(t, "pipelines: [{entity: in, ingress: [{plugin: courier, unavailable: park}]}]\n")
		es = append(es, &env{T: t, gw: own(t, r.URL(), "--config", c.config), plain: true})
	}
	e := es[0]
	for _, name := range []string{"out", "end"} {
		e.create(name, &admin.QueueProperties{EnablePartitioning: new(true)})
	}
	e.create("in", &admin.QueueProperties{RequiresDuplicateDetection: new(true), DuplicateDetectionHistoryTimeWindow: new("PT1H"), EnablePartitioning: new(true)})
	e.create("forwarding", &admin.QueueProperties{RequiresDuplicateDetection: new(true), DuplicateDetectionHistoryTimeWindow: new("PT1H"), ForwardTo: new("in")})
	stop := make(chan struct{})
	var senders sync.WaitGroup
	halt := sync.OnceFunc(func() {
		close(stop)
		senders.Wait()
	})
	defer halt()
	counts := make([]int, 4)
	for who := range counts {
		var ways []*azservicebus.Sender
		for _, e := range es {
			ways = append(ways, e.senderOf(retryingClient(e), []string{"in", "forwarding"}[who%2]))
		}
		senders.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					counts[who] = n
					return
				case <-time.After(2 * time.Millisecond):
				}
				m := subjected(fmt.Sprintf("%d/%d", who, n), []string{"", "to out", "dead end", "also end"}[n%4])
				m.MessageID = new(string(m.Body))
				for tries := n; ; tries++ {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					err := ways[tries%len(ways)].SendMessage(ctx, m, nil)
					cancel()
					if err == nil || t.Context().Err() != nil {
						break
					}
					time.Sleep(50 * time.Millisecond) // a client's pause before it tries again
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	for range 6 {
		time.Sleep(time.Duration(200+random.IntN(1200)) * time.Millisecond) // random moments are what this is about
		victim := es[random.IntN(len(es))].gw
		victim.kill()
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond) // as here
		if err := victim.start(); err != nil {
			t.Fatal(err)
		}
	}
	halt()
	e.afterDeath("all has arrived", func() bool {
		return e.runtime("in").TransferMessageCount == 0 && e.runtime("forwarding").TotalMessageCount == 0
	})
	total := 0
	for place, remainder := range map[string][]int{"in": {0, 3}, "out": {1}, "in dead": {2}, "end": {3}} {
		queue, dead := strings.CutSuffix(place, " dead")
		var o *azservicebus.ReceiverOptions
		if dead {
			o = ofDeadLetters
		}
		var got, want []string
		for _, m := range e.everything(e.receiverWith(queue, o)) {
			got = append(got, string(m.Body))
		}
		for who, count := range counts {
			for n := range count {
				if slices.Contains(remainder, n%4) {
					want = append(want, fmt.Sprintf("%d/%d", who, n))
				}
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		total += len(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d are there, %d should be: %s", place, len(got), len(want), difference(got, want))
		}
	}
	t.Logf("%d messages arrived", total)
}

// retryingClient is an SDK's client that connects again.
func retryingClient(e *env) *azservicebus.Client {
	e.Helper()
	c, err := azservicebus.NewClientFromConnectionString(e.gw.connection(devPolicy, devKey, true), &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 2, RetryDelay: 20 * time.Millisecond, MaxRetryDelay: 100 * time.Millisecond},
	})
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = c.Close(context.WithoutCancel(e.Context())) })
	return c
}

// difference names what only one of two sorted lists has, or has more often.
func difference(got, want []string) string {
	var text []string
	for len(got)+len(want) > 0 && len(text) < 20 {
		switch {
		case len(want) == 0 || len(got) > 0 && got[0] < want[0]:
			text = append(text, "+"+got[0])
			got = got[1:]
		case len(got) == 0 || want[0] < got[0]:
			text = append(text, "-"+want[0])
			want = want[1:]
		default:
			got, want = got[1:], want[1:]
		}
	}
	return strings.Join(text, " ")
}
