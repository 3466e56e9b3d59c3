package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// inSession is a message of a session; its body says which.
func inSession(id string) *core.Message {
	m := text(fmt.Sprintf("%q", id))
	m.SessionID, m.EmptyText = id, core.FieldSessionID
	return m
}

// holdID accepts the session of an id, which may be empty.
func (b *started) holdID(t *testing.T, address, id string) *holder {
	t.Helper()
	in := &inbox{}
	s, err := b.AcceptSession(t.Context(), root, core.At(address), core.SessionOptions{ID: id, ReceiverOptions: core.ReceiverOptions{Deliver: in.deliver}})
	if err != nil {
		t.Fatalf("accept %q: %v", id, err)
	}
	in.Receiver = s
	return &holder{in, s}
}

// wantIn compares the messages of a session with what should be in it.
func (b *started) wantIn(t *testing.T, address, id, want string) {
	t.Helper()
	h := b.holdID(t, address, id)
	defer h.Close()
	if h.ID() != id {
		t.Errorf("%s: accepted session %q, want %q", address, h.ID(), id)
	}
	h.AddCredit(100, core.AnyMessage)
	if got := bodies(h.take()); got != want {
		t.Errorf("%s: session %q: got %s, want %s", address, id, got, want)
	}
}

// inPartitions tells a story of entities with one partition, and of partitioned ones.
func inPartitions(t *testing.T, story func(t *testing.T, b *started, change func(*core.Settings))) {
	for name, change := range map[string]func(*core.Settings){"one partition": func(*core.Settings) {}, "partitioned": partitioned} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *started) { story(t, b, change) })
		})
	}
}

func TestSessionIDsAreComparedWithoutCase(t *testing.T) {
	inPartitions(t, func(t *testing.T, b *started, change func(*core.Settings)) {
		b.create(t, "q", sessionful, change)
		for i := range 8 {
			b.send(t, "q", inSession(fmt.Sprint("Key", i)), inSession(fmt.Sprint("KEY", i)))
			b.send(t, "q", inSession(fmt.Sprint("key", i)))
		}
		for i := range 8 {
			b.wantIn(t, "q", fmt.Sprint("kEY", i), fmt.Sprintf(`"Key%[1]d" "KEY%[1]d" "key%[1]d"`, i))
		}
		ids, err := b.ListSessions(t.Context(), root, core.At("q"), time.Time{}, 2, 3)
		if want := []string{"Key2", "Key3", "Key4"}; err != nil || !slices.Equal(ids, want) {
			t.Errorf("list: got %v, %v, want %v", ids, err, want)
		}
		h := b.mustAccept(t, "q", "KEY3")
		if _, err := b.accept(t.Context(), "q", "key3", core.PeekLock); !errors.Is(err, core.SessionLocked) {
			t.Errorf("a second holder: got %v, want %v", err, core.SessionLocked)
		}
		if ds, err := h.Peek(t.Context(), 0, 9); err != nil || bodies(ds) != `"Key3" "KEY3" "key3"` {
			t.Errorf("peek: got %s, %v", bodies(ds), err)
		}
		h.AddCredit(1, core.AnyMessage)
		d := h.take()[0]
		settle(t, b, "q", core.DeadLetterOutcome, d)
		if dead := b.all(t, "q/$DeadLetterQueue"); len(dead) != 1 || dead[0].SessionID != "Key3" {
			t.Errorf("dead letters: got %v", dead)
		}
	})
}

func TestTheEmptySessionIDIsOneLikeOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful, partitioned)
		for range 8 { // all in one partition
			b.send(t, "q", inSession(""))
		}
		h := b.mustAccept(t, "q", "") // the next
		if h.ID() != "" {
			t.Errorf("the next session: got %q, want the empty one", h.ID())
		}
		h.AddCredit(7, core.AnyMessage)
		if got, want := bodies(h.take()), `"" "" "" "" "" "" ""`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if _, err := b.AcceptSession(t.Context(), root, core.At("q"), core.SessionOptions{}); !errors.Is(err, core.SessionLocked) {
			t.Errorf("a second holder: got %v, want %v", err, core.SessionLocked)
		}
		h.AddCredit(2, core.AnyMessage)
		if got, want := bodies(h.take()), `""`; got != want {
			t.Errorf("the rest: got %s, want %s", got, want)
		}
		b.send(t, "q", inSession("other"))
		b.send(t, "q", inSession(""))
		if got, want := bodies(h.take()), `""`; got != want {
			t.Errorf("by the doorbell: got %s, want %s", got, want)
		}
		if ds, err := h.Peek(t.Context(), 0, 99); err != nil || len(ds) != 9 {
			t.Errorf("peek: got %d messages, %v, want 9", len(ds), err)
		}
		ids, err := b.ListSessions(t.Context(), root, core.At("q"), time.Time{}, 0, 9)
		if want := []string{"", "other"}; err != nil || !slices.Equal(ids, want) {
			t.Errorf("list: got %q, %v, want %q", ids, err, want)
		}
	})
}

func TestSessionAndPartitionKeyAgreeWithoutCase(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", sessionful, partitioned)
		keyed := func(id, key string) *core.Message {
			m := inSession(id)
			m.PartitionKey = key
			return m
		}
		s := b.sender(t, "q")
		for _, m := range []*core.Message{keyed("Id", "iD"), keyed("", ""), keyed("", "x")} {
			if err := s.Send(t.Context(), each(m))[0].Err; err != nil {
				t.Errorf("session %q, partition key %q: %v", m.SessionID, m.PartitionKey, err)
			}
		}
		if err := s.Send(t.Context(), each(keyed("Id", "Ix")))[0].Err; !errors.Is(err, core.NotAllowed) {
			t.Errorf("a session and another partition key: got %v, want %v", err, core.NotAllowed)
		}
		group := []*core.Message{inSession("A"), inSession("a"), keyed("a", "A")}
		if err := s.Send(t.Context(), [][]*core.Message{group})[0].Err; err != nil {
			t.Errorf("a batch of one session: %v", err)
		}
		if err := s.Send(t.Context(), [][]*core.Message{{inSession("a"), inSession("")}})[0].Err; !errors.Is(err, core.NotAllowed) {
			t.Errorf("a batch of two sessions: got %v, want %v", err, core.NotAllowed)
		}
		b.wantIn(t, "q", "a", `"A" "a" "a"`)
	})
}

// The session of a copy may come of the rule that made it. Filters tell ids
// apart by case.
func TestSubscriptionsCompareSessionIDsWithoutCase(t *testing.T) {
	inPartitions(t, func(t *testing.T, b *started, change func(*core.Settings)) {
		b.createTopic(t, "t", change)
		plain := b.subscribe(t, "t", "plain", nil, sessionful)
		set := b.subscribe(t, "t", "set", []core.Rule{sqlRule("r", "sys.SessionId IS NULL", "SET sys.SessionId = sys.PartitionKey")}, sessionful)
		exact := b.subscribe(t, "t", "exact", []core.Rule{{Name: "r", Filter: core.Filter{Kind: core.CorrelationFilter, Correlation: &core.Correlation{SessionID: new("Id")}}}}, sessionful)
		sql := b.subscribe(t, "t", "sql", []core.Rule{sqlRule("r", "sys.SessionId = ''", "")}, sessionful)
		m := text("keyed")
		m.PartitionKey = "ID"
		due := inSession("id")
		due.ScheduledEnqueueTime = b.store.Now().Add(time.Minute)
		b.send(t, "t", inSession("Id"))
		b.send(t, "t", inSession("iD"))
		b.send(t, "t", inSession(""))
		b.send(t, "t", m)
		b.send(t, "t", due)
		time.Sleep(time.Minute)
		rests()
		b.wantIn(t, plain, "ID", `"Id" "iD" "id"`)
		b.wantIn(t, plain, "", `""`)
		b.wantIn(t, set, "id", "keyed")
		b.wantIn(t, exact, "id", `"Id"`)
		b.wantIn(t, sql, "", `""`)
		b.holds(t, map[string]string{plain + "/$DeadLetterQueue": "keyed", set + "/$DeadLetterQueue": ""})
	})
}

func TestSessionIDsOnTheWay(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "to", sessionful, partitioned)
		b.create(t, "from", forwardTo("to"))
		b.create(t, "work")
		b.send(t, "from", inSession("Id"), inSession(""), inSession("iD"), text("none"))
		b.send(t, "work", text("x"))
		ds := b.receive(t, "work", core.PeekLock, 1).take()
		tx := b.Begin()
		enlistSettle(t, tx, "work", core.Complete, ds...)
		enlistSend(t, tx, "to", "work", inSession("ID"), inSession("id"))
		enlistSend(t, tx, "to", "work", inSession(""))
		commit(t, tx)
		rests()
		b.wantIn(t, "to", "id", `"Id" "iD" "ID" "id"`)
		b.wantIn(t, "to", "", `"" ""`)
		b.holds(t, map[string]string{"from/$Transfer/$DeadLetterQueue": "none"})

		held := b.holdID(t, "to", "iD")
		held.AddCredit(1, core.AnyMessage)
		ds = held.take()
		tx = b.Begin()
		enlistSettle(t, tx, "to", core.Complete, ds...)
		enlistSend(t, tx, "to", "", inSession("Id"), inSession("iD"))
		commit(t, tx)
		held.Close()
		b.wantIn(t, "to", "id", `"iD" "ID" "id" "Id" "iD"`)
	})
}

// All keys of a transaction on a partitioned entity choose the partition alike.
func TestKeysOfATransactionAgreeWithoutCase(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "work", partitioned)
		b.create(t, "to")
		keyed := func(body, key, via string) *core.Message {
			m := text(body)
			m.PartitionKey, m.ViaPartitionKey = key, via
			return m
		}
		for _, key := range []string{"Key1", "KEY2", "kEY3", "KeY4"} {
			tx := b.Begin()
			enlistSend(t, tx, "work", "", keyed("again", key, ""))
			enlistSend(t, tx, "to", "work", keyed("other", "", strings.ToUpper(key)))
			commit(t, tx)
			rests()
			b.holds(t, map[string]string{"work": "again", "to": "other"})
			for _, queue := range []string{"work", "to"} {
				b.receive(t, queue, core.ReceiveAndDelete, 1).take()
			}
		}
	})
}
