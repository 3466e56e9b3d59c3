package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// How long the chaos lasts and which it is: E2E_CHAOS_KILLS kills instead
// of ten, with the random numbers of E2E_CHAOS_SEED instead of new ones.
const (
	killsVariable = "E2E_CHAOS_KILLS"
	seedVariable  = "E2E_CHAOS_SEED"
	syncVariable  = "E2E_CHAOS_SYNC" // of the file store
	disksVariable = "E2E_CHAOS_DISKS"
	// replicasVariable bounds how many replicas are waited for, to see what is lost without them.
	replicasVariable = "E2E_CHAOS_REPLICAS"
	defaultKills     = 10
)

// chaosBacklog is the number of messages that may wait before the senders pause, so that
// what is left at the end is soon received.
const chaosBacklog = 1000

func TestNothingAcknowledgedIsLostInChaos(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	gateways := []*gateway{own(t, r.URL()), own(t, r.URL())}
	endureChaos(t, gateways, func(random *rand.Rand, pause func()) {
		victim := random.IntN(len(gateways) + 2) // Redis half the time
		if victim < len(gateways) {
			killGateway(t, gateways[victim], pause)
			return
		}
		r.Kill()
		pause()
		r.Restart(t)
	})
}

// A gateway with the file store is killed at random moments. What it has acknowledged is written, if
// not synced: only a loss of power could lose it.
func TestNothingAcknowledgedIsLostWhenTheFileStoreIsKilled(t *testing.T) {
	t.Parallel()
	g := own(t, "file", "--sync", cmp.Or(os.Getenv(syncVariable), "interval"))
	endureChaos(t, []*gateway{g}, func(_ *rand.Rand, pause func()) { killGateway(t, g, pause) })
}

// Masters of Redis die for good, with their disks, again and again; a replica takes the place of each, and an empty
// one its own. What waited for replicas is still there. E2E_CHAOS_REPLICAS=0 waits for none.
func TestNothingAcknowledgedIsLostInChaosWithAMastersDisk(t *testing.T) {
	if os.Getenv(disksVariable) == "" {
		t.Skipf("%s is not set: a failover takes seconds", disksVariable)
	}
	t.Parallel()
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprintf("Sentinel, %d replicas", replicas), func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinel(t, replicas)
			url := fmt.Sprintf("%s?replicas=%d", s.URL(), min(replicas, int(numberFrom(t, replicasVariable, 9))))
			gateways := []*gateway{own(t, url), own(t, url)}
			failingOver(t, gateways[:replicas], func(pause func()) {
				lost := s.LoseMaster(t)
				pause()
				s.Repair(t, lost)
			})
		})
	}
}

// Likewise in a cluster, whose other partitions go on.
func TestNothingAcknowledgedIsLostInChaosWithAMastersDiskInACluster(t *testing.T) {
	if os.Getenv(disksVariable) == "" {
		t.Skipf("%s is not set: a failover takes seconds", disksVariable)
	}
	t.Parallel()
	c := redistest.StartCluster(t, 1)
	url := fmt.Sprintf("%s&replicas=%d", c.URL(), numberFrom(t, replicasVariable, 1))
	pick := rand.IntN(1000)
	failingOver(t, []*gateway{own(t, url), own(t, url)}, func(pause func()) {
		pick++
		loss := c.LoseMaster(t, pick)
		pause()
		loss.Repair(t)
	})
}

// failingOver is endureChaos where what was not acknowledged may be lost, so that its numbers are given again.
func failingOver(t *testing.T, gateways []*gateway, lose func(pause func())) {
	t.Helper()
	endureChaos(t, gateways, func(_ *rand.Rand, pause func()) { lose(pause) }, func(c *chaos) { c.books.anew = true })
}

func killGateway(t *testing.T, g *gateway, pause func()) {
	t.Helper()
	g.kill()
	pause()
	if err := g.start(); err != nil {
		t.Fatal(err)
	}
}

// endureChaos has clients send and receive while strike breaks something again and again, pauses and
// mends it; then it balances the books.
func endureChaos(t *testing.T, gateways []*gateway, strike func(random *rand.Rand, pause func()), options ...func(*chaos)) {
	t.Helper()
	kills, seed := numberFrom(t, killsVariable, defaultKills), numberFrom(t, seedVariable, rand.Int64())
	t.Logf("%s=%d %s=%d", killsVariable, kills, seedVariable, seed)
	e := &env{T: t, gw: gateways[0], plain: true}
	queue := e.queue(&admin.QueueProperties{
		LockDuration: new("PT5S"), MaxDeliveryCount: new(int32(2000)), EnablePartitioning: new(true),
	})

	c := &chaos{queue: queue, gateways: gateways, books: newBooks()}
	for _, o := range options {
		o(c)
	}
	sending, stopSending := context.WithCancel(t.Context())
	receiving, stopReceiving := context.WithCancel(t.Context())
	defer stopReceiving()
	defer stopSending()
	var senders, receivers sync.WaitGroup
	for n := range 4 {
		senders.Go(func() { c.keep(sending, func(ctx context.Context, s *amqp.Session) error { return c.send(ctx, s, n) }) })
		receivers.Go(func() { c.keep(receiving, c.receive) })
	}

	senders.Go(func() { c.post(sending, 4) })
	receivers.Go(func() { c.poll(receiving) })

	random := rand.New(rand.NewPCG(uint64(seed), 0))
	between := func(low, high time.Duration) time.Duration {
		return low + time.Duration(random.Int64N(int64(high-low)))
	}
	for range kills {
		time.Sleep(between(300*time.Millisecond, 2*time.Second))                // random moments are what this is about
		strike(random, func() { time.Sleep(between(0, 700*time.Millisecond)) }) // as here
	}
	for _, g := range gateways {
		e.eventually("the gateway is healthy after the last kill", func() bool { return g.health() == nil })
	}
	calm := c.books.progress() + 100
	e.eventually("messages come and go after the last kill", func() bool { return c.books.progress() >= calm })
	stopSending()
	senders.Wait()
	e.eventually("the queue is empty", func() bool { return e.runtime(queue).TotalMessageCount == 0 })
	stopReceiving()
	receivers.Wait()
	c.books.check(t, true)
}

func numberFrom(t *testing.T, variable string, otherwise int64) int64 {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// chaos is what the clients of the test share.
type chaos struct {
	queue    string
	gateways []*gateway
	books    *books

	prepare      func(m *amqp.Message, id string) // before it is sent; nil: nothing
	acknowledged func(id string)                  // nil: the books note it
	options      func() *amqp.ReceiverOptions     // nil: those of a queue without sessions
	again        chan string                      // messages whose outcome is unknown, to be sent once more; nil: they are not
	pause        time.Duration                    // after so long without a message receivers start again; 0: they do not
}

// acknowledge notes that a message was stored.
func (c *chaos) acknowledge(id string) {
	if c.acknowledged != nil {
		c.acknowledged(id)
		return
	}
	c.books.acknowledge(id)
}

// keep runs a client over one connection after the other, to any gateway,
// until ctx ends.
func (c *chaos) keep(ctx context.Context, client func(context.Context, *amqp.Session) error) {
	for ctx.Err() == nil {
		_ = c.connected(ctx, client) // that connections break is what this is about
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *chaos) connected(ctx context.Context, client func(context.Context, *amqp.Session) error) error {
	dialing, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	g := c.gateways[rand.IntN(len(c.gateways))]
	conn, err := amqp.Dial(dialing, "amqp://"+g.host, &amqp.ConnOptions{SASLType: amqp.SASLTypePlain(devPolicy, devKey)})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // it may be broken
	session, err := conn.NewSession(dialing, nil)
	if err != nil {
		return err
	}
	return client(ctx, session)
}

// send sends numbered messages, some at a time, until the link breaks or ctx
// ends. Every outcome is awaited. A message whose outcome is unknown is not
// sent again: each is stored once or not at all.
func (c *chaos) send(ctx context.Context, session *amqp.Session, who int) error {
	link, err := session.NewSender(ctx, c.queue, nil)
	if err != nil {
		return err
	}
	type flight struct {
		id      string
		receipt amqp.SendReceipt
	}
	flights := make(chan flight, 20)
	var outcomes sync.WaitGroup
	outcomes.Go(func() {
		for f := range flights {
			waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			state, err := f.receipt.Wait(waiting)
			cancel()
			if _, accepted := state.(*amqp.StateAccepted); err == nil && accepted {
				c.acknowledge(f.id)
			} else {
				select {
				case c.again <- f.id:
				default:
				}
				time.Sleep(20 * time.Millisecond) // there is no hurry while Redis is down
			}
		}
	})
	defer outcomes.Wait()
	defer close(flights)
	for ctx.Err() == nil {
		if c.books.backlog() > chaosBacklog {
			time.Sleep(10 * time.Millisecond) // while the receivers catch up
			continue
		}
		var id string
		select {
		case id = <-c.again:
		default:
			id = c.books.next(who)
		}
		m := amqp.NewMessage([]byte(id))
		if c.prepare != nil {
			c.prepare(m, id)
		}
		receipt, err := link.SendWithReceipt(ctx, m, nil)
		if err != nil {
			return err
		}
		flights <- flight{id, receipt}
	}
	return nil
}

// receive receives and completes until the link breaks or ctx ends. Every
// completion that was begun is awaited.
func (c *chaos) receive(ctx context.Context, session *amqp.Session) error {
	o := &amqp.ReceiverOptions{Credit: 50, SettlementMode: amqp.ReceiverSettleModeSecond.Ptr()}
	if c.options != nil {
		o = c.options()
	}
	link, err := session.NewReceiver(ctx, c.queue, o)
	if err != nil {
		return err
	}
	var completions sync.WaitGroup
	defer completions.Wait()
	for {
		m, err := c.next(ctx, link)
		if err != nil {
			return err
		}
		number, _ := m.Annotations["x-opt-sequence-number"].(int64)
		c.books.deliver(number, string(m.GetData()))
		completions.Go(func() {
			waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			if err := link.AcceptMessage(waiting, m); err == nil {
				c.books.complete(number)
			}
		})
	}
}

// next is the next message of a link.
func (c *chaos) next(ctx context.Context, link *amqp.Receiver) (*amqp.Message, error) {
	if c.pause > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.pause)
		defer cancel()
	}
	return link.Receive(ctx, nil)
}

// request sends an HTTP request to any gateway and returns the answer with its
// body read, or nil.
func (c *chaos) request(ctx context.Context, method, path, body string) (*http.Response, string) {
	g := c.gateways[rand.IntN(len(c.gateways))]
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+g.host+"/"+path, strings.NewReader(body))
	if err != nil {
		return nil, ""
	}
	request.Header.Set("Authorization", auth.SignSAS("http://"+g.host+"/", devPolicy, devKey, time.Now().Add(time.Hour)))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, ""
	}
	defer func() { _ = answer.Body.Close() }() // read to its end, or broken
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, ""
	}
	return answer, string(b)
}

// post sends over HTTP, one after the other.
func (c *chaos) post(ctx context.Context, who int) {
	for ctx.Err() == nil {
		id := c.books.next(who)
		// Not cancelled with ctx: the outcome is awaited.
		if a, _ := c.request(context.WithoutCancel(ctx), http.MethodPost, c.queue+"/messages", id); a != nil && a.StatusCode == http.StatusCreated {
			c.books.acknowledge(id)
			continue
		}
		time.Sleep(50 * time.Millisecond) // a client's pause before it tries again
	}
}

// poll receives and completes over HTTP, one after the other.
func (c *chaos) poll(ctx context.Context) {
	for ctx.Err() == nil {
		a, id := c.request(ctx, http.MethodPost, c.queue+"/messages/head?timeout=1", "")
		if a == nil || a.StatusCode != http.StatusCreated {
			time.Sleep(50 * time.Millisecond) // a client's pause before it tries again
			continue
		}
		var p struct{ SequenceNumber int64 }
		at, err := url.Parse(a.Header.Get("Location"))
		if err = errors.Join(err, json.Unmarshal([]byte(a.Header.Get("BrokerProperties")), &p)); err != nil {
			c.books.wrong(err)
			return
		}
		c.books.deliver(p.SequenceNumber, id)
		done, _ := c.request(context.WithoutCancel(ctx), http.MethodDelete, strings.TrimPrefix(at.EscapedPath(), "/"), "")
		if done != nil && done.StatusCode == http.StatusOK {
			c.books.complete(p.SequenceNumber)
		}
	}
}

// books are kept by the clients: what the gateways have acknowledged and
// delivered, and what they must therefore never do again.
type books struct {
	mu           sync.Mutex
	sent         [5]int           // by sender: the last number
	acknowledged map[string]bool  // by id: it was stored, says the gateway
	delivered    map[int64]string // ids by sequence number
	completed    map[int64]bool   // by sequence number: it was completed, says the gateway
	redelivered  int
	anew         bool                 // a number whose message was lost before it was acknowledged is given to another
	wants        func(id string) bool // what may be delivered; nil: everything
	session      func(id string) string
	newest       map[string]int64 // by session: the highest number that was delivered
	start        time.Time        // of a gateway, after which nothing was delivered; zero: something was
	waits        []time.Duration  // from such starts to the first delivery
	complaints   []error
}

func newBooks() *books {
	return &books{acknowledged: map[string]bool{}, delivered: map[int64]string{}, completed: map[int64]bool{}, newest: map[string]int64{}}
}

func (b *books) next(who int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent[who]++
	return fmt.Sprintf("%d/%d", who, b.sent[who])
}

// progress counts what was acknowledged and what was completed.
func (b *books) progress() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.acknowledged) + len(b.completed)
}

func (b *books) backlog() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.acknowledged) - len(b.completed)
}

func (b *books) acknowledge(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acknowledged[id] = true
}

func (b *books) deliver(number int64, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, again := b.delivered[number]
	switch {
	case b.wants != nil && !b.wants(id):
		b.complain("message %d (%s) was delivered where no rule matches it", number, id)
	case b.completed[number]:
		b.complain("message %d (%s) was delivered after its completion was acknowledged", number, id)
	case again && before != id && !b.anew:
		b.complain("number %d was given to both %s and %s", number, before, id)
	case again:
		b.redelivered++
	}
	if b.session != nil && !again {
		if s := b.session(id); number < b.newest[s] {
			b.complain("message %d of session %s was delivered after %d", number, s, b.newest[s])
		} else {
			b.newest[s] = number
		}
	}
	if !b.start.IsZero() {
		b.waits = append(b.waits, time.Since(b.start))
		b.start = time.Time{}
	}
	b.delivered[number] = id
}

func (b *books) complete(number int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.completed[number] {
		b.complain("the completion of message %d was acknowledged twice", number)
	}
	b.completed[number] = true
}

// wrong notes an answer that makes no sense.
func (b *books) wrong(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, err)
}

// complain is called with mu held.
func (b *books) complain(format string, args ...any) {
	b.complaints = append(b.complaints, fmt.Errorf(format, args...))
}

// check balances the books once the queue is empty. once says that every message
// has taken one number.
func (b *books) check(t *testing.T, once bool) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	numbers := map[string]int64{} // by id
	highest := map[int64]int64{}  // number by partition
	count := map[int64]int64{}
	for number, id := range b.delivered {
		if other, ok := numbers[id]; ok {
			b.complain("%s was sent once and stored as both %d and %d", id, other, number)
		}
		numbers[id] = number
		p := number >> 48
		highest[p] = max(highest[p], number&(1<<48-1))
		count[p]++
	}
	for id := range b.acknowledged {
		if _, ok := numbers[id]; !ok {
			b.complain("%s was acknowledged and never delivered", id)
		}
	}
	for p, n := range count {
		if once && n != highest[p] {
			b.complain("partition %d has given %d numbers to %d messages", p, highest[p], n)
		}
	}
	total := 0
	for _, n := range b.sent {
		total += n
	}
	t.Logf("sent %d, acknowledged %d, delivered %d and again %d, completed %d, in %d partitions",
		total, len(b.acknowledged), len(b.delivered), b.redelivered, len(b.completed), len(count))
	if len(b.acknowledged) == 0 || len(b.completed) == 0 {
		b.complain("nothing was acknowledged or completed")
	}
	if shown := b.complaints; len(shown) > 0 {
		t.Errorf("%d complaints: %v", len(shown), errors.Join(shown[:min(len(shown), 20)]...))
	}
}
