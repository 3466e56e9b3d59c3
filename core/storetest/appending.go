package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

var appendStories = []story{
	{"numbers start at 1, have no gaps, and carry the partition", func(s *fixture) {
		answers := s.main.In(s.store).Append(s.Context(), [][]*core.Message{{text("a"), text("b")}, {text("c")}})
		want(s, "groups", len(answers), 2)
		want(s, "a", answers[0].Numbers[0], number(1))
		want(s, "b", answers[0].Numbers[1], number(2))
		want(s, "c", answers[1].Numbers[0], number(3))
		want(s, "d", s.send(text("d"))[0], number(4))
	}},
	{"an appended message is delivered as it was accepted", func(s *fixture) {
		s.send(text("a", ttl(time.Minute)))
		s.wantDelivery("delivery", s.lockOne(), core.Delivery{
			Message: text("a", ttl(time.Minute)),
			BrokerProperties: core.BrokerProperties{
				SequenceNumber:         number(1),
				EnqueuedSequenceNumber: number(1),
				EnqueuedTime:           s.clock.Now(),
				ExpiresAt:              s.clock.Now().Add(time.Minute),
				Partitioned:            true,
			},
		})
	}},
	{"partitions number and keep their messages apart", func(s *fixture) {
		s.send(text("a"))
		other := s.main
		other.Index = 0
		a := other.In(s.store).Append(s.Context(), [][]*core.Message{{text("b")}})
		want(s, "number in the other partition", a[0].Numbers[0], core.SequenceNumber(0, 1))
		s.wantBodies("the other partition", s.lockAt(other, 9), "b")
		s.wantBodies("the first partition", s.lock(9), "a")
	}},
	{"numbers go on after the partition was emptied", func(s *fixture) {
		for n := range int64(3) {
			want(s, "number", s.send(text("x"))[0], number(n+1))
			s.settle(s.lockOne(), core.Complete)
		}
	}},
	{"an empty group is accepted", func(s *fixture) {
		a := s.main.In(s.store).Append(s.Context(), [][]*core.Message{{}, {text("a")}})
		s.wantCode("empty group", a[0].Err, "")
		want(s, "numbers of the empty group", len(a[0].Numbers), 0)
		want(s, "number after the empty group", a[1].Numbers[0], number(1))
	}},
	{"times are whole milliseconds", func(s *fixture) {
		s.clock.Advance(1500 * time.Microsecond)
		s.main.LockDuration = 2500 * time.Microsecond
		s.send(text("a"))
		d := s.lockOne()
		s.wantTime("enqueued", d.EnqueuedTime, s.clock.Now().Truncate(time.Millisecond))
		s.wantTime("locked until", d.LockedUntil, s.clock.Now().Truncate(time.Millisecond).Add(2*time.Millisecond))
	}},
	{"a full partition refuses the group that comes next", func(s *fixture) {
		s.main.MaxBytes = 1000
		big := func() *core.Message { return text(string(make([]byte, 1000))) }
		a := s.main.In(s.store).Append(s.Context(), [][]*core.Message{{big(), big()}, {text("late")}})
		s.wantCode("group that begins below the limit", a[0].Err, "")
		s.wantCode("group that begins above the limit", a[1].Err, core.QuotaExceeded)
		want(s, "numbers of a refused group", len(a[1].Numbers), 0)
		if r, ok := errors.AsType[*core.Refusal](a[1].Err); !ok || r.Text == "" {
			s.Fatalf("refusal of a full partition: got %v, want a text for the peer", a[1].Err)
		}
		for _, d := range s.lock(2) {
			s.settle(d, core.Complete)
		}
		want(s, "number once there is room", s.send(text("c"))[0], number(3))
	}},
	{"what has left for a sub-queue takes room until it is gone", func(s *fixture) {
		s.main.MaxBytes = 1000
		big := func() *core.Message { return text(string(make([]byte, 1000))) }
		full := func(what string) {
			s.wantCode(what, s.main.In(s.store).Append(s.Context(), [][]*core.Message{{text("late")}})[0].Err, core.QuotaExceeded)
			if got := s.stats(s.main).Bytes; got < s.main.MaxBytes {
				s.Errorf("size of the partition with %s: got %d, want at least %d", what, got, s.main.MaxBytes)
			}
		}
		s.send(big())
		s.settle(s.lockOne(), core.DeadLetterOutcome)
		full("a dead letter")
		s.settleAt(s.dead(), s.lockOneAt(s.dead()), core.Complete)
		transfer, lost := unlimited(sub(s.main, core.Transfer)), unlimited(sub(s.main, core.TransferDeadLetter))
		s.sendTo(transfer, big())
		full("a transfer")
		s.settleAt(transfer, s.lockOneAt(transfer), core.DeadLetterOutcome)
		full("a transfer dead letter")
		s.settleAt(lost, s.lockOneAt(lost), core.Complete)
		want(s, "number once there is room", s.send(text("c"))[0], number(2))
	}},
	{"a refused group leaves no trace for duplicate detection", func(s *fixture) {
		s.main.MaxBytes, s.main.DuplicateWindow = 500, time.Minute
		s.send(text(string(make([]byte, 1000))))
		a := s.main.In(s.store).Append(s.Context(), [][]*core.Message{{text("a", id("1"))}})
		s.wantCode("append to a full partition", a[0].Err, core.QuotaExceeded)
		s.settle(s.lockOne(), core.Complete)
		want(s, "the same id once there is room", s.send(text("a", id("1")))[0], number(2))
	}},
	{"ids that duplicate detection remembers take room until they are forgotten", func(s *fixture) {
		s.main.MaxBytes, s.main.DuplicateWindow = 50_000, time.Minute
		size := func() int64 {
			stats, err := Stats(s.Context(), s.store, s.main)
			s.wantCode("stats", err, "")
			return stats.Bytes
		}
		full := false
		for i := 0; !full; i++ {
			a := s.main.In(s.store).Append(s.Context(), [][]*core.Message{{text("", id(fmt.Sprintf("%0128d", i)))}})[0]
			if full = core.CodeOf(a.Err) == core.QuotaExceeded; full {
				break
			}
			s.wantCode("append", a.Err, "")
			s.settle(s.lockOne(), core.Complete)
			if i == 1000 {
				s.Fatalf("%d ids of 128 bytes take no room: the size is %d", i, size())
			}
		}
		if got := size(); got < s.main.MaxBytes {
			s.Errorf("size of a full partition: got %d, want at least %d", got, s.main.MaxBytes)
		}
		want(s, "number of a message that is known", unlimited(s.main).In(s.store).Append(s.Context(), [][]*core.Message{{text("", id(fmt.Sprintf("%0128d", 0)))}})[0].Numbers[0], 0)
		s.clock.Advance(time.Minute)
		want(s, "size once they are forgotten", size(), 0)
		s.send(text("", id(fmt.Sprintf("%0128d", 0))))
	}},
	{"operations on an unknown partition", func(s *fixture) {
		for _, ref := range []core.Ref{{Entity: "nosuch"}, {Entity: s.entity.ID, Index: fixturePartitions}} {
			p := s.main
			p.Ref = ref
			s.wantUnknown(p, core.NewLockToken(ref.Index, 1, 1))
		}
	}},
}

func unlimited(p core.Partition) core.Partition {
	p.MaxBytes = 0
	return p
}

// The partition must not exist.
func (s *fixture) wantUnknown(p core.Partition, token core.LockToken) {
	s.Helper()
	answers := p.In(s.store).Append(s.Context(), [][]*core.Message{{text("a")}, {text("b")}})
	want(s, "groups answered", len(answers), 2)
	for _, a := range answers {
		s.wantCode("append", a.Err, core.NotFound)
	}
	ds, next, err := p.In(s.store).Lock(s.Context(), core.LockRequest{Most: core.Most{Messages: 5}})
	s.wantCode("lock", err, "")
	s.wantBodies("lock", ds)
	s.wantTime("lock: next", next, time.Time{})
	s.wantCode("settle", s.trySettle(p, token, core.Complete, core.Properties{}), core.LockLost)
	_, err = s.tryRenew(p, token)
	s.wantCode("renew", err, core.LockLost)
	_, _, err = p.In(s.store).Lock(s.Context(), core.LockRequest{Numbers: []int64{token.SequenceNumber()}, Deferred: true})
	s.wantCode("lock deferred", err, core.MessageNotFound)
	s.wantCode("cancel", p.In(s.store).Cancel(s.Context(), []int64{token.SequenceNumber()}), core.MessageNotFound)
	s.wantBodies("peek", s.peek(p))
	s.wantTime("sweep: next", s.sweep(p), time.Time{})
	s.wantStats("stats", p, core.Stats{})
}

var roundTripStories = []story{
	{"every field of a message survives", func(s *fixture) {
		for _, m := range fullMessages(s) {
			s.send(m)
			d := s.lockOne()
			var diff differences
			diffMessage(&diff, d.Message, m)
			want(s, "differences", diff.String(), "")
			s.settle(d, core.Complete)
		}
	}},
	{"every field of a message survives scheduling, deferral and dead-lettering", func(s *fixture) {
		for _, m := range fullMessages(s) {
			m.ScheduledEnqueueTime = s.clock.Now().Add(time.Second)
			s.send(m)
			s.clock.Advance(time.Second)
			d := s.lockOne()
			s.settle(d, core.Defer)
			s.settle(s.lockDeferred(d.SequenceNumber)[0], core.DeadLetterOutcome)
			d = s.lockOneAt(s.dead())
			var diff differences
			diffMessage(&diff, d.Message, m)
			want(s, "differences", diff.String(), "")
			s.settleAt(s.dead(), d, core.Complete)
		}
	}},
	{"every type of property survives the merging of others", func(s *fixture) {
		s.send(&core.Message{Properties: everyType(s)})
		s.settle(s.lockOne(), core.Abandon, properties(s, "more", "yes"))
		d := s.lockOne()
		var diff differences
		diffMessage(&diff, d.Message, &core.Message{Properties: everyType(s).Merge(properties(s, "more", "yes"))})
		want(s, "differences", diff.String(), "")
	}},
	{"an empty payload is a message", func(s *fixture) {
		s.send(&core.Message{Properties: properties(s, "k", "v")})
		s.wantDelivery("delivery", s.lockOne(), core.Delivery{
			Message: &core.Message{Properties: properties(s, "k", "v")},
			BrokerProperties: core.BrokerProperties{
				SequenceNumber: number(1), EnqueuedSequenceNumber: number(1), EnqueuedTime: s.clock.Now(), Partitioned: true,
			},
		})
	}},
}

// fullMessages returns messages that set every field, with every kind of id and body.
func fullMessages(s *fixture) []*core.Message {
	at := time.Date(2025, time.May, 6, 7, 8, 9, 123e6, time.UTC)
	uuid := [16]byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	base := core.Message{
		UserID:              []byte{0, 1, 0xff},
		To:                  "to",
		Subject:             "subject é",
		ReplyTo:             "reply-to",
		ContentType:         "application/json;charset=utf-8",
		ContentEncoding:     "gzip",
		SessionID:           "session",
		ReplyToSessionID:    "reply session",
		PartitionKey:        "session",
		ViaPartitionKey:     "via",
		GroupSequence:       value.Some(uint32(4_000_000_000)),
		CreationTime:        at,
		AbsoluteExpiryTime:  at.Add(time.Hour),
		TimeToLive:          90 * time.Minute,
		WasScheduled:        true,
		EmptyText:           core.FieldCorrelationID,
		Durable:             value.Some(true),
		FirstAcquirer:       value.Some(true),
		Priority:            value.Some(uint8(7)),
		Annotations:         everyType(s),
		Properties:          everyType(s),
		DeliveryAnnotations: properties(s, "next", "hop"),
		Footer:              []byte{0xc1, 0x04, 0x02, 0xa3, 0x01, 'f', 0x41},
	}
	ids := []core.ID{
		core.StringID("text"), core.ULongID(1<<63 + 5), core.UUIDID(uuid), core.BinaryID([]byte{0, 0xfe}), {}, core.ULongID(0), {},
	}
	bodies := []core.Body{
		{Kind: core.BodyData, Bytes: []byte{0, 1, 2, 0xff, '\r', '\n'}},
		{Kind: core.BodyDataSections, Bytes: []byte{0x00, 0x53, 0x75, 0xa0, 0x01, 'a', 0x00, 0x53, 0x75, 0xa0, 0x00}},
		{Kind: core.BodyValue, Bytes: []byte{0x00, 0x53, 0x77, 0xa1, 0x02, 'h', 'i'}},
		{Kind: core.BodySequence, Bytes: []byte{0x00, 0x53, 0x76, 0x45}},
		{},
		{Kind: core.BodyData, Bytes: make([]byte, 100_000)},
		{Kind: core.BodyNone},
	}
	messages := make([]*core.Message, len(ids))
	for i := range ids {
		m := base
		m.MessageID, m.CorrelationID, m.Body = ids[i], ids[len(ids)-1-i], bodies[i]
		messages[i] = &m
	}
	// A field that is set to zero must stay set.
	messages[4].GroupSequence, messages[4].Priority, messages[4].Durable = value.Some(uint32(0)), value.Some(uint8(0)), value.Some(false)
	messages[4].FirstAcquirer = value.Some(false)
	messages[5].GroupSequence, messages[5].Priority = value.Opt[uint32]{}, value.Opt[uint8]{}
	messages[5].Durable, messages[5].FirstAcquirer = value.Opt[bool]{}, value.Opt[bool]{}
	empty := messages[6]
	empty.To, empty.Subject, empty.ReplyTo, empty.ContentType, empty.ContentEncoding, empty.ReplyToSessionID = "", "", "", "", "", ""
	empty.EmptyText = core.FieldTo | core.FieldSubject | core.FieldReplyTo | core.FieldCorrelationID | core.FieldContentType |
		core.FieldContentEncoding | core.FieldReplyToSessionID
	messages[5].CreationTime, messages[5].AbsoluteExpiryTime = time.UnixMilli(0).UTC(), time.Time{}
	return messages
}

func everyType(s *fixture) core.Properties {
	values := []any{
		nil, true, false, uint8(200), uint16(60_000), uint32(4e9), uint64(1 << 63), int8(-100), int16(-30_000), int32(-2e9),
		int64(-1 << 63), float32(1.5), 2.25,
		value.Decimal32{1},
		value.Decimal64{2},
		value.Decimal128{3},
		value.Char('é'),
		value.Timestamp(1_700_000_000_123),
		value.UUID{15: 9},
		[]byte{0, 0xff},
		"text é", value.Symbol("symbol"),
		value.List{int32(1), "two", nil},
		value.Map{{Key: "k", Value: uint8(1)}},
		value.ArrayOf([]int32{1, 2}),
		value.Described{Descriptor: value.Symbol("com.microsoft:timespan"), Value: int64(10)},
	}
	pairs := make([]core.Property, len(values))
	for i, v := range values {
		pairs[i] = core.Property{Key: string(rune('a' + i)), Value: v}
	}
	ps, err := core.NewProperties(pairs...)
	if err != nil {
		s.Fatalf("properties of every type: %v", err)
	}
	return ps
}

var duplicateStories = []story{
	{"a duplicate is accepted, dropped and takes no number", func(s *fixture) {
		s.main.DuplicateWindow = time.Minute
		s.send(text("a", id("1")))
		want(s, "number of the duplicate", s.send(text("again", id("1")))[0], 0)
		want(s, "number after the duplicate", s.send(text("b", id("2")))[0], number(2))
		s.wantBodies("messages", s.lock(9), "a", "b")
	}},
	{"a duplicate within one call is dropped", func(s *fixture) {
		s.main.DuplicateWindow = time.Minute
		a := s.main.In(s.store).Append(s.Context(), [][]*core.Message{
			{text("a", id("1")), text("b", id("1")), text("c", id("2"))}, {text("d", id("2")), text("e", id("3"))},
		})
		for i, wanted := range []int64{number(1), 0, number(2)} {
			want(s, "number in the first group", a[0].Numbers[i], wanted)
		}
		for i, wanted := range []int64{0, number(3)} {
			want(s, "number in the second group", a[1].Numbers[i], wanted)
		}
		s.wantBodies("messages", s.lock(9), "a", "c", "e")
	}},
	{"an id is forgotten when its window ends, and duplicates do not extend it", func(s *fixture) {
		s.main.DuplicateWindow = time.Minute
		s.send(text("a", id("1")))
		s.clock.Advance(time.Minute - time.Millisecond)
		want(s, "number just before the end", s.send(text("b", id("1")))[0], 0)
		s.clock.Advance(time.Millisecond)
		want(s, "number at the end", s.send(text("c", id("1")))[0], number(2))
		s.clock.Advance(time.Minute - time.Millisecond)
		want(s, "number within the second window", s.send(text("d", id("1")))[0], 0)
	}},
	{"an id is remembered after its message is gone", func(s *fixture) {
		s.main.DuplicateWindow = time.Minute
		s.send(text("a", id("1")))
		s.settle(s.lockOne(), core.Complete)
		want(s, "number of the duplicate", s.send(text("b", id("1")))[0], 0)
	}},
	{"messages without an id are not checked", func(s *fixture) {
		s.main.DuplicateWindow = time.Minute
		s.send(text("a"))
		want(s, "number of the second", s.send(text("b"))[0], number(2))
	}},
	{"without a window nothing is a duplicate", func(s *fixture) {
		s.send(text("a", id("1")))
		want(s, "number of the second", s.send(text("b", id("1")))[0], number(2))
	}},
	{"ids of different types with one text are the same id", func(s *fixture) {
		s.main.DuplicateWindow = time.Minute
		s.send(text("a", id("7")))
		m := text("b")
		m.MessageID = core.ULongID(7)
		want(s, "number of the duplicate", s.send(m)[0], 0)
	}},
	{"in a partitioned entity the partition key is part of the id", func(s *fixture) {
		s.main.DuplicateWindow = time.Minute
		s.send(text("a", id("1"), key("x")))
		want(s, "number with another key", s.send(text("b", id("1"), key("y")))[0], number(2))
		want(s, "number without a key", s.send(text("c", id("1")))[0], number(3))
		want(s, "number with the same key", s.send(text("d", id("1"), key("x")))[0], 0)
	}},
	{"in an entity with one partition the partition key does not matter", func(s *fixture) {
		s.main.DuplicateWindow, s.main.Partitioned = time.Minute, false
		s.send(text("a", id("1"), key("x")))
		want(s, "number with another key", s.send(text("b", id("1"), key("y")))[0], 0)
	}},
	{"scheduled messages count for duplicate detection, both ways", func(s *fixture) {
		s.main.DuplicateWindow = time.Hour
		s.send(text("a", id("1"), s.after(time.Minute)))
		want(s, "number of a duplicate of a scheduled message", s.send(text("b", id("1")))[0], 0)
		s.send(text("c", id("2")))
		want(s, "number of a scheduled duplicate", s.send(text("d", id("2"), s.after(time.Minute)))[0], 0)
		s.clock.Advance(time.Minute)
		s.wantBodies("messages", s.lock(9), "c", "a")
	}},
	{"cancelling does not forget the id", func(s *fixture) {
		s.main.DuplicateWindow = time.Hour
		ns := s.send(text("a", id("1"), s.after(time.Minute)))
		s.wantCode("cancel", s.main.In(s.store).Cancel(s.Context(), ns), "")
		want(s, "number of the duplicate", s.send(text("b", id("1")))[0], 0)
	}},
}

var scheduleStories = []story{
	{"a scheduled message takes a number, and a new one when it is due", func(s *fixture) {
		s.send(text("a", s.after(time.Minute), ttl(time.Hour)))
		want(s, "number of the next message", s.send(text("b"))[0], number(2))
		ds := s.lock(9)
		s.wantBodies("before it is due", ds, "b")
		s.wantStats("before it is due", s.main, core.Stats{Locked: 1, Scheduled: 1})
		s.settle(ds[0], core.Complete)
		s.clock.Advance(time.Minute - time.Millisecond)
		s.wantBodies("one millisecond early", s.peek(s.main), "a")
		due := s.clock.Now().Add(time.Millisecond)
		s.clock.Advance(2 * time.Millisecond)
		d := s.lockOne()
		m := text("a", ttl(time.Hour))
		m.ScheduledEnqueueTime = due
		s.wantDelivery("once due", d, core.Delivery{
			Message: m,
			BrokerProperties: core.BrokerProperties{
				SequenceNumber:         number(3),
				EnqueuedSequenceNumber: number(3),
				EnqueuedTime:           s.clock.Now(),
				ExpiresAt:              s.clock.Now().Add(time.Hour),
				Partitioned:            true,
			},
		})
	}},
	{"a scheduled message shows its state and its first number", func(s *fixture) {
		accepted := s.clock.Now()
		m := text("a", s.after(time.Minute), ttl(time.Hour))
		s.send(m)
		s.clock.Advance(time.Second)
		ds := s.peek(s.main)
		want(s, "peeked", len(ds), 1)
		s.wantDelivery("peeked", ds[0], core.Delivery{
			Message: m,
			BrokerProperties: core.BrokerProperties{
				SequenceNumber:         number(1),
				EnqueuedSequenceNumber: number(1),
				EnqueuedTime:           accepted,
				State:                  core.Scheduled,
				Partitioned:            true,
			},
		})
	}},
	{"a message scheduled for now or the past is available at once", func(s *fixture) {
		s.send(text("a", s.after(0)), text("b", s.after(-time.Hour)))
		s.wantBodies("messages", s.lock(9), "a", "b")
	}},
	{"messages are activated by due time, then by number", func(s *fixture) {
		s.send(text("c", s.after(3*time.Second)), text("a", s.after(time.Second)), text("d", s.after(3*time.Second)), text("b", s.after(2*time.Second)))
		s.clock.Advance(time.Minute)
		ds := s.lock(9)
		s.wantBodies("messages", ds, "a", "b", "c", "d")
		want(s, "first new number", ds[0].SequenceNumber, number(5))
		want(s, "last new number", ds[3].SequenceNumber, number(8))
	}},
	{"cancelling removes scheduled messages for good", func(s *fixture) {
		ns := s.send(text("a", s.after(time.Minute)), text("b", s.after(time.Minute)), text("c", s.after(time.Minute)))
		s.wantCode("cancel", s.main.In(s.store).Cancel(s.Context(), []int64{ns[2], ns[0]}), "")
		s.wantStats("after cancelling", s.main, core.Stats{Scheduled: 1})
		s.clock.Advance(time.Hour)
		ds := s.lock(9)
		s.wantBodies("messages", ds, "b")
		want(s, "number", ds[0].SequenceNumber, number(4))
	}},
	{"cancelling is all or nothing", func(s *fixture) {
		ns := s.send(text("a", s.after(time.Minute)), text("b"))
		for what, bad := range map[string][]int64{
			"a message that is not scheduled":   {ns[0], ns[1]},
			"a number that was never given":     {ns[0], number(77)},
			"a number of another partition":     {core.SequenceNumber(0, 1)},
			"the same number twice":             {ns[0], ns[0]},
			"a good number and another's":       {ns[0], core.SequenceNumber(1, 1)},
			"a number that is below the lowest": {number(0)},
		} {
			s.wantCode("cancel "+what, s.main.In(s.store).Cancel(s.Context(), bad), core.MessageNotFound)
		}
		s.wantStats("after it all", s.main, core.Stats{Ready: 1, Scheduled: 1})
		s.wantCode("cancel nothing", s.main.In(s.store).Cancel(s.Context(), nil), "")
	}},
	{"a message that is due cannot be cancelled", func(s *fixture) {
		ns := s.send(text("a", s.after(time.Minute)))
		s.clock.Advance(time.Minute)
		s.wantCode("cancel", s.main.In(s.store).Cancel(s.Context(), ns), core.MessageNotFound)
		s.wantBodies("messages", s.lock(9), "a")
	}},
	{"many schedules that are due are all activated at once", func(s *fixture) {
		const n = 2500
		group := make([]*core.Message, n)
		for i := range group {
			group[i] = text("x", s.after(time.Second))
		}
		s.send(group...)
		s.clock.Advance(time.Second)
		s.wantStats("once due", s.main, core.Stats{Ready: n})
		s.wantTime("next", s.sweep(s.main), time.Time{})
	}},
}
