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

	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/eventually"
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

// A gateway with the file store is killed at random moments. What it has acknowledged is written, if
// not synced: only a loss of power could lose it.
func TestNothingAcknowledgedIsLostWhenTheFileStoreIsKilled(t *testing.T) {
	t.Parallel()
	g := own(t, "file", "--sync", cmp.Or(os.Getenv(syncVariable), "interval"))
	endure(t, []*gateway{g}, defaultKills, func(c *chance) { g.killFor(t, c.pause) })
}

// Masters of Redis die for good, with their disks, again and again; a replica takes the place of each, and an empty
// server replaces the replica. What waited for replicas is still there. E2E_CHAOS_REPLICAS=0 waits for none.
func TestNothingAcknowledgedIsLostInChaosWithAMastersDisk(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprintf("Sentinel, %d replicas", replicas), func(t *testing.T) {
			needDisks(t)
			s := redistest.StartSentinel(t, replicas)
			url := fmt.Sprintf("%s?replicas=%d", s.URL(), min(replicas, int(numberFrom(t, replicasVariable, 9))))
			gateways := []*gateway{own(t, url), own(t, url)}
			endure(t, gateways[:replicas], defaultKills, func(c *chance) {
				lost := s.LoseMaster(t)
				c.pause()
				s.Repair(t, lost)
			}, losing)
		})
	}
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprintf("Cluster, %d replicas of each master", replicas), func(t *testing.T) { // whose other partitions go on
			needDisks(t)
			c := redistest.StartCluster(t, replicas)
			url := fmt.Sprintf("%s&replicas=%d", c.URL(), numberFrom(t, replicasVariable, 1))
			endure(t, []*gateway{own(t, url), own(t, url)}, defaultKills, func(chance *chance) {
				loss := c.LoseMaster(t, chance.IntN(1000))
				chance.pause()
				loss.Repair(t)
			}, losing)
		})
	}
}

func needDisks(t *testing.T) {
	t.Helper()
	if os.Getenv(disksVariable) == "" {
		t.Skipf("%s is not set: a failover takes seconds", disksVariable)
	}
	t.Parallel()
}

// killFor kills a gateway and starts it after a pause.
func (g *gateway) killFor(t *testing.T, pause func()) {
	t.Helper()
	g.kill()
	pause()
	if err := g.start(); err != nil {
		t.Fatal(err)
	}
}

// chance chooses random moments, which are what chaos is about.
type chance struct{ *rand.Rand }

func (c *chance) between(low, high time.Duration) time.Duration {
	return low + time.Duration(c.Int64N(int64(high-low)))
}

// pause is how long something is away, until a random moment: those are what this is about.
func (c *chance) pause() { time.Sleep(c.between(0, 700*time.Millisecond)) }

// newChance tells the seed, for another run.
func newChance(t *testing.T) *chance {
	t.Helper()
	seed := numberFrom(t, seedVariable, rand.Int64())
	t.Logf("%s=%d", seedVariable, seed)
	return &chance{rand.New(rand.NewPCG(uint64(seed), 0))}
}

// losing is for stores that may lose what was not acknowledged.
func losing(k *kinds) { k.anew = true }

// endure has clients of all kinds send and receive while strike breaks something and mends it, again and again; then it
// balances the books.
func endure(t *testing.T, gateways []*gateway, otherwise int64, strike func(*chance), options ...func(*kinds)) {
	t.Helper()
	kills, chance := numberFrom(t, killsVariable, otherwise), newChance(t)
	e := &env{T: t, gw: gateways[0], plain: true}
	k := &kinds{env: e, gateways: gateways}
	for _, o := range options {
		o(k)
	}
	k.make()
	sending, stopSending := context.WithCancel(t.Context())
	receiving, stopReceiving := context.WithCancel(t.Context())
	var senders, receivers sync.WaitGroup
	defer senders.Wait()
	defer receivers.Wait()
	defer stopReceiving()
	defer stopSending()
	for _, send := range k.senders {
		senders.Go(func() { send(sending) })
	}
	for _, receive := range k.receivers {
		receivers.Go(func() { receive(receiving) })
	}
	for n := range kills {
		time.Sleep(chance.between(200*time.Millisecond, 2*time.Second)) // random moments are what this is about
		strike(chance)
		if n%10 == 9 {
			t.Logf("%d of %d", n+1, kills)
		}
	}
	for _, g := range gateways {
		e.eventually("the gateway is healthy after the last kill", func() bool { return g.health() == nil })
	}
	for _, s := range k.streams {
		calm := s.books.progress() + 20
		if !eventually.Within(patience, func() bool { return s.books.progress() >= calm }) {
			t.Fatalf("messages do not come and go after the last kill at %s, where %d wait: %s", s.queue, s.books.backlog(), k.describe(s))
		}
	}
	stopSending()
	senders.Wait()
	for _, s := range k.streams {
		// Receivers need what time they need, as long as they receive something.
		for left := s.left(); left > 0; {
			before := left
			if !eventually.Within(patience, func() bool { left = s.left(); return left < before }) {
				t.Fatalf("the last %d messages of %s are not received: %s", left, s.queue, k.describe(s))
			}
		}
	}
	stopReceiving()
	receivers.Wait()
	for _, s := range k.streams {
		t.Run(strings.ReplaceAll(s.queue, "/", " "), func(t *testing.T) { s.books.check(t, s.once) })
	}
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
	batch        int                              // messages that are sent together; 0: each alone
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
		ids     []string
		receipt amqp.SendReceipt
	}
	flights := make(chan flight, 20)
	var outcomes sync.WaitGroup
	outcomes.Go(func() {
		for f := range flights {
			waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			state, err := f.receipt.Wait(waiting)
			cancel()
			_, accepted := state.(*amqp.StateAccepted)
			for _, id := range f.ids {
				if err == nil && accepted {
					c.acknowledge(id)
					continue
				}
				select {
				case c.again <- id:
				default:
				}
			}
			if !accepted {
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
		ids, m, err := c.message(who)
		if err != nil {
			return err
		}
		receipt, err := link.SendWithReceipt(ctx, m, nil)
		if err != nil {
			return err
		}
		flights <- flight{ids, receipt}
	}
	return nil
}

// message is the next message, or batch of messages, to be sent.
func (c *chaos) message(who int) (ids []string, m *amqp.Message, err error) {
	var id string
	select {
	case id = <-c.again:
	default:
		id = c.books.next(who)
	}
	single := func(id string) *amqp.Message {
		m := amqp.NewMessage([]byte(id))
		if c.prepare != nil {
			c.prepare(m, id)
		}
		return m
	}
	if c.batch == 0 {
		return []string{id}, single(id), nil
	}
	m = &amqp.Message{Format: 0x80013700} // Service Bus' format of batches
	for range c.batch {
		b, err := single(id).MarshalBinary()
		if err != nil {
			return nil, nil, err
		}
		ids, m.Data = append(ids, id), append(m.Data, b)
		id = c.books.next(who)
	}
	c.books.together(ids)
	return ids, m, nil
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
