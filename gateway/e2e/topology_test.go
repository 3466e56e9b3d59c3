package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/freeport"
)

// balancer passes connections on to backends in turn, past those that do not
// answer: what a load balancer for TCP does.
type balancer struct {
	listener net.Listener
	backends []string
	turn     atomic.Uint32
	passed   []atomic.Int64 // connections, by backend
}

func balance(t *testing.T, backends ...string) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: l, backends: backends, passed: make([]atomic.Int64, len(backends))}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { b.pass(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); open.Wait() })
	return b
}

func (b *balancer) host() string {
	return fmt.Sprintf("localhost:%d", b.listener.Addr().(*net.TCPAddr).Port)
}

func (b *balancer) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	for range b.backends {
		i := int(b.turn.Add(1)) % len(b.backends)
		server, err := net.Dial("tcp", b.backends[i])
		if err != nil {
			continue
		}
		b.passed[i].Add(1)
		both := make(chan struct{}, 2)
		for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
			go func() {
				_, _ = io.Copy(way[0], way[1]) // until one side has gone
				both <- struct{}{}
			}()
		}
		<-both
		_, _ = client.Close(), server.Close()
		<-both
		return
	}
}

// Gateways end in their turn, as in an update, and clients go to the other one. The topology is that of
// docker-compose.scale.yml, from processes: a Redis Cluster of three masters with a replica each, two gateways with one
// certificate, a balancer before them, and what Prometheus and the dashboard ask for.
func TestARollingRestartLosesNothing(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "branch.yaml")
	if err := os.WriteFile(file, []byte(branch), 0o600); err != nil {
		t.Fatal(err)
	}
	var gateways []*gateway
	var monitored []string
	for range 2 {
		port, err := freeport.Take()
		if err != nil {
			t.Fatal(err)
		}
		monitored = append(monitored, fmt.Sprintf("127.0.0.1:%d", port))
		g, err := newGateway(dir, cluster.URL(), "--config", file, "--admin-listen", monitored[len(monitored)-1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			g.kill()
			if t.Failed() {
				t.Logf("the gateway on %s logged\n%s", g.host, g.log.String())
			}
		})
		if err := g.start(); err != nil {
			t.Fatal(err)
		}
		gateways = append(gateways, g)
	}
	b := balance(t, gateways[0].host, gateways[1].host)
	e := &env{T: t, gw: &gateway{host: b.host(), data: dir, ca: gateways[0].ca}, plain: true}
	name := e.queue(&admin.QueueProperties{LockDuration: new("PT5S"), MaxDeliveryCount: new(int32(1000)), RequiresDuplicateDetection: new(true), EnablePartitioning: new(true)})

	l := newLoad(e, name)
	l.flows("before")
	for i := range numberFrom(t, killsVariable, 2) {
		g := gateways[i%2]
		g.stop()
		if g.err != nil {
			t.Errorf("restart %d: SIGTERM under load: got %v\n%s", i, g.err, g.log.String())
		}
		l.flows("on the other gateway alone")
		if err := g.start(); err != nil {
			t.Fatal(err)
		}
		l.flows("on both")
	}
	l.finish()
	for i := range b.passed {
		if b.passed[i].Load() == 0 {
			t.Errorf("gateway %d got no connection", i)
		}
	}
	e.eventually("the queue is empty", func() bool { return e.runtime(name).TotalMessageCount == 0 })
	kept := e.queue(nil) // for the dashboard: an old message, and a refusal
	e.send(kept, "taken", "left")
	r := e.receiver(kept)
	m := e.one(r)
	e.complete(r, m)
	if r.RenewMessageLock(e.ctx(), m, nil) == nil {
		t.Error("the lock of a completed message was renewed")
	}
	e.sendTo(e.queue(&admin.QueueProperties{RequiresSession: new(true)}), "s", "waits")
	out := &namespace{e, "branch", "clerk", branchKey}
	out.send("out", "to a remote")
	e.send("tray", "from a remote")
	e.one(e.receiver("desk"))
	e.one(out.receiver("in"))
	dashboardFinds(t, monitored)
}

// branch is a namespace that forwards to the gateway's own, and pulls from it.
const (
	branchKey = "the-key-of-the-branch"
	branch    = `namespaces:
  - name: branch
    policies: [{name: clerk, key: ` + branchKey + `, rights: Manage}]
    queues: [{name: out, forward-to: "office:desk"}, {name: in}]
    remotes: [{name: office, namespace: sbemulatorns, pull: [{from: tray, into: in}]}]
queues: [{name: desk}, {name: tray}]
`
)

// load is senders and receivers that go on whatever happens to connections.
type load struct {
	e     *env
	queue string
	done  chan struct{}

	sending, receiving sync.WaitGroup
	interrupted        atomic.Int64 // calls that failed
	trouble            atomic.Value // the last one's error, as text

	mu       sync.Mutex
	sent     map[string]bool // acknowledged
	received map[string]int  // how often
}

const (
	loadSenders   = 4
	loadReceivers = 3
	loadPace      = 2 * time.Millisecond // the receivers shall keep up
	// receiveTime is how long a receiver waits for messages, or for an answer. It
	// includes a new connection, which a busy machine takes more than a second for.
	receiveTime = 5 * time.Second
)

func newLoad(e *env, queue string) *load {
	e.Helper()
	l := &load{e: e, queue: queue, done: make(chan struct{}), sent: map[string]bool{}, received: map[string]int{}}
	ctx, cancel := context.WithCancel(e.Context())
	e.Cleanup(func() {
		cancel()
		l.sending.Wait()
		l.receiving.Wait()
		if e.Failed() {
			e.Logf("%d messages sent, %d received, %d calls interrupted, the last by: %v", len(l.sent), len(l.received), l.interrupted.Load(), l.trouble.Load())
		}
	})
	for i := range loadSenders {
		l.sending.Go(func() { l.send(ctx, i) })
	}
	for range loadReceivers {
		l.receiving.Go(func() { l.receive(ctx) })
	}
	return l
}

// client is one of an application: it comes back by itself.
func (l *load) client() (*azservicebus.Client, error) {
	return azservicebus.NewClientFromConnectionString(l.e.gw.connection(devPolicy, devKey, true), &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 5, RetryDelay: 20 * time.Millisecond, MaxRetryDelay: 200 * time.Millisecond},
	})
}

func (l *load) send(ctx context.Context, nr int) {
	c, err := l.client()
	if err != nil {
		l.e.Error(err)
		return
	}
	defer func() { _ = c.Close(context.Background()) }()
	s, err := c.NewSender(l.queue, nil)
	if err != nil {
		l.e.Error(err)
		return
	}
	for n := 0; ; n++ {
		id := fmt.Sprintf("%d-%d", nr, n)
		for { // until it is known to be there: the queue drops duplicates
			select {
			case <-l.done:
				return
			case <-ctx.Done():
				return
			default:
			}
			err := s.SendMessage(ctx, &azservicebus.Message{MessageID: &id, Body: []byte(id)}, nil)
			if err == nil {
				break
			}
			l.interrupt("send", err)
		}
		l.mu.Lock()
		l.sent[id] = true
		l.mu.Unlock()
		time.Sleep(loadPace) // few messages a second are enough
	}
}

func (l *load) receive(ctx context.Context) {
	c, err := l.client()
	if err != nil {
		l.e.Error(err)
		return
	}
	defer func() { _ = c.Close(context.Background()) }()
	r, err := c.NewReceiverForQueue(l.queue, nil)
	if err != nil {
		l.e.Error(err)
		return
	}
	for ctx.Err() == nil && !l.complete() {
		within, cancel := context.WithTimeout(ctx, receiveTime)
		ms, err := r.ReceiveMessages(within, 20, nil)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			l.interrupt("receive", err)
		}
		for _, m := range ms {
			l.mu.Lock()
			l.received[string(m.Body)]++
			l.mu.Unlock()
			within, cancel := context.WithTimeout(ctx, receiveTime)
			err := r.CompleteMessage(within, m, nil)
			cancel()
			if err != nil { // its link is gone, and so it is with the others: they come again
				l.interrupt("complete", err)
				break
			}
		}
	}
}

// interrupt notes that a call failed.
func (l *load) interrupt(call string, err error) {
	l.interrupted.Add(1)
	l.trouble.Store(call + ": " + err.Error())
}

// complete reports whether nothing is sent any more, and all was received.
func (l *load) complete() bool {
	select {
	case <-l.done:
	default:
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.missing()) == 0
}

// missing are the messages that were acknowledged and did not come. l.mu is held.
func (l *load) missing() (ids []string) {
	for id := range l.sent {
		if l.received[id] == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// flows waits until messages are sent and received that were not before.
func (l *load) flows(when string) {
	l.e.Helper()
	count := func() (int, int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.sent), len(l.received)
	}
	sent, received := count()
	l.e.eventually("messages flow "+when, func() bool {
		s, r := count()
		return s > sent+200 && r > received+200
	})
}

// finish has the senders stop, and checks that nothing was lost.
func (l *load) finish() {
	l.e.Helper()
	close(l.done)
	l.sending.Wait()
	ended := make(chan struct{})
	go func() { l.receiving.Wait(); close(ended) }()
	for last, since := -1, time.Now(); time.Since(since) < patience/2; { // a busy machine takes its time
		if came := l.count(); came != last {
			last, since = came, time.Now()
		}
		select {
		case <-ended:
			since = time.Time{}
		case <-time.After(100 * time.Millisecond):
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost := l.missing(); len(lost) > 0 {
		l.e.Errorf("%d of %d messages that were acknowledged did not come: %.200q", len(lost), len(l.sent), lost)
	}
	again := 0
	for _, n := range l.received {
		again += n - 1
	}
	l.e.Logf("%d messages, %d deliveries again, %d calls interrupted", len(l.sent), again, l.interrupted.Load())
}

// count is the number of messages that have come.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.received)
}

var metricName = regexp.MustCompile(`crosstown_[a-z_]+`)

// dashboardFinds checks that the gateways show what the dashboard asks for.
func dashboardFinds(t *testing.T, monitored []string) {
	t.Helper()
	dashboard, err := os.ReadFile("../../configs/deploy/grafana/dashboards/crosstown.json")
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for _, address := range monitored {
		answer, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(&shown, answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("metrics: %s %v", answer.Status, err)
		}
	}
	known := metricName.FindAllString(shown.String(), -1)
	asked := metricName.FindAllString(string(dashboard), -1)
	if len(asked) == 0 {
		t.Error("the dashboard asks for nothing")
	}
	for _, name := range asked {
		if !slices.Contains(known, name) {
			t.Errorf("the dashboard asks for %s, which no gateway shows", name)
		}
	}
}
