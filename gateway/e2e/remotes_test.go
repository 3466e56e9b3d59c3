package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/redisstore/redistest"
)

// branchOf starts a gateway that knows another as hq, over TCP, and as safe, over
// TLS, and a namespace of its own as billing.
func branchOf(t *testing.T, hq *gateway, store, more string) *env {
	t.Helper()
	file := filepath.Join(t.TempDir(), "branch.yaml")
	text := fmt.Sprintf(`remotes:
  - name: hq
    connection-string: %s
    pull: [{from: prices, into: prices}]
  - name: safe
    url: amqps://%s
    username: %s
    password: %s
    ca: %s
  - {name: billing, namespace: billing}
namespaces:
  - name: billing
    policies: [{name: books, key: the-key-of-the-books, rights: Manage}]
    queues: [{name: invoices}]
queues:
  - {name: prices}
%s`, hq.connection(devPolicy, devKey, true), hq.host, devPolicy, devKey, hq.caFile(), more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &env{T: t, gw: own(t, store, "--config", file), plain: true}
}

func TestAGatewayForwardsToOthersAndPullsFromThem(t *testing.T) {
	t.Parallel()
	hq := &env{T: t, gw: own(t, "memory"), plain: true}
	for _, name := range []string{"Orders", "audit", "prices"} {
		hq.create(name, nil)
	}
	branch := branchOf(t, hq.gw, "memory", `  - {name: orders, forward-to: "hq:Orders"}`)

	// What the configuration forwards, and what the SDK's management client says,
	// whose destinations get the host of the gateway before them.
	branch.create("bills", &admin.QueueProperties{ForwardTo: new("billing:invoices")})
	if p, err := branch.admin().GetQueue(branch.ctx(), "bills", nil); err != nil || !strings.HasSuffix(*p.ForwardTo, "billing:invoices") {
		t.Errorf("bills forwards to %v, %v", p.ForwardTo, err)
	}
	topic := branch.topic(nil)
	branch.subscribe(topic, "all", &admin.SubscriptionProperties{ForwardTo: new("safe:audit")})
	branch.send("orders", "o-1", "o-2")
	branch.send("bills", "b-1")
	branch.send(topic, "t-1")
	hq.send("prices", "p-1")
	for _, place := range []struct {
		*env
		queue string
		want  []string
	}{{hq, "Orders", []string{"o-1", "o-2"}}, {hq, "audit", []string{"t-1"}}, {branch, "prices", []string{"p-1"}}} {
		var got []string
		for _, m := range place.take(place.receiver(place.queue), len(place.want)) {
			got = append(got, string(m.Body))
		}
		if !slices.Equal(got, place.want) {
			t.Errorf("%s: got %v, want %v", place.queue, got, place.want)
		}
	}
	books, err := branch.clientAs("books", "the-key-of-the-books").NewReceiverForQueue("invoices", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := branch.one(books); string(m.Body) != "b-1" {
		t.Errorf("the invoice is %s, want b-1", m.Body)
	}

	_, err = branch.admin().CreateQueue(branch.ctx(), "nowhere", &admin.CreateQueueOptions{Properties: &admin.QueueProperties{ForwardTo: new("moon:orders")}})
	if err == nil || !strings.Contains(err.Error(), "It has billing, hq, safe.") {
		t.Errorf("to a remote that is none: got %v", err)
	}
	list := branch.crosstown("remote", "list")
	for _, want := range []string{"hq", "connected, for", "orders → Orders", "0 waiting", "→ Orders", "2 sent, 0 parked, 0 under way", "prices → prices", "1 pulled", "namespace billing"} {
		if !strings.Contains(list, want) {
			t.Errorf("crosstown remote list lacks %q:\n%s", want, list)
		}
	}
	scrape := branch.http("GET", "$crosstown/metrics", "", nil).body
	for _, want := range []string{
		`crosstown_remote_connected{remote="hq"} 1`, `crosstown_remote_sent_messages_total{entity="Orders",remote="hq",result="taken"} 2`,
		`crosstown_remote_pulled_messages_total{entity="prices",remote="hq",result="stored"} 1`,
	} {
		if !strings.Contains(scrape, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	token := auth.SignSAS("http://"+branch.gw.host+"/", sendOnly, sendOnlyKey, time.Now().Add(time.Hour))
	if a := branch.httpAs(token, "GET", "$crosstown/remotes", "", nil); a.status != 401 {
		t.Errorf("remotes without Manage: got %d, want 401", a.status)
	}
}

// The gateway that forwards is killed again and again, and so is the target.
func TestForwardingOutlivesBothGateways(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes a while")
	}
	const rounds, perRound, keys = 6, 200, 5
	hq := &env{T: t, gw: own(t, redistest.Start(t, redistest.Options{AOF: "always"}).URL()), plain: true}
	hq.create("orders", &admin.QueueProperties{RequiresDuplicateDetection: new(true)})
	hq.create("prices", nil)
	branch := branchOf(t, hq.gw, redistest.Start(t, redistest.Options{AOF: "always"}).URL(), `  - {name: orders, forward-to: "hq:orders"}`)
	sent := 0
	for round := range rounds {
		s := branch.sender("orders")
		for range perRound {
			m := &azservicebus.Message{MessageID: new(fmt.Sprint(sent)), PartitionKey: new(fmt.Sprint("k", sent%keys)), Body: fmt.Append(nil, sent)}
			branch.post(s, m)
			sent++
			if sent%perRound == perRound/2 && round%2 == 1 {
				hq.gw.kill()
			}
		}
		branch.gw.kill()
		if round%2 == 1 {
			if err := hq.gw.start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := branch.gw.start(); err != nil {
			t.Fatal(err)
		}
	}
	hq.afterDeath("all messages at headquarters", func() bool { return int(hq.runtime("orders").ActiveMessageCount) >= sent })
	var got []string
	last := map[string]int{}
	for _, m := range hq.take(hq.receiver("orders"), sent) {
		got = append(got, string(m.Body))
		var n int
		_, _ = fmt.Sscan(string(m.Body), &n)
		if before, ok := last[*m.PartitionKey]; ok && n < before {
			t.Errorf("message %d of %s came after %d", n, *m.PartitionKey, before)
		}
		last[*m.PartitionKey] = n
	}
	slices.Sort(got)
	if n := len(slices.Compact(got)); n != sent {
		t.Errorf("%d messages arrived, want %d, each once", n, sent)
	}
	time.Sleep(silence)
	if left := hq.runtime("orders").TotalMessageCount; left != int64(sent) {
		t.Errorf("headquarters has %d messages, want %d", left, sent)
	}
}
