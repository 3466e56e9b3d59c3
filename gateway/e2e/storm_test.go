package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// storm lets things fail between clients and the store.
type storm struct {
	*testing.T
	redis    *redistest.Server
	proxy    *redistest.Proxy // through which gateways reach it, as the user gateway
	gateways []*gateway
	random   *rand.Rand
	happened map[string]int
}

// newStorm starts Redis and two gateways.
func newStorm(t *testing.T, seed int64) *storm {
	t.Helper()
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	s := &storm{T: t, redis: r, proxy: redistest.Proxied(t, r), random: rand.New(rand.NewPCG(uint64(seed), 0)), happened: map[string]int{}}
	s.user("on", ">secret", "~*", "&*", "+@all")
	u, err := url.Parse(s.proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("gateway", "secret")
	s.gateways = []*gateway{own(t, u.String()), own(t, u.String())}
	return s
}

// user gives Redis' user gateway these rules.
func (s *storm) user(rules ...string) {
	s.Helper()
	args := []any{"ACL", "SETUSER", "gateway"}
	for _, r := range rules {
		args = append(args, r)
	}
	if err := s.redis.Client().Do(s.Context(), args...).Err(); err != nil {
		s.Fatal(err)
	}
}

// expel ends the connections of the user, so that new ones are set up.
func (s *storm) expel() {
	s.Helper()
	if err := s.redis.Client().Do(s.Context(), "CLIENT", "KILL", "USER", "gateway").Err(); err != nil {
		s.Fatal(err)
	}
}

func (s *storm) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.random.Int64N(int64(high-low)))
}

// strike has something fail for a while.
func (s *storm) strike() {
	s.Helper()
	last := func() { time.Sleep(s.between(50*time.Millisecond, 700*time.Millisecond)) } // random moments are what this is about
	kinds := []string{"gateway killed", "Redis killed", "WRONGPASS", "NOPERM", "reset during the set-up", "connections broken"}
	kind := kinds[s.random.IntN(len(kinds))]
	s.happened[kind]++
	switch kind {
	case "gateway killed":
		g := s.gateways[s.random.IntN(len(s.gateways))]
		g.kill()
		last()
		if err := g.start(); err != nil {
			s.Fatal(err)
		}
	case "Redis killed":
		s.redis.Kill()
		last()
		s.redis.Restart(s.T)
		last() // in which it does not know its user
		s.user("on", ">secret", "~*", "&*", "+@all")
	case "WRONGPASS":
		s.user("resetpass", ">another")
		s.expel()
		last()
		s.user("resetpass", ">secret")
	case "NOPERM":
		s.user("-@all")
		s.expel()
		last()
		s.user("+@all")
	case "reset during the set-up":
		var mu sync.Mutex
		dice := rand.New(rand.NewPCG(s.random.Uint64(), 0))
		began := map[int]int{} // requests by connection
		s.proxy.Meddle(func(q redistest.Request) error {
			mu.Lock()
			defer mu.Unlock()
			if began[q.Connection]++; began[q.Connection] <= 3 && dice.IntN(2) == 0 {
				return errors.New("reset")
			}
			return nil
		})
		s.proxy.Break()
		last()
		s.proxy.Meddle(nil)
	default:
		s.proxy.Break()
	}
}

// stream is where messages come out.
type stream struct {
	*chaos
	wants func(id string) bool // nil: all
	once  bool                 // each message takes one number here
	left  func() int64
}

// A message that was acknowledged comes out of every kind of entity, once by its
// number, and not again once its completion was acknowledged, whatever fails.
func TestBooksBalanceOverAllKindsOfEntities(t *testing.T) {
	t.Parallel()
	faults, seed := numberFrom(t, killsVariable, 5), numberFrom(t, seedVariable, rand.Int64())
	t.Logf("%s=%d %s=%d", killsVariable, faults, seedVariable, seed)
	s := newStorm(t, seed)
	e := &env{T: t, gw: s.gateways[0], plain: true}
	k := kinds{env: e, gateways: s.gateways}
	k.make()

	sending, stopSending := context.WithCancel(t.Context())
	receiving, stopReceiving := context.WithCancel(t.Context())
	defer stopReceiving()
	defer stopSending()
	var senders, receivers sync.WaitGroup
	for _, c := range k.sources {
		for n := range 2 {
			senders.Go(func() { c.keep(sending, func(ctx context.Context, s *amqp.Session) error { return c.send(ctx, s, n) }) })
		}
	}
	for _, out := range k.streams {
		for range 2 {
			receivers.Go(func() { out.keep(receiving, out.receive) })
		}
	}
	for range faults {
		time.Sleep(s.between(200*time.Millisecond, 1500*time.Millisecond)) // random moments are what this is about
		s.strike()
	}
	for _, g := range s.gateways {
		e.eventually("the gateway is healthy after the last fault", func() bool { return g.health() == nil })
	}
	progress := func() (n int) {
		for _, out := range k.streams {
			n += out.books.progress()
		}
		return n
	}
	calm := progress() + 100
	e.eventually("messages come and go after the last fault", func() bool { return progress() >= calm })
	stopSending()
	senders.Wait()
	for _, out := range k.streams {
		e.eventually(out.queue+" is empty", func() bool { return out.left() == 0 })
	}
	stopReceiving()
	receivers.Wait()
	t.Logf("faults: %v", s.happened)
	for _, out := range k.streams {
		t.Run(strings.ReplaceAll(out.queue, "/", " "), func(t *testing.T) { out.books.check(t, out.once) })
	}
}

// kinds are entities of all kinds, with those who use them.
type kinds struct {
	*env
	gateways []*gateway
	sources  []*chaos
	streams  []*stream
}

func (k *kinds) make() {
	patient := func(p admin.QueueProperties) *admin.QueueProperties {
		p.LockDuration, p.MaxDeliveryCount = new("PT5S"), new(int32(2000))
		return &p
	}
	out := func(address string) *stream {
		o := &stream{chaos: &chaos{queue: address, gateways: k.gateways, books: newBooks()}, once: true}
		o.left = func() int64 { return k.runtime(address).TotalMessageCount }
		k.streams = append(k.streams, o)
		return o
	}
	into := func(address string, prepare func(*amqp.Message, string), to ...*stream) {
		c := &chaos{queue: address, gateways: k.gateways, books: to[0].books, prepare: prepare}
		c.acknowledged = func(id string) {
			for _, o := range to {
				if o.wants == nil || o.wants(id) {
					o.books.acknowledge(id)
				}
			}
		}
		k.sources = append(k.sources, c)
	}
	plain := k.queue(patient(admin.QueueProperties{}))
	into(plain, nil, out(plain))
	parted := k.queue(patient(admin.QueueProperties{EnablePartitioning: new(true)}))
	into(parted, nil, out(parted))

	single := k.queue(patient(admin.QueueProperties{RequiresDuplicateDetection: new(true)}))
	into(single, func(m *amqp.Message, id string) {
		m.Properties = &amqp.MessageProperties{MessageID: id}
	}, out(single))
	k.sources[len(k.sources)-1].again = make(chan string, chaosBacklog)

	inSessions := k.queue(patient(admin.QueueProperties{RequiresSession: new(true)}))
	o := out(inSessions)
	o.options = func() *amqp.ReceiverOptions {
		return &amqp.ReceiverOptions{
			Credit: 20, SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(),
			Filters: []amqp.LinkFilter{amqp.NewLinkFilter("com.microsoft:session-filter", 0x137000000C, nil)},
		}
	}
	o.pause = silence
	into(inSessions, func(m *amqp.Message, id string) {
		m.Properties = &amqp.MessageProperties{GroupID: new("session " + id[len(id)-1:])}
	}, o)

	later := k.queue(patient(admin.QueueProperties{}))
	o = out(later)
	o.once = false // a scheduled message has two numbers
	into(later, func(m *amqp.Message, _ string) {
		m.Annotations = amqp.Annotations{"x-opt-scheduled-enqueue-time": time.Now().Add(time.Duration(rand.IntN(800)) * time.Millisecond)}
	}, o)

	there := k.queue(patient(admin.QueueProperties{}))
	here := k.queue(patient(admin.QueueProperties{ForwardTo: &there}))
	o = out(there)
	o.left = func() int64 { return k.runtime(here).TotalMessageCount + k.runtime(there).TotalMessageCount }
	into(here, nil, o)

	topic := k.topic(nil)
	var copies []*stream
	for name, rules := range map[string][]admin.RuleProperties{"all": nil, "red": {{Name: "red", Filter: &admin.SQLFilter{Expression: "colour = 'red'"}}}} {
		k.subscribe(topic, name, &admin.SubscriptionProperties{LockDuration: new("PT5S"), MaxDeliveryCount: new(int32(2000))}, rules...)
		o := out(topic + "/subscriptions/" + name)
		o.left = func() int64 {
			p, err := k.admin().GetSubscriptionRuntimeProperties(k.ctx(), topic, name, nil)
			if err != nil || p == nil {
				k.Fatalf("runtime properties of %s: %v", name, err)
			}
			return int64(p.TotalMessageCount)
		}
		if rules != nil {
			o.wants = isRed
		}
		o.books.wants = o.wants
		copies = append(copies, o)
	}
	into(topic, func(m *amqp.Message, id string) {
		m.ApplicationProperties = map[string]any{"colour": map[bool]string{true: "red", false: "blue"}[isRed(id)]}
	}, copies...)
}

// isRed tells ids apart.
func isRed(id string) bool { return strings.HasSuffix(id, "1") || strings.HasSuffix(id, "3") }
