package e2e

import (
	"encoding/json"
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
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
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
	if err == nil || !strings.Contains(err.Error(), "use one of its remotes (billing, hq, safe), or add") {
		t.Errorf("to a remote that is none: got %v", err)
	}
	list := branch.crosstown("remote", "list")
	for _, want := range []string{"hq", "connected, for", "orders → Orders", "0 waiting", "→ Orders", "2 sent, 0 dead-lettered, 0 under way", "prices → prices", "1 pulled", "namespace billing"} {
		if !strings.Contains(list, want) {
			t.Errorf("crosstown remote list lacks %q:\n%s", want, list)
		}
	}
	scrape := branch.http("GET", "$crosstown/metrics", "", nil).body
	for _, want := range []string{
		`crosstown_remote_connected{namespace="sbemulatorns",remote="hq"} 1`, `crosstown_remote_sent_messages_total{entity="Orders",namespace="sbemulatorns",remote="hq",result="taken"} 2`,
		`crosstown_remote_pulled_messages_total{entity="prices",namespace="sbemulatorns",remote="hq",result="stored"} 1`,
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
	// What is sent last comes last: by then nothing else is in flight.
	branch.post(branch.sender("orders"), &azservicebus.Message{MessageID: new("last"), Body: []byte("last")})
	hq.afterDeath("the last message is at headquarters", func() bool { return hq.runtime("orders").TotalMessageCount > int64(sent) })
	branch.afterDeath("the branch has forwarded all", func() bool { return branch.runtime("orders").TotalMessageCount == 0 })
	if left := hq.runtime("orders").TotalMessageCount; left != int64(sent)+1 {
		t.Errorf("headquarters has %d messages, want %d", left, sent+1)
	}
}

// departments are two namespaces that send to each other.
const (
	salesKey = "the-key-of-sales"
	worksKey = "the-key-of-the-works"

	departments = `namespaces:
  - name: sales
    policies: [{name: seller, key: ` + salesKey + `, rights: Manage}]
    queues:
      - {name: orders, forward-to: "plant:orders"}
      - {name: prices}
    remotes:
      - {name: plant, namespace: Works, pull: [{from: prices, into: prices}]}
      - {name: home, namespace: sbemulatorns}
      - {name: suite, namespace: yet-to-come}
  - name: works
    policies:
      - {name: watchman, key: of-no-use, rights: Listen}
      - {name: foreman, key: ` + worksKey + `, rights: Manage}
    queues: [{name: orders}, {name: prices}, {name: reports, forward-to: "board:reports"}]
    remotes:
      - {name: board, namespace: sbemulatorns}
queues: [{name: reports}]
`
)

// departmentsOn starts a gateway with them.
func departmentsOn(t *testing.T, store string) *env {
	t.Helper()
	file := filepath.Join(t.TempDir(), "departments.yaml")
	if err := os.WriteFile(file, []byte(departments), 0o600); err != nil {
		t.Fatal(err)
	}
	return &env{T: t, gw: own(t, store, "--config", file), plain: true}
}

func TestNamespacesOfAGatewayForwardToEachOther(t *testing.T) {
	t.Parallel()
	e := departmentsOn(t, "memory")
	sales, works := &namespace{e, "sales", "seller", salesKey}, &namespace{e, "works", "foreman", worksKey}
	wants := func(what string, r *azservicebus.Receiver, want ...string) {
		t.Helper()
		if got := bodies(e.take(r, len(want))); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}

	// There and back, and to the gateway's own.
	sales.send("orders", "o-1", "o-2", "o-3")
	wants("orders at the works", works.receiver("orders"), "o-1", "o-2", "o-3")
	works.send("prices", "p-1", "p-2")
	wants("prices at sales", sales.receiver("prices"), "p-1", "p-2")
	works.send("reports", "r-1")
	wants("reports at home", e.receiver("reports"), "r-1")
	forward := func(n *namespace, queue, to string) error {
		_, err := n.admin().CreateQueue(n.ctx(), queue, &admin.CreateQueueOptions{Properties: &admin.QueueProperties{ForwardTo: &to}})
		return err
	}
	if err := forward(sales, "bills", "home:reports"); err != nil {
		t.Fatal(err)
	}
	sales.send("bills", "b-1")
	wants("bills at home", e.receiver("reports"), "b-1")

	// What is another's is not there.
	own := &namespace{e, "", devPolicy, devKey}
	guest := e.createNamespace()
	for _, c := range []struct {
		*namespace
		to, want string
	}{
		{sales, "board:reports", "the namespace has no remote 'board': use one of its remotes (home, plant, suite), or add"},
		{works, "plant:orders", "the namespace has no remote 'plant': use one of its remotes (board), or add"},
		{own, "plant:orders", "the namespace has no remotes: add the remote"},
		{guest, "plant:orders", "the namespace has no remotes: add the remote"},
	} {
		if err := forward(c.namespace, "nowhere", c.to); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %s: got %v, want %q", c.policy, c.to, err, c.want)
		}
	}

	// Nor is it shown.
	for _, c := range []struct {
		*namespace
		want string
	}{{sales, "sales/home sales/plant sales/suite"}, {works, "works/board"}, {guest, ""}, {own, "sales/home sales/plant sales/suite works/board"}} {
		var got []string
		for _, r := range c.remotes() {
			got = append(got, r.Namespace+"/"+r.Name)
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s is shown the remotes %q, want %q", c.policy, s, c.want)
		}
	}
	plant := `crosstown_remote_sent_messages_total{entity="orders",namespace="sales",remote="plant",result="taken"} 3`
	for n, want := range map[*namespace]bool{sales: true, own: true, works: false, guest: false} {
		a := e.wantHTTP(e.httpAs(n.token(), "GET", "$crosstown/metrics", "", nil), 200)
		if strings.Contains(a.body, plant) != want {
			t.Errorf("%s of %s is shown %s: %v, want %v", n.policy, n.name, plant, !want, want)
		}
	}
	list := e.crosstown("remote", "list")
	for _, want := range []string{"sales/plant", "works/board", "namespace sbemulatorns", "3 sent, 0 dead-lettered", "2 pulled", "namespace 'yet-to-come'"} {
		if !strings.Contains(list, want) {
			t.Errorf("crosstown remote list lacks %q:\n%s", want, list)
		}
	}
	token := auth.SignSAS("http://"+e.gw.host+"/", "watchman", "of-no-use", time.Now().Add(time.Hour))
	e.wantHTTP(e.httpAs(token, "GET", "$crosstown/remotes", "", nil), 401)
}

// A remote may be a namespace that is made at run time, and created again.
func TestMessagesWaitForANamespaceToBeMade(t *testing.T) {
	t.Parallel()
	e := departmentsOn(t, redistest.Start(t, redistest.Options{}).URL())
	sales := &namespace{e, "sales", "seller", salesKey}
	to := "suite:inbox"
	if _, err := sales.admin().CreateQueue(e.ctx(), "parcels", &admin.CreateQueueOptions{Properties: &admin.QueueProperties{ForwardTo: &to}}); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"s-1", "s-2"} {
		sales.send("parcels", body)
		p := e.namespaceRequest("PUT", "/yet-to-come", "").Policies[0]
		made := &namespace{e, "yet-to-come", p.Name, p.PrimaryKey}
		made.queue("inbox")
		if m := e.one(made.receiver("inbox")); string(m.Body) != body {
			t.Errorf("it got %s, want %s", m.Body, body)
		}
		e.wantHTTP(e.http("DELETE", "$crosstown/namespaces/yet-to-come", "", nil), 200)
		e.eventually("the remote is away", func() bool {
			return slices.ContainsFunc(sales.remotes(), func(r remoteReply) bool { return r.Name == "suite" && !r.Connected })
		})
	}
}

// remoteReply is what the gateway tells of a remote.
type remoteReply struct {
	Namespace, Name string
	Connected       bool
}

// remotes are those that the namespace's manager is shown.
func (n *namespace) remotes() (all []remoteReply) {
	n.Helper()
	a := n.wantHTTP(n.httpAs(n.token(), "GET", "$crosstown/remotes", "", nil), 200)
	if err := json.Unmarshal([]byte(a.body), &all); err != nil {
		n.Fatalf("remotes: %v in %s", err, a.body)
	}
	return all
}
