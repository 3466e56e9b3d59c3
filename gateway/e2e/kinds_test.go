package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"
)

// stream is where messages come out.
type stream struct {
	*chaos
	wants func(id string) bool // nil: all
	once  bool                 // each message takes one number here
	left  func() int64
	by    []string // queues through which they come, the last first
}

// kinds are entities of all kinds, with those who use them.
type kinds struct {
	*env
	gateways           []*gateway
	anew               bool // see books
	streams            []*stream
	senders, receivers []func(context.Context)
}

func (k *kinds) make() {
	patient := func(p admin.QueueProperties) *admin.QueueProperties {
		p.LockDuration, p.MaxDeliveryCount = new("PT5S"), new(int32(2000))
		return &p
	}
	out := func(address string, from ...string) *stream {
		o := &stream{chaos: &chaos{queue: address, gateways: k.gateways, books: newBooks()}, once: true}
		o.by = append([]string{address}, from...)
		o.left = func() (n int64) {
			for _, queue := range o.by {
				n += k.runtime(queue).TotalMessageCount
			}
			return n
		}
		o.books.anew = k.anew
		k.streams = append(k.streams, o)
		for range 2 {
			k.receivers = append(k.receivers, func(ctx context.Context) { o.keep(ctx, o.receive) })
		}
		return o
	}
	into := func(address string, prepare func(*amqp.Message, string), to ...*stream) *chaos {
		c := &chaos{queue: address, gateways: k.gateways, books: to[0].books, prepare: prepare}
		c.acknowledged = func(id string) {
			for _, o := range to {
				if o.wants == nil || o.wants(id) {
					o.books.acknowledge(id)
				}
			}
		}
		for n := range 2 {
			k.senders = append(k.senders, func(ctx context.Context) {
				c.keep(ctx, func(ctx context.Context, s *amqp.Session) error { return c.send(ctx, s, n) })
			})
		}
		return c
	}
	plain := k.queue(patient(admin.QueueProperties{}))
	into(plain, nil, out(plain))
	batches := k.queue(patient(admin.QueueProperties{}))
	into(batches, nil, out(batches)).batch = 7
	parted := k.queue(patient(admin.QueueProperties{EnablePartitioning: new(true)}))
	o := out(parted)
	c := into(parted, nil, o)
	k.senders = append(k.senders, func(ctx context.Context) { c.post(ctx, 2) })
	k.receivers = append(k.receivers, o.poll)

	single := k.queue(patient(admin.QueueProperties{RequiresDuplicateDetection: new(true)}))
	into(single, func(m *amqp.Message, id string) {
		m.Properties = &amqp.MessageProperties{MessageID: id}
	}, out(single)).again = make(chan string, chaosBacklog)

	inSessions := k.queue(patient(admin.QueueProperties{RequiresSession: new(true)}))
	o = out(inSessions)
	o.books.session = sessionOfID
	o.options = func() *amqp.ReceiverOptions {
		return &amqp.ReceiverOptions{
			Credit: 20, SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(),
			Filters: []amqp.LinkFilter{amqp.NewLinkFilter("com.microsoft:session-filter", 0x137000000C, nil)},
		}
	}
	o.pause = silence
	into(inSessions, func(m *amqp.Message, id string) {
		m.Properties = &amqp.MessageProperties{GroupID: new(sessionOfID(id))}
	}, o)

	later := k.queue(patient(admin.QueueProperties{}))
	o = out(later)
	o.once = false // a scheduled message has two numbers
	into(later, func(m *amqp.Message, _ string) {
		m.Annotations = amqp.Annotations{"x-opt-scheduled-enqueue-time": time.Now().Add(time.Duration(rand.IntN(800)) * time.Millisecond)}
	}, o)
	cancelled := k.queue(patient(admin.QueueProperties{}))
	o = out(cancelled)
	o.once = false // nor has one that is cancelled
	k.senders = append(k.senders, k.repeatedly(o.scheduleAndCancel))

	withState := k.queue(patient(admin.QueueProperties{RequiresSession: new(true)}))
	k.senders = append(k.senders, k.repeatedly((&sessionState{queue: withState, books: o.books}).increase))

	there := k.queue(patient(admin.QueueProperties{}))
	here := k.queue(patient(admin.QueueProperties{ForwardTo: &there}))
	o = out(there, here)
	into(here, nil, o)

	if hasProton(k.T) {
		moved := k.queue(patient(admin.QueueProperties{}))
		source := k.queue(patient(admin.QueueProperties{}))
		o = out(moved, source)
		into(source, nil, o)
		for range 2 {
			k.receivers = append(k.receivers, k.mover(source, moved))
		}
	}

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

// describe tells what is there of messages that do not come out.
func (k *kinds) describe(s *stream) (text string) {
	for _, queue := range s.by {
		text += fmt.Sprintf("\n%s", queue)
		if !strings.Contains(queue, "/") {
			text += fmt.Sprintf(": %+v", k.runtime(queue))
		}
		for _, r := range []*azservicebus.Receiver{k.receiver(queue), k.deadLetters(queue)} {
			for _, m := range k.peek(r, 0, 20) {
				text += fmt.Sprintf("\n%d %s, state %v, delivered %d times", *m.SequenceNumber, m.Body, m.State, m.DeliveryCount)
			}
		}
	}
	return text
}

// repeatedly has the SDK's client of any gateway do something again and again, until ctx ends.
func (k *kinds) repeatedly(once func(context.Context, *azservicebus.Client) error) func(context.Context) {
	var clients []*azservicebus.Client
	for _, g := range k.gateways {
		clients = append(clients, (&env{T: k.T, gw: g, plain: true}).client())
	}
	return func(ctx context.Context) {
		for ctx.Err() == nil {
			// Outcomes are awaited, but the SDK may wait for one over a connection that has ended.
			waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			_ = once(waiting, clients[rand.IntN(len(clients))]) // that it fails is what this is about
			cancel()
			time.Sleep(20 * time.Millisecond) // few are enough
		}
	}
}

// scheduleAndCancel schedules two messages, and cancels one.
func (c *chaos) scheduleAndCancel(ctx context.Context, client *azservicebus.Client) error {
	s, err := client.NewSender(c.queue, nil)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(ctx) }() // its connection may be broken
	stays, goes := c.books.next(0), c.books.next(0)
	ms := []*azservicebus.Message{{Body: []byte(stays)}, {Body: []byte(goes)}}
	numbers, err := s.ScheduleMessages(ctx, ms, time.Now().Add(3*time.Second), nil)
	if err != nil {
		return err
	}
	c.books.acknowledge(stays)
	if err = s.CancelScheduledMessages(ctx, numbers[1:], nil); err == nil {
		c.books.cancel(goes)
	}
	return err
}

// sessionState is of a session that somebody sets to ever greater numbers.
type sessionState struct {
	queue               string
	acknowledged, tried int
	books               *books
}

// increase reads the state, and sets the next one. What was acknowledged is not lost.
func (st *sessionState) increase(ctx context.Context, client *azservicebus.Client) error {
	s, err := client.AcceptSessionForQueue(ctx, st.queue, "s", nil)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(ctx) }() // its connection may be broken
	state, err := s.GetSessionState(ctx, nil)
	if err != nil {
		return err
	}
	if n, _ := strconv.Atoi(string(state)); n < st.acknowledged || n > st.tried {
		st.books.wrong(fmt.Errorf("the state of a session is %q after %d was acknowledged and %d tried", state, st.acknowledged, st.tried))
	}
	st.tried++
	if err = s.SetSessionState(ctx, []byte(strconv.Itoa(st.tried)), nil); err == nil {
		st.acknowledged = st.tried
	}
	return err
}

// mover moves messages from one queue to another, each in a transaction.
func (k *kinds) mover(from, to string) func(context.Context) {
	args := []string{filepath.Join("testdata", "proton", "mover.py"), devPolicy, devKey, from, to}
	for _, g := range k.gateways {
		args = append(args, "amqp://"+g.host)
	}
	return func(ctx context.Context) {
		said, err := exec.CommandContext(ctx, systemPython, args...).CombinedOutput()
		if ctx.Err() == nil { // else it was killed
			k.Errorf("a mover ended: %v: %s", err, said)
		}
	}
}

// isRed tells ids apart.
func isRed(id string) bool { return strings.HasSuffix(id, "1") || strings.HasSuffix(id, "3") }
