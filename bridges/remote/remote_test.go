package remote

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/storetest"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

func properties(t *testing.T, pairs ...core.Property) core.Properties {
	t.Helper()
	p, err := core.NewProperties(pairs...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// section is an encoded section of a message.
func section(t *testing.T, descriptor uint64, v any) []byte {
	t.Helper()
	b, err := value.Append(nil, value.Described{Descriptor: descriptor, Value: v})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// every is messages with all that a message can have, one for each kind of body.
func every(t *testing.T) []*core.Message {
	t.Helper()
	large := bytes.Repeat([]byte("x"), 150<<10) // more than a frame
	bodies := []core.Body{
		{Bytes: []byte("data")},
		{Bytes: large},
		{},
		{Kind: core.BodyValue, Bytes: section(t, 0x77, value.Map{{Key: "char", Value: value.Char('ß')}})},
		{Kind: core.BodyValue, Bytes: section(t, 0x77, value.Decimal128{15: 1})},
		{Kind: core.BodySequence, Bytes: section(t, 0x76, value.List{int8(1), nil})},
		{Kind: core.BodyDataSections, Bytes: append(section(t, 0x75, []byte("a")), section(t, 0x75, []byte("b"))...)},
	}
	var ms []*core.Message
	for i, body := range bodies {
		ms = append(ms, &core.Message{
			MessageID: core.UUIDID([16]byte{byte(i + 1)}), CorrelationID: core.ULongID(42), UserID: []byte("user"),
			To: "to", Subject: "subject", ReplyTo: "reply", ContentType: "text/plain", ContentEncoding: "gzip",
			SessionID: "s", ReplyToSessionID: "rs", PartitionKey: "s",
			GroupSequence: value.Some(uint32(7)), CreationTime: time.UnixMilli(1000).UTC(), TimeToLive: 70 * 24 * time.Hour,
			Durable: value.Some(true), Priority: value.Some(uint8(3)),
			Annotations:         properties(t, core.Property{Key: "own", Value: value.List{int32(1), nil}}),
			DeliveryAnnotations: properties(t, core.Property{Key: "next", Value: true}),
			Properties: properties(t, core.Property{Key: "decimal", Value: value.Decimal32{1}}, core.Property{Key: "char", Value: value.Char('x')},
				core.Property{Key: "symbol", Value: value.Symbol("s")}, core.Property{Key: "null", Value: nil}, core.Property{Key: "when", Value: value.Timestamp(7)},
				core.Property{Key: "span", Value: value.Described{Descriptor: value.Symbol("com.microsoft:timespan"), Value: int64(5)}}),
			Body: body,
		})
	}
	return ms
}

// checkEvery compares what arrived with every.
func checkEvery(t *testing.T, got []core.Delivery) {
	t.Helper()
	want := every(t)
	if len(got) != len(want) {
		t.Fatalf("%d messages arrived, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := *got[i].Message
		hops, _ := g.Annotations.Get(core.AnnotationHops)
		if hops != uint8(1) {
			t.Errorf("message %d: hops %v, want 1", i, hops)
		}
		if !bytes.Equal(g.Body.Bytes, w.Body.Bytes) || g.Body.Kind != w.Body.Kind {
			t.Errorf("message %d: body %v %.60x, want %v %.60x", i, g.Body.Kind, g.Body.Bytes, w.Body.Kind, w.Body.Bytes)
		}
		own, _ := g.Annotations.Get("own")
		next, _ := g.DeliveryAnnotations.Get("next")
		if !bytes.Equal(g.Properties.Encoded(), w.Properties.Encoded()) || !value.Equal(own, value.List{int32(1), nil}) || g.Annotations.Len() != 2 || next != true {
			t.Errorf("message %d: properties or annotations: got %x, %x, %x", i, g.Properties.Encoded(), g.Annotations.Encoded(), g.DeliveryAnnotations.Encoded())
		}
		if g.TimeToLive != w.TimeToLive {
			t.Errorf("message %d: lives %v, want %v", i, g.TimeToLive, w.TimeToLive)
		}
		told := func(m *core.Message) string {
			return fmt.Sprint(m.MessageID, m.CorrelationID, m.UserID, m.To, m.Subject, m.ReplyTo, m.ContentType, m.ContentEncoding, m.SessionID, m.ReplyToSessionID, m.PartitionKey, m.GroupSequence, m.Durable, m.Priority)
		}
		if told(&g) != told(w) {
			t.Errorf("message %d: got %s\nwant %s", i, told(&g), told(w))
		}
	}
}

func TestMessagesArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Options){
		"in batches": func(*Options) {},
		"singly":     func(o *Options) { o.Batches = false },
		"with PLAIN": func(o *Options) { o.User, o.Password, o.Policy, o.Key = o.Policy, o.Key, "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there, _ := pair(t, change)
			there.create(t, "orders")
			here.create(t, "q", forwardTo("hq:orders"))
			here.send(t, "q", every(t)...)
			checkEvery(t, there.all(t, "orders", 7))
		})
	}
}

func TestMessagesArePulledAsTheyAre(t *testing.T) {
	t.Parallel()
	there := newSite(t, nil)
	there.create(t, "orders")
	here := newSite(t, nil)
	here.create(t, "local", func(s *core.Settings) { s.EnablePartitioning = true })
	hq := New(there.options(func(o *Options) { o.Pulls = []Pull{{"orders", "local"}} }))
	here.runs(t, hq)
	there.send(t, "orders", every(t)...)
	checkEvery(t, here.all(t, "local", 7))
	there.empties(t, "orders")
	if s := hq.State(); !s.Connected || s.Sources[0].Received != 7 || !s.Sources[0].Attached {
		t.Errorf("state %+v, want 7 messages received", s)
	}
}

// empties waits until an address holds nothing.
func (s *site) empties(t *testing.T, address string) {
	t.Helper()
	eventually.True(t, address+" holds nothing any more", func() bool { return len(s.all(t, address, 0)) == 0 })
}

// With the link cut again and again every message arrives once where the target
// detects duplicates, and each session in its order.
func TestNothingIsLostOrDoubledWhileTheLinkIsCut(t *testing.T) {
	t.Parallel()
	for name, batches := range map[string]bool{"in batches": true, "singly": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const messages, perSend, sessions = 1200, 60, 9
			here, there, hq := pair(t, func(o *Options) { o.Batches = batches })
			there.create(t, "orders", detecting)
			here.create(t, "q", forwardTo("hq:orders"))
			there.way.storm()
			for sent := 0; sent < messages; sent += perSend {
				ms := numbered(sent, perSend)
				for i, m := range ms {
					if n := sent + i; n%3 > 0 {
						m.SessionID = fmt.Sprint("s", n%sessions)
					}
				}
				here.send(t, "q", ms...)
			}
			there.arrive(t, "orders", messages/2)
			t.Logf("cut %d times", there.way.calm())
			here.empties(t, "q")
			last, counts := map[string]int{}, map[string]int{}
			for _, d := range there.all(t, "orders", messages) {
				counts[string(d.Body.Bytes)]++
				var n int
				_, _ = fmt.Sscan(string(d.Body.Bytes), &n)
				if before, ok := last[d.SessionID]; ok && d.SessionID != "" && n < before {
					t.Errorf("message %d of session %s came after %d", n, d.SessionID, before)
				}
				last[d.SessionID] = n
			}
			for i := range messages {
				if n := counts[fmt.Sprint(i)]; n != 1 {
					t.Errorf("message %d arrived %d times", i, n)
				}
			}
			t.Logf("state: %+v", hq.State())
		})
	}
}

func TestPullingLosesAndDoublesNothingWhileTheLinkIsCut(t *testing.T) {
	t.Parallel()
	const messages = 800
	there := newSite(t, nil)
	there.create(t, "orders", func(s *core.Settings) { s.LockDuration, s.MaxDeliveryCount = 5*time.Second, 1000 })
	here := newSite(t, nil)
	here.create(t, "local", func(s *core.Settings) { s.EnablePartitioning = true })
	hq := New(there.options(func(o *Options) { o.Window, o.Pulls = 20, []Pull{{"orders", "local"}} }))
	here.runs(t, hq)
	there.way.storm()
	for sent := 0; sent < messages; sent += 40 {
		there.send(t, "orders", numbered(sent, 40)...)
	}
	here.arrive(t, "local", messages/2)
	t.Logf("cut %d times", there.way.calm())
	there.empties(t, "orders")
	counts := map[string]int{}
	for _, d := range here.all(t, "local", messages) {
		counts[string(d.Body.Bytes)]++
	}
	for i := range messages {
		if n := counts[fmt.Sprint(i)]; n != 1 {
			t.Errorf("message %d arrived %d times", i, n)
		}
	}
}

func TestWhatEitherSideWillNeverTakeIsParked(t *testing.T) {
	t.Parallel()
	there := newSite(t, nil)
	here := newSite(t, nil)
	there.create(t, "strict", func(s *core.Settings) { s.RequiresSession = true })
	there.create(t, "source", func(s *core.Settings) { s.MaxMessageSizeInKilobytes = 1024 })
	here.create(t, "small")
	hq := New(there.options(func(o *Options) { o.Pulls = []Pull{{"source", "small"}} }))
	here.runs(t, hq)
	away := newSite(t, map[string]core.Remote{"hq": hq})
	away.create(t, "q", forwardTo("hq:strict"))
	away.send(t, "q", append(numbered(0, 3), every(t)[0])...)
	parked := away.all(t, "q/$Transfer/$DeadLetterQueue", 3)
	if len(parked) != 3 {
		t.Fatalf("%d messages are parked, want 3", len(parked))
	}
	why, _ := parked[0].Properties.Get(core.PropertyDeadLetterDescription)
	if !strings.Contains(fmt.Sprint(why), "The remote 'hq' rejected the message: amqp:not-allowed: The SessionId was not set") {
		t.Errorf("parked because: %v", why)
	}
	if got := there.all(t, "strict", 1); len(got) != 1 {
		t.Errorf("%d messages arrived, want the one with a session", len(got))
	}

	large := text("large")
	large.Body.Bytes = make([]byte, 300_000)
	there.send(t, "source", large, text("fits"))
	if got := here.all(t, "small", 1); len(got) != 1 || string(got[0].Body.Bytes) != "fits" {
		t.Errorf("pulled %v, want what fits", got)
	}
	dead := there.all(t, "source/$DeadLetterQueue", 1)
	if len(dead) != 1 {
		t.Fatalf("%d dead letters, want 1", len(dead))
	}
	why, _ = dead[0].Properties.Get(core.PropertyDeadLetterDescription)
	if !strings.Contains(fmt.Sprint(why), "exceeds the limit of 262144 bytes") {
		t.Errorf("rejected because: %v", why)
	}
}

// A way that swallows everything without a word is found out by its silence.
func TestASilentLinkIsGivenUp(t *testing.T) {
	t.Parallel()
	here, there, hq := pair(t, func(o *Options) { o.idle = time.Second })
	there.create(t, "orders", detecting)
	here.create(t, "q", forwardTo("hq:orders"))
	here.send(t, "q", numbered(0, 10)...)
	there.all(t, "orders", 10)
	there.way.swallow(true)
	here.send(t, "q", numbered(10, 10)...)
	eventually.True(t, "the remote counts as away", func() bool { return !hq.State().Connected })
	there.way.swallow(false)
	there.way.cut(false)
	here.empties(t, "q")
	got := there.all(t, "orders", 20)
	if len(got) != 20 {
		t.Errorf("%d messages arrived, want 20", len(got))
	}
}

func TestAnEntityThatIsMissingThereIsWaitedFor(t *testing.T) {
	t.Parallel()
	here, there, hq := pair(t)
	there.create(t, "other")
	here.create(t, "q", forwardTo("hq:orders"))
	here.create(t, "p", forwardTo("hq:other"))
	here.send(t, "q", numbered(0, 5)...)
	here.send(t, "p", numbered(0, 5)...)
	there.all(t, "other", 5)
	eventually.True(t, "the state has an error that names the entity", func() bool { return strings.Contains(hq.State().Error, "orders") })
	there.create(t, "orders")
	if got := there.all(t, "orders", 5); len(got) != 5 {
		t.Errorf("%d messages arrived, want 5", len(got))
	}
	here.empties(t, "q/$Transfer/$DeadLetterQueue")
}

func TestRemoteStateCountsSentMessages(t *testing.T) {
	t.Parallel()
	here, there, hq := pair(t)
	there.create(t, "orders")
	here.create(t, "q", forwardTo("hq:orders"))
	here.send(t, "q", numbered(0, 25)...)
	there.all(t, "orders", 25)
	here.empties(t, "q")
	s := hq.State()
	if !s.Connected || s.Window != DefaultWindow || len(s.Targets) != 1 || s.Targets[0].Sent != 25 || s.Targets[0].UnderWay != 0 || s.Targets[0].RoundTrip <= 0 {
		t.Errorf("state %+v, want 25 messages sent", s)
	}
}

// A remote proves who it is when it connects, so that its connection is kept while it has nothing to send. Where it cannot it
// connects when it has something to send.
func TestAConnectionWithNothingToSendIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Options)
		local  func(here *broker.Broker) // makes what is forwarded
		kept   bool
	}{
		"policy of the namespace":           {func(*Options) {}, nil, true},
		"policy of an entity, forwarded to": {ofOrders, func(here *broker.Broker) { forwarding(t, here, "q", "hq:orders") }, true},
		"policy of an entity, among others": {ofOrders, func(here *broker.Broker) {
			forwarding(t, here, "p", "hq:prices")
			forwarding(t, here, "q", "HQ:Orders")
		}, true},
		"policy of an entity, named":     {func(o *Options) { ofOrders(o); o.Entity = "orders" }, nil, true},
		"policy of an entity, pulled":    {func(o *Options) { ofOrders(o); o.Pulls = []Pull{{"orders", "q"}} }, nil, true},
		"policy of an unknown entity":    {ofOrders, nil, false},
		"wrong key":                      {func(o *Options) { o.Key = "wrong" }, nil, false},
		"another entity is forwarded to": {ofOrders, func(here *broker.Broker) { forwarding(t, here, "q", "hq:prices") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var tasks sync.WaitGroup
				there := broker.New(memory.New(memory.Options{}), broker.Options{Namespace: "ns"})
				settings := core.DefaultSettings(core.Queue)
				settings.AuthorizationRules = []core.AccessRule{{Name: "branch", PrimaryKey: "its key", Rights: core.Send | core.Listen}}
				if _, err := there.CreateEntity(ctx, root, core.Queue, "orders", settings, nil); err != nil {
					t.Fatal(err)
				}
				authority := auth.New(auth.Options{
					Policies: []core.AccessRule{{Name: "root", PrimaryKey: "key", Rights: core.AllRights}},
					Entities: func(ctx context.Context, name string) (core.Entity, error) {
						e, err := there.Resolve(ctx, root, core.At(name))
						return e, err
					},
				})
				bridge := amqp.New(there, authority, amqp.Options{DrainGrace: time.Millisecond})
				dials := 0
				o := Options{Name: "hq", Host: "localhost", Policy: "root", Key: "key", Dial: func(context.Context) (net.Conn, error) {
					near, far := net.Pipe()
					dials++
					tasks.Go(func() { _ = bridge.ServeConn(ctx, far) })
					return near, nil
				}}
				c.change(&o)
				r := New(o)
				here := broker.New(memory.New(memory.Options{}), broker.Options{Namespace: "ns", Remotes: map[string]core.Remote{"hq": r}})
				if c.local != nil {
					c.local(here)
				}
				tasks.Go(func() { _ = there.Run(ctx) })
				tasks.Go(func() {
					_ = r.Run(ctx, Local{Broker: here, Identity: root, ForwardedTo: here.ForwardedTo, Forget: here.Forget})
				})
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if state := r.State(); dials != 1 || state.Connected != c.kept || !c.kept && !strings.Contains(state.Error, "401") {
					t.Errorf("after 10 minutes: connected %d times, now %+v", dials, state)
				}
				if o.Key != "wrong" {
					for _, err := range r.Send(ctx, "orders", []*core.Message{text("m")}) {
						if kept := err == nil; kept != c.kept {
							t.Errorf("a message to orders: %v", err)
						}
					}
					time.Sleep(time.Minute)
					if err := r.Send(ctx, "orders", []*core.Message{text("n")})[0]; err != nil || !r.State().Connected {
						t.Errorf("a message to orders, the second time: %v, %+v", err, r.State())
					}
				}
				cancel()
				tasks.Wait()
			})
		})
	}
}

// ofOrders has the remote use the policy of the queue orders.
func ofOrders(o *Options) { o.Policy, o.Key = "branch", "its key" }

func forwarding(t *testing.T, b *broker.Broker, name, to string) {
	t.Helper()
	settings := core.DefaultSettings(core.Queue)
	settings.ForwardTo = to
	if _, err := b.CreateEntity(t.Context(), root, core.Queue, name, settings, nil); err != nil {
		t.Fatal(err)
	}
}

func TestAWrongKeyKeepsTheRemoteAway(t *testing.T) {
	t.Parallel()
	here, there, hq := pair(t, func(o *Options) { o.Key = "wrong" })
	there.create(t, "orders")
	here.create(t, "q", forwardTo("hq:orders"))
	here.send(t, "q", numbered(0, 1)...)
	eventually.True(t, "the state has an error with 401", func() bool { return strings.Contains(hq.State().Error, "401") })
	if got := here.all(t, "q", 1); len(got) != 1 {
		t.Errorf("q holds %d messages, want 1", len(got))
	}
}

func TestTheConditionsOfARejection(t *testing.T) {
	t.Parallel()
	if !slices.ContainsFunc(core.Codes(), func(c core.Code) bool { return isHopeless(c) }) {
		t.Error("nothing is hopeless")
	}
	for condition, code := range hopeless {
		if !isHopeless(code) {
			t.Errorf("%s: %s is not hopeless", condition, code)
		}
	}
}

func TestAMessageIsBlamedForTheEndOfItsLink(t *testing.T) {
	t.Parallel()
	r := New(Options{Name: "hq"})
	for _, c := range []struct {
		err  error
		want core.Code
	}{
		{&goamqp.LinkError{RemoteErr: &goamqp.Error{Condition: goamqp.ErrCondMessageSizeExceeded}}, core.TooLarge},
		{&goamqp.SessionError{RemoteErr: &goamqp.Error{Condition: goamqp.ErrCondPreconditionFailed}}, core.NotAllowed},
		{&goamqp.ConnError{RemoteErr: &goamqp.Error{Condition: goamqp.ErrCondDecodeError}}, core.InvalidArgument},
		{&goamqp.LinkError{RemoteErr: &goamqp.Error{Condition: goamqp.ErrCondNotAllowed}}, ""},
		{&goamqp.LinkError{RemoteErr: &goamqp.Error{Condition: goamqp.ErrCondDetachForced}}, ""},
		{&goamqp.ConnError{}, ""},
	} {
		if got := core.CodeOf(r.blame(c.err)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}

// While the queue here is full messages stay at the source, and their deliveries
// do not count: none is dead-lettered there.
func TestMessagesStayThereWhileTheQueueHereIsFull(t *testing.T) {
	t.Parallel()
	const messages = 30 // of 100 KB
	there := newSiteAt(t, nil, storetest.NewClock().Now)
	there.create(t, "source", func(s *core.Settings) { s.LockDuration, s.MaxDeliveryCount = 5*time.Second, 1 })
	here := newSite(t, nil)
	here.create(t, "local", func(s *core.Settings) { s.MaxSizeInMegabytes = 1 })
	hq := New(there.options(func(o *Options) {
		o.Pulls, o.patience = []Pull{{"source", "local"}}, 100*time.Millisecond
	}))
	here.runs(t, hq)
	ms := numbered(0, messages)
	for _, m := range ms {
		m.Body.Bytes = append(m.Body.Bytes, make([]byte, 100<<10)...)
	}
	there.send(t, "source", ms...)
	eventually.True(t, "what finds no room is unlocked there", func() bool { // before its lock ends: the clock there stands still
		isLocked := func(d core.Delivery) bool { return !d.LockedUntil.IsZero() }
		return hq.State().Sources[0].Error != "" && !slices.ContainsFunc(there.all(t, "source", 0), isLocked)
	})
	if got := here.all(t, "local", 0); len(got) == 0 || len(got) == messages {
		t.Errorf("%d messages are here, want as many as there is room for", len(got))
	}
	got := map[string]int{}
	in, err := here.OpenReceiver(t.Context(), root, core.At("local"), core.ReceiverOptions{Mode: core.ReceiveAndDelete, Deliver: func(ds []core.Delivery) {
		for _, d := range ds {
			got[d.MessageID.String()]++
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	in.AddCredit(2*messages, core.AnyMessage)
	there.empties(t, "source")
	here.empties(t, "local")
	in.Close()
	if dead := there.all(t, "source/$DeadLetterQueue", 0); len(got) != messages || len(dead) != 0 {
		t.Errorf("%d messages came and %d died, want %d and 0", len(got), len(dead), messages)
	}
}

// While others hold the gateway's memory, a pull asks the remote for nothing.
func TestAPullWaitsForMemory(t *testing.T) {
	t.Parallel()
	there, here := newSite(t, nil), newSite(t, nil)
	there.create(t, "orders")
	here.create(t, "local")
	there.send(t, "orders", numbered(0, 10)...)
	pool := fair.New(1<<20, nil, nil)
	others := pool.Share(nil)
	others.Join(fair.Who{Namespace: "others"})
	others.Add(1 << 20)
	here.runsWithin(t, New(there.options(func(o *Options) { o.Pulls = []Pull{{"orders", "local"}} })), pool)
	eventually.True(t, "the pull waits for memory", func() bool { return pool.Stats().Waiting == 1 })
	if ds := there.all(t, "orders", 10); len(ds) != 10 || ds[0].DeliveryCount != 0 {
		t.Errorf("got %d messages there, want 10 that nobody was delivered", len(ds))
	}
	others.Release()
	here.arrive(t, "local", 10)
	eventually.True(t, "the pull gives its memory back", func() bool { return pool.Stats().Held == 0 })
}
