package storetest

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

var commitStories = []story{
	{"commit does everything in one step", commitAll},
	{"commit does as much as a transaction may", commitAsMuchAsATransactionMay},
	{"commit does nothing when one lock is lost", commitNothing},
	{"commit refuses a lock that is given twice", commitTwice},
	{"commit does nothing when a scheduled message is missing", commitMissing},
	{"commit does nothing when the partition is full", commitFull},
	{"commit in a session ends with its lock", withSessions(commitInSession)},
	{"commit drops duplicates and keeps schedules", commitAsAppend},
	{"commit at dead letters moves on through their transfer queue", commitAtDeadLetters},
	{"commit of nothing is nothing", func(s *fixture) { s.commit(s.main, core.Work{}) }},
	{"commit on a deleted entity does nothing", commitDeleted},
	{"commit stores what comes of a message beside it", commitBeside},
	{"commit stores what comes of a message instead of it", commitInstead},
	{"commit stores nothing of what is there already", commitRepeated},
	{"commit of what is dropped needs no room", commitWithoutRoom},
	{"commit in a full partition transfers no more than it completes", commitTransfersWithoutRoom},
	{"commit publishes, and stores what comes of publications", onTopic(commitPublished)},
	{"commit of effects does nothing when something is refused", commitNoEffect},
	{"commit sets the state of a session", withSessions(commitState)},
	{"commit schedules what was reserved", commitReserved},
	{"commit does not make available what it schedules", commitReservedLate},
	{"commit schedules what was reserved in a topic", onTopic(commitReservedInTopic)},
	{"commit schedules what was reserved in a session", withSessions(commitReservedInSession)},
	{"a reservation ends by itself, or is cancelled", commitUnreserved},
	{"commit drops duplicates among what was reserved", commitReservedTwice},
	{"commit may only check", commitCheck},
}

func (s *fixture) commit(p core.Partition, w core.Work) []int64 {
	s.Helper()
	numbers, err := p.In(s.store).Commit(s.Context(), w)
	if err != nil {
		s.Fatalf("commit: %v", err)
	}
	return numbers
}

func (s *fixture) refuseCommit(p core.Partition, w core.Work, code core.Code) {
	s.Helper()
	numbers, err := p.In(s.store).Commit(s.Context(), w)
	s.wantCode("commit", err, code)
	if numbers != nil {
		s.Fatalf("commit: got numbers %v", numbers)
	}
}

func settlement(d core.Delivery, o core.Outcome) core.Settlement {
	return core.Settlement{Token: d.LockToken, Outcome: o}
}

func destined(to string) func(*core.Message) {
	return func(m *core.Message) { m.Transit = &core.Transit{Destination: to} }
}

func commitAll(s *fixture) {
	s.sendTexts("a", "b", "c", "d")
	later := s.send(text("later", s.after(time.Hour)))
	ds := s.lock(4)
	numbers := s.commit(s.main, core.Work{
		Settlements: []core.Settlement{
			settlement(ds[0], core.Complete), settlement(ds[1], core.Abandon),
			settlement(ds[2], core.DeadLetterOutcome), settlement(ds[3], core.Defer),
		},
		Cancels:   later,
		Messages:  []*core.Message{text("e"), text("f")},
		Transfers: []*core.Message{text("t", destined("elsewhere"))},
	})
	if len(numbers) != 2 || numbers[0] != number(6) || numbers[1] != number(7) {
		s.Errorf("sequence numbers: got %v, want %v", numbers, []int64{number(6), number(7)})
	}
	s.wantStats("main", s.main, core.Stats{Ready: 3, Deferred: 1})
	s.wantBodies("main", s.lock(9), "b", "e", "f")
	s.wantBodies("dead letters", s.lockAt(s.dead(), 9), "c")
	moving := s.lockAt(sub(s.main, core.Transfer), 9)
	s.wantBodies("transfer", moving, "t")
	want(s, "destination", moving[0].Transit.Destination, "elsewhere")
}

func commitAsMuchAsATransactionMay(s *fixture) {
	const n = core.MaxTransactionSettlements
	w := core.Work{Messages: []*core.Message{text("after")}}
	for range n {
		s.sendTexts("x")
	}
	for len(w.Settlements) < n {
		for _, d := range s.lock(n) {
			w.Settlements = append(w.Settlements, settlement(d, core.Complete))
		}
	}
	s.commit(s.main, w)
	s.wantBodies("after the settlements", s.lock(9), "after")
	later := make([]*core.Message, n)
	for i := range later {
		later[i] = text("later", s.after(time.Hour))
	}
	s.commit(s.main, core.Work{Cancels: s.send(later...)})
	s.wantStats("after the cancellations", s.main, core.Stats{Locked: 1})
}

func commitNothing(s *fixture) {
	s.sendTexts("a", "b")
	ds := s.lock(2)
	s.settle(ds[1], core.Complete)
	s.refuseCommit(s.main, core.Work{
		Settlements: []core.Settlement{settlement(ds[0], core.Complete), settlement(ds[1], core.Complete)},
		Messages:    []*core.Message{text("c")},
		Transfers:   []*core.Message{text("t", destined("elsewhere"))},
	}, core.LockLost)
	s.wantStats("main", s.main, core.Stats{Locked: 1})
	s.wantBodies("transfer", s.lockAt(sub(s.main, core.Transfer), 9))
	s.commit(s.main, core.Work{Settlements: []core.Settlement{settlement(ds[0], core.Complete)}})
	s.wantStats("main", s.main, core.Stats{})
}

func commitTwice(s *fixture) {
	s.sendTexts("a")
	d := s.lockOne()
	s.refuseCommit(s.main, core.Work{
		Settlements: []core.Settlement{settlement(d, core.Complete), settlement(d, core.Abandon)},
	}, core.LockLost)
	s.wantStats("main", s.main, core.Stats{Locked: 1})
}

func commitMissing(s *fixture) {
	s.sendTexts("a")
	d := s.lockOne()
	later := s.send(text("later", s.after(time.Hour)))
	s.refuseCommit(s.main, core.Work{
		Settlements: []core.Settlement{settlement(d, core.Complete)},
		Cancels:     append(later, number(77)),
		Messages:    []*core.Message{text("b")},
	}, core.MessageNotFound)
	s.wantStats("main", s.main, core.Stats{Locked: 1, Scheduled: 1})
}

func commitFull(s *fixture) {
	s.sendTexts("a")
	d := s.lockOne()
	full := s.main
	full.MaxBytes = 1
	s.refuseCommit(full, core.Work{
		Settlements: []core.Settlement{settlement(d, core.Complete)},
		Messages:    []*core.Message{text("b")},
	}, core.QuotaExceeded)
	s.wantStats("main", s.main, core.Stats{Locked: 1})
	s.commit(full, core.Work{Settlements: []core.Settlement{settlement(d, core.Complete)}})
}

func commitInSession(s *fixture) {
	s.sendIn("x", "a", "b")
	l := s.accept("x")
	ds := s.lockIn(l, 2)
	s.commit(s.main, core.Work{
		Settlements: []core.Settlement{settlement(ds[0], core.Complete)},
		Messages:    []*core.Message{text("c", in("x"))},
	})
	s.release(l)
	s.refuseCommit(s.main, core.Work{Settlements: []core.Settlement{settlement(ds[1], core.Complete)}}, core.SessionLockLost)
	s.wantBodies("session", s.lockIn(s.accept("x"), 9), "b", "c")
}

func commitAsAppend(s *fixture) {
	s.main.DuplicateWindow = time.Minute
	numbers := s.commit(s.main, core.Work{Messages: []*core.Message{
		text("a", id("1")), text("b", id("1")), text("later", s.after(time.Hour)),
	}})
	if len(numbers) != 3 || numbers[0] != number(1) || numbers[1] != 0 || numbers[2] != number(2) {
		s.Errorf("sequence numbers: got %v, want %v", numbers, []int64{number(1), 0, number(2)})
	}
	s.wantStats("main", s.main, core.Stats{Ready: 1, Scheduled: 1})
}

func commitAtDeadLetters(s *fixture) {
	s.sendTexts("a")
	s.settle(s.lockOne(), core.DeadLetterOutcome)
	d := s.lockOneAt(s.dead())
	s.refuseCommit(s.dead(), core.Work{Settlements: []core.Settlement{settlement(d, core.DeadLetterOutcome)}}, core.NotAllowed)
	s.commit(s.dead(), core.Work{
		Settlements: []core.Settlement{settlement(d, core.Complete)},
		Transfers:   []*core.Message{text("again", destined("main"))},
	})
	s.wantStats("dead letters", s.dead(), core.Stats{})
	s.wantBodies("transfer", s.lockAt(sub(s.main, core.Transfer), 9), "again")
}

func commitDeleted(s *fixture) {
	gone := s.main
	gone.Entity = "nosuchentity"
	s.refuseCommit(gone, core.Work{Messages: []*core.Message{text("a")}}, core.NotFound)
}

func commitState(s *fixture) {
	s.sendIn("x", "a")
	l := s.accept("x")
	d := s.lockIn(l, 1)[0]
	state := func() string {
		got, err := s.main.In(s.store).SessionState(s.Context(), l)
		if err != nil {
			s.Fatal(err)
		}
		return string(got)
	}
	s.refuseCommit(s.main, core.Work{
		Settlements: []core.Settlement{settlement(d, core.Complete)},
		States:      []core.SessionState{{Lock: core.SessionLock{ID: "x", Index: l.Index, Nonce: l.Nonce + 1}, State: []byte("no")}},
	}, core.SessionLockLost)
	want(s, "state after a refusal", state(), "")
	s.commit(s.main, core.Work{
		Settlements: []core.Settlement{settlement(d, core.Complete)},
		States:      []core.SessionState{{Lock: l, State: []byte("done")}},
	})
	want(s, "state", state(), "done")
	s.commit(s.main, core.Work{States: []core.SessionState{{Lock: l}}})
	want(s, "state that was taken away", state(), "")
}

func (s *fixture) reserve(d time.Duration, ms ...*core.Message) []core.Reserved {
	s.Helper()
	var all []core.Reserved
	for i, n := range s.commit(s.main, core.Work{Messages: ms, Reserve: s.clock.Now().Add(d)}) {
		all = append(all, core.Reserved{Number: n, Message: ms[i]})
	}
	return all
}

func commitReserved(s *fixture) {
	waiting := s.reserve(time.Minute, text("a", s.after(time.Hour)), text("b", s.after(time.Hour), ttl(time.Second)))
	s.sendTexts("now")
	want(s, "first number", waiting[0].Number, number(1))
	want(s, "second number", waiting[1].Number, number(2))
	s.wantBodies("peek before the commit", s.peek(s.main), "now")
	s.wantStats("before the commit", s.main, core.Stats{Ready: 1, Scheduled: 2})
	s.wantBodies("lock before the commit", s.lock(9), "now")
	s.commit(s.main, core.Work{Scheduled: waiting})
	s.refuseCommit(s.main, core.Work{Scheduled: waiting}, core.MessageNotFound)
	s.clock.Advance(time.Minute)
	peeked := s.peek(s.main)
	s.wantBodies("peek after the commit", peeked, "a", "b", "now")
	want(s, "state", peeked[0].State, core.Scheduled)
	want(s, "number", peeked[0].SequenceNumber, number(1))
	if err := s.main.In(s.store).Cancel(s.Context(), []int64{waiting[1].Number}); err != nil {
		s.Errorf("cancel the message with the number that was reserved: %v", err)
	}
	s.clock.Advance(time.Hour)
	ds := s.lock(9)
	s.wantBodies("lock when due", ds, "now", "a")
}

func commitReservedInTopic(p *press) {
	m := text("a", p.after(time.Hour))
	numbers := p.commit(p.topic, core.Work{
		Version: p.version, Publications: []core.Publication{{Message: m}}, Reserve: p.clock.Now().Add(time.Minute),
	})
	p.commit(p.topic, core.Work{Version: p.version, Publications: []core.Publication{p.to(text("now"), "a")}})
	p.wantBodies("peek before the commit", p.peek(p.topic))
	p.commit(p.topic, core.Work{Scheduled: []core.Reserved{{Number: numbers[0], Message: m}}})
	p.wantBodies("peek after the commit", p.peek(p.topic), "a")
	p.clock.Advance(time.Hour)
	p.wantBodies("lock when due", p.lockAt(p.topic, 9), "a")
}

func commitReservedInSession(s *fixture) {
	waiting := s.reserve(time.Minute, text("a", in("x"), s.after(time.Hour)), text("b", in("x"), s.after(time.Hour)))
	l := s.accept("x")
	s.commit(s.main, core.Work{Scheduled: waiting[:1], States: []core.SessionState{{Lock: l, State: []byte("s")}}})
	s.clock.Advance(time.Hour)
	s.wantBodies("session", s.lockIn(s.accept("x"), 9), "a")
}

func commitReservedLate(s *fixture) {
	waiting := s.reserve(time.Minute, text("late", s.after(time.Second)))
	s.sendTexts("a")
	d := s.lockOne()
	s.clock.Advance(2 * time.Second)
	s.commit(s.main, core.Work{Scheduled: waiting, Settlements: []core.Settlement{settlement(d, core.Complete)}})
	s.clock.Advance(time.Second)
	late := s.lockOne()
	want(s, "body", string(late.Body.Bytes), "late")
	s.wantTime("enqueued by the next call", late.EnqueuedTime, s.clock.Now())
}

func commitUnreserved(s *fixture) {
	waiting := s.reserve(time.Minute, text("a", s.after(time.Hour)), text("b", s.after(time.Second)), text("c", s.after(time.Hour)))
	if err := s.main.In(s.store).Cancel(s.Context(), []int64{waiting[2].Number}); err != nil {
		s.Fatalf("cancel a reservation: %v", err)
	}
	s.wantStats("after a cancellation", s.main, core.Stats{Scheduled: 2})
	s.clock.Advance(time.Minute)
	s.wantStats("after the time of the reservations", s.main, core.Stats{})
	s.refuseCommit(s.main, core.Work{Scheduled: waiting[:1], Messages: []*core.Message{text("d")}}, core.MessageNotFound)
	s.sendTexts("e")
	ds := s.lock(9)
	s.wantBodies("main", ds, "e")
	want(s, "number after those that were reserved", ds[0].SequenceNumber, number(4))
}

func commitReservedTwice(s *fixture) {
	s.main.DuplicateWindow = time.Minute
	dropped := s.reserve(time.Second, text("a", id("1"), s.after(time.Hour)))
	s.clock.Advance(time.Second)
	s.refuseCommit(s.main, core.Work{Scheduled: dropped}, core.MessageNotFound)
	waiting := s.reserve(time.Second, text("b", id("1"), s.after(time.Hour)), text("c", id("1"), s.after(time.Hour)))
	s.commit(s.main, core.Work{Scheduled: waiting})
	s.wantBodies("scheduled", s.peek(s.main), "b")
	want(s, "number of a repeated", s.send(text("d", id("1")))[0], 0)
}

func commitCheck(s *fixture) {
	s.sendTexts("a", "b")
	ds := s.lock(2)
	later := s.send(text("later", s.after(time.Hour)))
	w := core.Work{
		Check: true, Settlements: []core.Settlement{settlement(ds[0], core.Complete)}, Cancels: later,
		Messages: []*core.Message{text("c")}, Transfers: []*core.Message{text("t", destined("x"))},
	}
	if numbers := s.commit(s.main, w); numbers != nil {
		s.Errorf("sequence numbers: got %v, want none", numbers)
	}
	s.wantStats("after a check", s.main, core.Stats{Locked: 2, Scheduled: 1})
	s.settle(ds[0], core.Complete)
	s.refuseCommit(s.main, w, core.LockLost)
	s.refuseCommit(s.main, core.Work{Check: true, Cancels: []int64{number(77)}}, core.MessageNotFound)
	s.refuseCommit(s.main, core.Work{Check: true, Settlements: []core.Settlement{settlement(ds[1], core.Complete), settlement(ds[1], core.Complete)}}, core.LockLost)
}

func effects(instead bool, transfers, dead []*core.Message) []core.Effect {
	return []core.Effect{{Instead: instead, Transfers: transfers, DeadLetters: dead}}
}

func commitBeside(s *fixture) {
	numbers := s.commit(s.main, core.Work{
		Messages: []*core.Message{text("a", id("1")), text("b", id("2"))},
		Effects: []core.Effect{{
			Of: 1, Transfers: []*core.Message{text("b1", destined("x")), text("b2", destined("y"))},
			DeadLetters: []*core.Message{text("dead", s.after(time.Hour), ttl(time.Second))},
		}},
	})
	if len(numbers) != 2 || numbers[0] != number(1) || numbers[1] != number(2) {
		s.Errorf("sequence numbers: got %v, want %v", numbers, []int64{number(1), number(2)})
	}
	s.wantBodies("main", s.lock(9), "a", "b")
	moving := s.lockAt(sub(s.main, core.Transfer), 9)
	s.wantBodies("transfer", moving, "b1", "b2")
	want(s, "destination", moving[1].Transit.Destination, "y")
	s.clock.Advance(time.Minute)
	dead := s.lockOneAt(s.dead())
	s.wantBodies("dead letters", []core.Delivery{dead}, "dead")
	want(s, "number of the dead letter", dead.SequenceNumber, number(1))
	want(s, "first number of the dead letter", dead.EnqueuedSequenceNumber, number(1))
}

func commitInstead(s *fixture) {
	s.main.DuplicateWindow = time.Minute
	s.sendTexts("first")
	numbers := s.commit(s.main, core.Work{
		Messages: []*core.Message{text("a", id("1")), text("b", id("2"), from("k")), text("c", id("3"))},
		Effects: []core.Effect{
			{Of: 0, Instead: true, Transfers: []*core.Message{text("a", destined("x"))}},
			{Of: 1, Instead: true},
		},
	})
	if len(numbers) != 3 || numbers[0] != 0 || numbers[1] != 0 || numbers[2] != number(2) {
		s.Errorf("sequence numbers: got %v, want %v", numbers, []int64{0, 0, number(2)})
	}
	want(s, "number of a repeated", s.send(text("a again", id("1")))[0], 0)
	want(s, "number of one that is known by its key", s.send(text("b again", from("k")))[0], 0)
	s.clock.Advance(time.Minute)
	want(s, "number after the window", s.send(text("later", id("1")))[0], number(3))
	s.wantBodies("main", s.lock(9), "first", "c", "later")
	s.wantBodies("transfer", s.lockAt(sub(s.main, core.Transfer), 9), "a")
}

func commitRepeated(s *fixture) {
	s.main.DuplicateWindow = time.Minute
	s.send(text("a", id("1")), text("b", from("k")))
	for range 2 {
		numbers := s.commit(s.main, core.Work{
			Messages: []*core.Message{text("a", id("1")), text("b", from("k")), text("c", id("c")), text("c", id("c"))},
			Effects: []core.Effect{
				{Of: 0, Instead: true, Transfers: []*core.Message{text("a", destined("x"))}},
				{Of: 1, DeadLetters: []*core.Message{text("b")}},
				{Of: 2, Instead: true, DeadLetters: []*core.Message{text("c")}},
				{Of: 3, Instead: true, DeadLetters: []*core.Message{text("c again")}},
			},
		})
		for _, n := range numbers {
			want(s, "number", n, 0)
		}
	}
	s.wantBodies("transfer", s.lockAt(sub(s.main, core.Transfer), 9))
	s.wantBodies("dead letters", s.lockAt(s.dead(), 9), "c")
	s.wantEnqueued("main", s.main, 2)
}

func commitWithoutRoom(s *fixture) {
	s.sendTexts("a")
	full := s.main
	full.MaxBytes = 1
	s.commit(full, core.Work{Messages: []*core.Message{text("b")}, Effects: effects(true, nil, nil)})
	for _, instead := range []bool{true, false} {
		s.refuseCommit(full, core.Work{Messages: []*core.Message{text("c")}, Effects: effects(instead, []*core.Message{text("c", destined("x"))}, nil)}, core.QuotaExceeded)
		s.refuseCommit(full, core.Work{Messages: []*core.Message{text("d")}, Effects: effects(instead, nil, []*core.Message{text("d")})}, core.QuotaExceeded)
	}
	s.commit(s.main, core.Work{Messages: []*core.Message{text("e", from("1"))}})
	s.commit(full, core.Work{Messages: []*core.Message{text("e", from("1"))}, Effects: effects(true, nil, []*core.Message{text("e")})}) // the key is known
	s.wantStats("transfer", sub(s.main, core.Transfer), core.Stats{})
	s.wantStats("dead letters", s.dead(), core.Stats{})
}

func commitTransfersWithoutRoom(s *fixture) {
	s.sendTexts("a", "b")
	ds := s.lock(2)
	s.settle(ds[1], core.DeadLetterOutcome)
	full, dead := s.main, s.dead()
	full.MaxBytes, dead.MaxBytes = 1, 1
	moved := func(bodies ...string) (ms []*core.Message) {
		for _, b := range bodies {
			ms = append(ms, text(b, destined("x")))
		}
		return ms
	}
	s.refuseCommit(full, core.Work{Transfers: moved("1")}, core.QuotaExceeded)
	s.refuseCommit(full, core.Work{Settlements: []core.Settlement{settlement(ds[0], core.Abandon)}, Transfers: moved("1")}, core.QuotaExceeded)
	s.refuseCommit(full, core.Work{Settlements: []core.Settlement{settlement(ds[0], core.Complete)}, Transfers: moved("1", "2")}, core.QuotaExceeded)
	s.commit(full, core.Work{Settlements: []core.Settlement{settlement(ds[0], core.Complete)}, Transfers: moved("1")})
	d := s.lockOneAt(dead)
	s.refuseCommit(dead, core.Work{Settlements: []core.Settlement{settlement(d, core.Release)}, Transfers: moved("2")}, core.QuotaExceeded)
	s.commit(dead, core.Work{Settlements: []core.Settlement{settlement(d, core.Complete)}, Transfers: moved("2")})
	s.wantBodies("transfer", s.lockAt(sub(s.main, core.Transfer), 9), "1", "2")
}

func commitPublished(p *press) {
	p.topic.DuplicateWindow = time.Minute
	work := func() core.Work {
		return core.Work{
			Version: p.version,
			Publications: []core.Publication{
				p.to(text("one", id("1")), "a"), {Message: text("two", id("2"))}, p.to(text("three", id("3")), "a", "b"),
			},
			Effects: []core.Effect{
				{Of: 0, Transfers: []*core.Message{text("one", destined("x"))}},
				{Of: 1, Instead: true, DeadLetters: []*core.Message{text("two")}},
			},
		}
	}
	for _, expect := range [][]int64{{number(1), 0, number(2)}, {0, 0, 0}} {
		for i, n := range p.commit(p.topic, work()) {
			want(p.fixture, "number", n, expect[i])
		}
	}
	p.wantBodies("a", p.lockAt(p.at("a"), 9), "one", "three")
	p.wantBodies("b", p.lockAt(p.at("b"), 9), "three")
	p.wantBodies("transfer", p.lockAt(sub(p.topic, core.Transfer), 9), "one")
	p.wantBodies("dead letters", p.lockAt(sub(p.topic, core.DeadLetter), 9), "two")
	old := work()
	old.Publications[0].Message.MessageID = core.StringID("4")
	old.Version--
	p.refuseCommit(p.topic, old, core.Conflict)
	p.wantBodies("transfer after a refusal", p.lockAt(sub(p.topic, core.Transfer), 9))
}

func commitNoEffect(s *fixture) {
	s.main.DuplicateWindow = time.Minute
	s.sendTexts("a")
	d := s.lockOne()
	s.settle(d, core.Complete)
	s.refuseCommit(s.main, core.Work{
		Settlements: []core.Settlement{settlement(d, core.Complete)},
		Messages:    []*core.Message{text("b", id("1"))},
		Effects:     effects(true, []*core.Message{text("b", destined("x"))}, []*core.Message{text("b")}),
	}, core.LockLost)
	s.wantBodies("transfer", s.lockAt(sub(s.main, core.Transfer), 9))
	s.wantBodies("dead letters", s.lockAt(s.dead(), 9))
	want(s, "number of one whose work was refused", s.send(text("b", id("1")))[0], number(2))
}
