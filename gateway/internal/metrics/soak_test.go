package metrics_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/gateway/internal/metrics"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// The entities of a soak. Messages are sent to the first ones; those of the
// subscription named all get every message of their topic.
var (
	soakSends = []string{"plain", "ids", "sessions", "from", "bury", "brief", "topic"}
	soakTakes = []string{
		"plain", "plain/$DeadLetterQueue", "ids", "sessions", "sessions/$DeadLetterQueue", "to", "graves", "brief", "brief/$DeadLetterQueue",
		"topic/Subscriptions/all", "topic/Subscriptions/all/$DeadLetterQueue", "topic/Subscriptions/some",
	}
)

// entitiesOfSoak makes them.
func (r *rig) entitiesOfSoak(t *testing.T) {
	t.Helper()
	expires := func(s *core.Settings) { s.DeadLetteringOnMessageExpiration = true }
	r.create(t, "plain", func(s *core.Settings) { s.EnablePartitioning, s.MaxDeliveryCount = true, 3 })
	r.create(t, "ids", func(s *core.Settings) { s.RequiresDuplicateDetection, s.EnablePartitioning = true, true })
	r.create(t, "sessions", func(s *core.Settings) { s.RequiresSession, s.MaxDeliveryCount = true, 2 })
	r.create(t, "to")
	r.create(t, "from", func(s *core.Settings) { s.ForwardTo = "to" })
	r.create(t, "graves", expires) // once more, with the same time to live
	r.create(t, "bury", expires, func(s *core.Settings) { s.ForwardDeadLetteredMessagesTo = "graves" })
	r.create(t, "brief", expires)
	if _, err := r.CreateEntity(t.Context(), root, core.Topic, "topic", core.DefaultSettings(core.Topic), nil); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*core.Settings){
		"all":    func(s *core.Settings) { s.MaxDeliveryCount = 2 },
		"some":   func(*core.Settings) {},
		"onward": func(s *core.Settings) { s.ForwardTo = "to" },
	} {
		s := core.DefaultSettings(core.Subscription)
		change(&s)
		var rule *core.Rule
		if name == "some" {
			rule = &core.Rule{Name: "some", Filter: core.Filter{Kind: core.SQLFilter, SQL: "sys.Label = 'odd'"}}
		}
		if _, err := r.CreateEntity(t.Context(), root, core.Subscription, "topic/Subscriptions/"+name, s, rule); err != nil {
			t.Fatal(err)
		}
	}
}

// soaker sends and receives in every way that there is.
type soaker struct {
	*rig
	*rand.Rand
	pause     time.Duration // for messages to come
	life      time.Duration // of messages that expire; also how long schedules wait at most
	scheduled map[string][]int64
}

// soak has workers do so.
func (r *rig) soak(t *testing.T, workers uint64, rounds int, pause, life time.Duration) {
	r.entitiesOfSoak(t)
	var work sync.WaitGroup
	for i := range workers {
		work.Go(func() {
			s := &soaker{r, rand.New(rand.NewPCG(i, 1)), pause, life, map[string][]int64{}}
			for range rounds {
				s.send(t)
				s.cancel(t)
				s.receive(t)
			}
		})
	}
	work.Wait()
}

func (s *soaker) message(to string) *core.Message {
	m := &core.Message{Subject: []string{"odd", "even"}[s.IntN(2)]}
	if to == "ids" {
		m.MessageID = core.StringID(fmt.Sprint(s.IntN(60)))
	}
	if to == "sessions" {
		m.SessionID = fmt.Sprint(s.IntN(5))
	}
	if (to == "brief" || to == "bury") && s.IntN(2) == 0 {
		m.TimeToLive = s.life
	}
	if s.IntN(4) == 0 {
		m.ScheduledEnqueueTime = s.store.Now().Add(time.Duration(s.Int64N(int64(s.life))))
	}
	return m
}

func (s *soaker) send(t *testing.T) {
	to := soakSends[s.IntN(len(soakSends))]
	sender, err := s.front.OpenSender(t.Context(), root, core.At(to), nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer sender.Close()
	var groups [][]*core.Message
	for range 1 + s.IntN(10) {
		group := []*core.Message{s.message(to)}
		for to != "ids" && s.IntN(3) == 0 {
			m := s.message(to)
			m.SessionID = group[0].SessionID
			group = append(group, m)
		}
		groups = append(groups, group)
	}
	for i, a := range sender.Send(t.Context(), groups) {
		if a.Err != nil {
			t.Errorf("send to %s: %v", to, a.Err)
		}
		for j, number := range a.Numbers {
			if !groups[i][j].ScheduledEnqueueTime.IsZero() && number != 0 {
				s.scheduled[to] = append(s.scheduled[to], number)
			}
		}
	}
}

// cancel cancels one message that may be due already.
func (s *soaker) cancel(t *testing.T) {
	for to, numbers := range s.scheduled {
		if n := len(numbers); n > 0 && s.IntN(3) == 0 {
			_ = s.front.Cancel(t.Context(), root, core.At(to), numbers[n-1:]) // it may be too late
			s.scheduled[to] = numbers[:n-1]
		}
	}
}

func (s *soaker) receive(t *testing.T) {
	address := soakTakes[s.IntN(len(soakTakes))]
	var settled sync.WaitGroup
	o := core.ReceiverOptions{Mode: core.ReceiveMode(s.IntN(2))}
	outcomes := rand.New(rand.NewPCG(s.Uint64(), 2))
	o.Deliver = func(ds []core.Delivery) {
		var all []core.Settlement
		for _, d := range ds {
			if o.Mode == core.PeekLock && outcomes.IntN(8) > 0 { // else its lock expires
				all = append(all, core.Settlement{Token: d.LockToken, Outcome: core.Outcome(outcomes.IntN(5))})
			}
		}
		settled.Go(func() { s.front.Settle(context.Background(), root, core.At(address), all) }) // dead letters refuse to be dead-lettered
	}
	in, err := s.open(t, address, o)
	if core.CodeOf(err) == core.Timeout { // no session
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	in.AddCredit(1+s.IntN(30), core.AnyMessage)
	time.Sleep(s.pause) // a receiver's life, whatever it gets in it
	drained := make(chan struct{})
	in.Drain(func(int) { close(drained) })
	<-drained
	settled.Wait()
	in.Close()
	if strings.HasPrefix(address, "sessions") {
		return
	}
	if ds, err := s.front.Peek(t.Context(), root, core.At(address), nil, 0, 3); err == nil {
		for _, d := range ds {
			if d.State == core.Deferred {
				_, _ = s.front.ReceiveDeferred(t.Context(), root, core.At(address), []int64{d.SequenceNumber}, core.ReceiveAndDelete) // somebody may be faster
			}
		}
	}
}

// open opens a receiver, or accepts a next session.
func (s *soaker) open(t *testing.T, address string, o core.ReceiverOptions) (core.Receiver, error) {
	if address != "sessions" {
		return s.front.OpenReceiver(t.Context(), root, core.At(address), o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), s.pause)
	defer cancel()
	return s.front.AcceptSession(ctx, root, core.At(address), core.SessionOptions{ReceiverOptions: o, Next: true})
}

// After a soak the scrape alone shows that nothing is lost and nothing doubled:
// what went into each entity was taken out, or is still there.
func TestWhatWentInCameOutOrIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, metrics.Options{})
		r.soak(t, 4, 300, time.Second, 30*time.Second)
		time.Sleep(core.MaxLockDuration)
		got, _ := r.scrape(t)
		if problems := got.problems(); len(problems) > 0 {
			t.Error(strings.Join(problems, "\n"))
		}
		got.report(t)
	})
}

func TestTheBalanceHoldsOnRedis(t *testing.T) {
	t.Parallel()
	store, err := redis.Open(t.Context(), redistest.Start(t, redistest.Options{}).URL(), redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() }) // after the broker's end
	r := newRigOn(t, metrics.Options{Refresh: time.Millisecond}, store)
	r.soak(t, 3, 150, 2*time.Millisecond, 200*time.Millisecond)
	var got scrape
	if !eventually.Within(eventually.Bound, func() bool { // until the forwarders have ended their work
		got, _ = r.scrape(t)
		return len(got.problems()) == 0
	}) {
		t.Fatal(strings.Join(got.problems(), "\n"))
	}
	got.report(t)
}

// problems is what does not add up.
func (s scrape) problems() (all []string) {
	equal := func(what string, in, out, left float64) {
		if in != out+left {
			all = append(all, fmt.Sprintf("%s: in %v, out %v, left %v", what, in, out, left))
		}
	}
	held := func(labels ...string) float64 { return s.sum("crosstown_entity_messages", labels...) }
	for entity := range s.values("entity") {
		of := []string{"entity", entity}
		out := s.sum("crosstown_settled_messages_total", append(of, "outcome", "complete")...) +
			s.sum("crosstown_moved_messages_total", of...) + s.sum("crosstown_cancelled_messages_total", of...)
		switch {
		case strings.Contains(entity, "/Subscriptions/"): // what a topic gives them the store counts
			equal(entity, s.sum("crosstown_entity_enqueued_total", of...), out, held(of...))
		case entity == "topic":
			in := s.sum("crosstown_accepted_messages_total", of...) - s.sum("crosstown_cancelled_messages_total", of...)
			equal(entity, in, s.sum("crosstown_entity_enqueued_total", "entity", "topic/Subscriptions/all"), held(of...))
		default:
			equal(entity, s.sum("crosstown_accepted_messages_total", of...), out, held(of...))
		}
	}
	sent, forwarded := s.sum("crosstown_sent_messages_total"), 0.0
	for _, from := range []string{"from", "bury", "topic/Subscriptions/onward"} {
		forwarded += s.sum("crosstown_moved_messages_total", "entity", from)
		if n := held("entity", from, "state", "ready") + held("entity", from, "state", "locked"); n > 0 && from != "bury" {
			all = append(all, fmt.Sprintf("%s: %v messages wait to be forwarded", from, n))
		}
	}
	equal("all that was sent or forwarded", sent+forwarded, s.sum("crosstown_accepted_messages_total")+s.sum("crosstown_absorbed_messages_total"), 0)
	equal("deliveries and receipts", s.sum("crosstown_delivered_messages_total"), s.sum("crosstown_received_messages_total"), 0)
	for what, n := range map[string]float64{
		"duplicates":   s.sum("crosstown_absorbed_messages_total", "entity", "ids"),
		"cancelled":    s.sum("crosstown_cancelled_messages_total"),
		"forwarded":    forwarded,
		"dead letters": held("queue", "deadletter") + s.sum("crosstown_delivered_messages_total", "queue", "deadletter"),
		"published":    s.sum("crosstown_entity_enqueued_total", "entity", "topic/Subscriptions/some"),
		"completed":    s.sum("crosstown_settled_messages_total", "entity", "sessions", "outcome", "complete"),
	} {
		if n == 0 {
			all = append(all, "the soak was too short: nothing was "+what)
		}
	}
	slices.Sort(all)
	return all
}

// report logs what has become of the messages.
func (s scrape) report(t *testing.T) {
	t.Helper()
	t.Logf("sent %v, duplicates %v, forwarded or published when due %v, completed %v, cancelled %v, left %v",
		s.sum("crosstown_sent_messages_total"), s.sum("crosstown_absorbed_messages_total"), s.sum("crosstown_moved_messages_total"),
		s.sum("crosstown_settled_messages_total", "outcome", "complete"), s.sum("crosstown_cancelled_messages_total"), s.sum("crosstown_entity_messages"))
}
