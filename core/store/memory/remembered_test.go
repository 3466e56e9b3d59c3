package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// rememberingStore is a store that may remember few bytes, with a queue and a topic.
func rememberingStore(t *testing.T, bytes int64) (s *memory.Store, clock *storetest.Clock, queue, topic core.Partition) {
	clock = storetest.NewClock()
	s = memory.New(memory.Options{Clock: clock.Now, Remember: bytes})
	for _, kind := range []core.Kind{core.Queue, core.Topic} {
		e := core.Entity{Kind: kind, Namespace: "ns", Name: fmt.Sprint(kind), ID: fmt.Sprint(kind), Partitions: 1, Settings: core.DefaultSettings(kind)}
		if _, err := s.CreateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
			t.Fatal(err)
		}
	}
	policy := core.Policy{LockDuration: time.Minute, DuplicateWindow: time.Minute}
	queue = core.Partition{Ref: core.Ref{Entity: fmt.Sprint(core.Queue)}, Policy: policy}
	topic = core.Partition{Ref: core.Ref{Entity: fmt.Sprint(core.Topic)}, Policy: policy}
	return s, clock, queue, topic
}

func TestIDsBeyondTheirBudgetAreRefused(t *testing.T) {
	t.Parallel()
	s, clock, queue, topic := rememberingStore(t, 100_000)
	sent := 0
	send := func(m *core.Message) error {
		return queue.In(s).Append(t.Context(), [][]*core.Message{{m}})[0].Err
	}
	next := func() *core.Message {
		sent++
		return &core.Message{MessageID: core.StringID(fmt.Sprintf("message-%04d", sent))}
	}
	refused := func(what string, err error) {
		t.Helper()
		if core.CodeOf(err) != core.Busy || !core.IsNotDone(err) {
			t.Errorf("%s: got %v, want a refusal as busy", what, err)
		}
	}
	fill := func() (n int) {
		t.Helper()
		for ; n < 2000; n++ {
			if err := send(next()); err != nil {
				refused("a new id", err)
				return n
			}
		}
		t.Fatal("2000 messages: none was refused")
		return 0
	}
	n := fill()
	if n < 675 || n > 750 {
		t.Errorf("got %d ids of 12 bytes in 100,000, want about 735, which is three quarters", n)
	}
	if err := send(&core.Message{Transit: &core.Transit{Key: "a move"}}); err != nil {
		t.Errorf("the key of a move: %v", err)
	}
	if err := topic.In(s).Publish(t.Context(), 0, [][]core.Publication{{{Message: next()}}})[0].Err; err != nil {
		t.Errorf("another entity: %v", err)
	}
	if _, err := queue.In(s).Commit(t.Context(), core.Work{Messages: []*core.Message{next()}}); err == nil {
		t.Error("a transaction's message was not refused")
	}
	if err := send(&core.Message{}); err != nil {
		t.Errorf("without an id: %v", err)
	}
	if a := queue.In(s).Append(t.Context(), [][]*core.Message{{{MessageID: core.StringID("message-0001")}}}); a[0].Err != nil || a[0].Numbers[0] != 0 {
		t.Errorf("a duplicate: got %v, %v, want number 0", a[0].Numbers, a[0].Err)
	}
	clock.Advance(time.Minute)
	if again := fill(); again < n-3 || again > n+3 { // beside what others hold
		t.Errorf("when the window is over: got %d ids, want %d", again, n)
	}
	if err := queue.In(s).Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := fill(); again < n-3 || again > n+3 { // beside what others hold
		t.Errorf("after Clear: got %d ids, want %d", again, n)
	}
	if err := s.DeleteEntity(t.Context(), "ns", fmt.Sprint(core.Queue)); err != nil {
		t.Fatal(err)
	}
	if a := topic.In(s).Publish(t.Context(), 0, [][]core.Publication{{{Message: next()}}}); a[0].Err != nil {
		t.Errorf("when the queue is gone: %v", a[0].Err)
	}
}

// Many ids that leave the window are forgotten in several calls, and known no more at once.
func TestIDsAreForgottenSomeAtATime(t *testing.T) {
	t.Parallel()
	s, clock, queue, _ := rememberingStore(t, 0)
	const n = 25_000
	send := func(numbers ...int) (stored int) {
		group := make([]*core.Message, len(numbers))
		for i, n := range numbers {
			group[i] = &core.Message{MessageID: core.StringID(fmt.Sprint(n))}
		}
		a := queue.In(s).Append(t.Context(), [][]*core.Message{group})
		if a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
		for _, number := range a[0].Numbers {
			if number != 0 {
				stored++
			}
		}
		return stored
	}
	size := func() int64 {
		stats, err := storetest.Stats(t.Context(), s, core.Partition{Ref: queue.Ref})
		if err != nil {
			t.Fatal(err)
		}
		return stats.Bytes / (stats.Ready + 1) // about
	}
	for i := range n {
		if i%100 == 0 {
			clock.Advance(time.Millisecond)
		}
		send(i)
	}
	before := size()
	clock.Advance(time.Minute)
	if got := send(n-1, n-2, n-1); got != 2 {
		t.Errorf("ids that have left the window, one twice: %d messages stored, want 2", got)
	}
	if got := send(n - 1); got != 0 {
		t.Error("an id that is new again was stored twice")
	}
	for range 5 {
		send(n)
	}
	if after := size(); after > before-80 {
		t.Errorf("a message and its id took %d bytes, and %d when the ids were forgotten", before, after)
	}
}

func TestHistoriesBeyondTheirBudgetForget(t *testing.T) {
	t.Parallel()
	s, _, queue, topic := rememberingStore(t, 100_000)
	history := core.HistoryBounds{Keep: time.Hour, Max: 1_000_000}
	queue.History, topic.History = history, history
	send := func(p core.Partition, n int) {
		for i := range n {
			m := &core.Message{MessageID: core.StringID(fmt.Sprintf("message-%d-%d", n, i))}
			if p.Entity == topic.Entity {
				if a := p.In(s).Publish(t.Context(), 0, [][]core.Publication{{{Message: m}}}); a[0].Err != nil {
					t.Fatal(a[0].Err)
				}
			} else if a := p.In(s).Append(t.Context(), [][]*core.Message{{m}}); a[0].Err != nil {
				t.Fatal(a[0].Err)
			}
		}
	}
	queue.DuplicateWindow, topic.DuplicateWindow = 0, 0
	remembers := func(p core.Partition, id string) bool {
		t.Helper()
		found, err := p.In(s).Recollect(t.Context(), core.Subject{MessageID: id})
		if err != nil {
			t.Fatal(err)
		}
		return len(found) > 0
	}
	send(queue, 1000)
	if remembers(queue, "message-1000-0") || remembers(queue, "message-1000-600") {
		t.Error("the oldest messages are remembered beyond the budget")
	}
	if !remembers(queue, "message-1000-999") || !remembers(queue, "message-1000-700") {
		t.Error("the newest messages are not remembered")
	}
	send(topic, 10)
	if !remembers(topic, "message-10-9") {
		t.Error("the newest message of another entity is not remembered")
	}
	send(queue, 10)
	if !remembers(queue, "message-10-9") || remembers(queue, "message-1000-700") {
		t.Error("newer messages do not take the place of older ones")
	}
}
