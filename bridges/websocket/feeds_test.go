package websocket

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

// fill sends n messages, each with its number as the text.
func (p *peer) fill(entity string, n int) {
	p.tb.Helper()
	for i := 0; i < n; {
		var some []object
		for ; i < n && len(some) < 100; i++ {
			some = append(some, object{"text": fmt.Sprint(i)})
		}
		p.ok("send", object{"entity": entity, "messages": some})
	}
}

func settlement(m object, outcome string) object {
	return object{"lockToken": broke(m)["LockToken"], "outcome": outcome}
}

func TestAFeedGetsWhatItHasCreditFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.connect()
		p.fill("q", 10)
		p.ok("feed", object{"feed": 7, "entity": "q", "credit": 3, "mode": "receiveAndDelete"})
		p.deliveries(7, 3)
		p.ok("credit", object{"feed": 7, "credit": 4})
		p.deliveries(7, 4)
		p.refused("credit", object{"feed": 7, "credit": 5001}, core.OutOfRange)
		p.ok("credit", object{"feed": 7, "credit": 5000})
		p.deliveries(7, 3)
		p.refused("credit", object{"feed": 7, "credit": 4}, core.OutOfRange)
		if f := p.ok("drain", object{"feed": 7}); f["unspent"] != int64(4997) {
			t.Errorf("drain: got %v", f)
		}
		p.fill("q", 1)
		synctest.Wait()
		p.ok("credit", object{"feed": 7, "credit": 1})
		if got := p.deliveries(7, 1)[0]; broke(got)["LockToken"] != nil || got["text"] != "0" {
			t.Errorf("receive and delete: got %v", got)
		}
		p.ok("end", object{"feed": 7})
		p.ok("feed", object{"feed": 7, "entity": "q"}) // its number is free again
	})
}

func TestDrainReportsAnEmptyQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.connect()
		p.ok("feed", object{"feed": 1, "entity": "q", "credit": 5})
		if f := p.ok("drain", object{"feed": 1}); f["unspent"] != int64(5) {
			t.Errorf("got %v", f)
		}
		p.fill("q", 2)
		p.ok("credit", object{"feed": 1, "credit": 1})
		if f := p.ok("drain", object{"feed": 1}); f["unspent"] != int64(0) || len(p.kept) != 1 {
			t.Errorf("got %v after %v, want the delivery first", f, p.kept)
		}
	})
}

func TestEveryOutcomeDoesWhatItSays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.connect()
		p.fill("q", 5)
		p.ok("feed", object{"feed": 1, "entity": "q", "credit": 5})
		got := p.deliveries(1, 5)
		with := func(s, more object) object {
			maps.Copy(s, more)
			return s
		}
		settled := p.ok("settle", object{"feed": 1, "settlements": []object{
			settlement(got[0], "complete"),
			with(settlement(got[1], "abandon"), object{"properties": object{"tries": object{"$int": 1}}}),
			with(settlement(got[2], "defer"), object{"properties": object{"later": true}}),
			with(settlement(got[3], "deadLetter"), object{"reason": "r"}),
			settlement(got[4], "release"),
		}})
		if fmt.Sprint(settled["results"]) != "[<nil> <nil> <nil> <nil> <nil>]" {
			t.Errorf("got %v", settled)
		}
		p.ok("credit", object{"feed": 1, "credit": 2})
		again := p.deliveries(1, 2)
		if b := broke(again[0]); again[0]["text"] != "1" || b["DeliveryCount"] != int64(2) || fmt.Sprint(again[0]["properties"]) != "map[tries:map[$int:1]]" {
			t.Errorf("abandoned: got %v", again[0])
		}
		if b := broke(again[1]); again[1]["text"] != "4" || b["DeliveryCount"] != int64(1) {
			t.Errorf("released: got %v", again[1])
		}
		deferred := p.ok("receiveDeferred", object{"entity": "q", "sequenceNumbers": []int64{3}})["messages"].([]any)[0].(object)
		if b := broke(deferred); deferred["text"] != "2" || b["State"] != "Deferred" || fmt.Sprint(deferred["properties"]) != "map[later:true]" {
			t.Errorf("deferred: got %v", deferred)
		}
		p.refused("receiveDeferred", object{"entity": "q", "sequenceNumbers": []int64{1}}, core.MessageNotFound)
		dead := p.ok("peek", object{"entity": "q/$DeadLetterQueue"})["messages"].([]any)[0].(object)
		if fmt.Sprint(dead["properties"]) != "map[DeadLetterReason:r]" {
			t.Errorf("dead letter: got %v", dead)
		}
	})
}

func TestLocksAreRenewedAndExpire(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.connect()
		p.fill("q", 1)
		p.ok("feed", object{"feed": 1, "entity": "q", "credit": 1})
		token := broke(p.deliveries(1, 1)[0])["LockToken"]
		time.Sleep(50 * time.Second)
		renewed := p.ok("renew", object{"entity": "q", "lockTokens": []any{token, "00112233-4455-6677-8899-aabbccddeeff"}})["results"].([]any)
		if want := time.Now().Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000Z"); renewed[0].(object)["lockedUntil"] != want || renewed[1].(object)["code"] != "lock_lost" {
			t.Errorf("got %v, want %s and lock_lost", renewed, want)
		}
		time.Sleep(61 * time.Second)
		f := p.ok("settle", object{"entity": "q", "settlements": []object{{"lockToken": token, "outcome": "complete"}}})
		if f["results"].([]any)[0].(object)["code"] != "lock_lost" {
			t.Errorf("settle after expiry: got %v", f)
		}
	})
}

func TestScheduledMessagesAreSentLaterOrNever(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.connect()
		at := time.Now().Add(30 * time.Second).UTC().Format(time.RFC3339Nano)
		sent := p.ok("send", object{"entity": "q", "messages": []object{
			{"text": "kept", "broker": object{"ScheduledEnqueueTimeUtc": at}},
			{"text": "cancelled", "broker": object{"ScheduledEnqueueTimeUtc": at}},
		}})["sequenceNumbers"].([]any)
		p.ok("cancel", object{"entity": "q", "sequenceNumbers": sent[1:]})
		p.refused("cancel", object{"entity": "q", "sequenceNumbers": sent[1:]}, core.MessageNotFound)
		began := time.Now()
		p.ok("feed", object{"feed": 1, "entity": "q", "credit": 2})
		if got := p.deliveries(1, 1)[0]; got["text"] != "kept" || time.Since(began) < 29*time.Second {
			t.Errorf("after %v: got %v", time.Since(began), got)
		}
	})
}

func TestPeekShowsAndPurgeRemoves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.connect()
		p.fill("q", 60)
		later := p.ok("send", object{"entity": "q", "messages": []any{object{"broker": object{"ScheduledEnqueueTimeUtc": "2099-01-01T00:00:00.000Z"}}}})["sequenceNumbers"].([]any)[0]
		if got := p.ok("peek", object{"entity": "q", "inState": "Scheduled"})["messages"].([]any); len(got) != 1 || got[0].(object)["broker"].(object)["SequenceNumber"] != later {
			t.Errorf("scheduled: got %v, want %v", got, later)
		}
		p.ok("cancel", object{"entity": "q", "sequenceNumbers": []any{later}})
		if got := p.ok("peek", object{"entity": "q", "inState": "Scheduled"})["messages"].([]any); len(got) != 0 {
			t.Errorf("scheduled, cancelled: got %v", got)
		}
		if got := p.ok("peek", object{"entity": "q"})["messages"].([]any); len(got) != 32 {
			t.Errorf("by default: got %d", len(got))
		}
		got := p.ok("peek", object{"entity": "q", "from": 50, "max": 250, "bodies": "binary"})["messages"].([]any)
		if first := got[0].(object); len(got) != 11 || broke(first)["SequenceNumber"] != int64(50) || broke(first)["DeliveryCount"] != int64(0) || first["binary"] != "NDk=" {
			t.Errorf("from 50: got %d: %v", len(got), got[0])
		}
		p.refused("peek", object{"entity": "q", "max": 251}, core.OutOfRange)
		time.Sleep(time.Second)
		before := time.Now().UTC().Format(time.RFC3339Nano)
		if f := p.ok("purge", object{"entity": "q", "before": before, "max": 50}); f["count"] != int64(50) {
			t.Errorf("purge: got %v", f)
		}
		if f := p.ok("purge", object{"entity": "q", "before": before}); f["count"] != int64(10) {
			t.Errorf("purge the rest: got %v", f)
		}
		large := make([]object, 3)
		for i := range large {
			large[i] = object{"text": string(make([]byte, 100<<10))} // which are escaped: six bytes each
		}
		p.ok("send", object{"entity": "q", "messages": large})
		if got := p.ok("peek", object{"entity": "q", "max": 3})["messages"].([]any); len(got) != 2 {
			t.Errorf("of 1.8 MB: got %d messages, want the 2 that reach 1 MiB", len(got))
		}
	})
}

func TestWhatIsSentToOneEntityKeepsItsOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q", "r")
		p := h.connect()
		const n = 200
		var ids []int64
		for i := range n {
			ids = append(ids, p.send("send", object{"entity": []string{"q", "Q", "r"}[i%3], "messages": []object{{"text": fmt.Sprint(i)}}}))
		}
		for i := range n {
			f := p.answer(ids[i])
			want := int64(i/3 + 1)
			if i%3 != 2 {
				want = int64(i/3*2 + i%3 + 1)
			}
			if fmt.Sprint(f["sequenceNumbers"]) != fmt.Sprint([]int64{want}) {
				t.Fatalf("message %d: got %v, want %d", i, f, want)
			}
		}
	})
}

func TestAGroupIsSentWholeOrNotAtAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.connect()
		p.refused("send", object{"entity": "q", "messages": []object{{"text": "x"}, {"broker": object{"SessionId": "a", "PartitionKey": "b"}}}}, core.NotAllowed)
		p.refused("send", object{"entity": "q", "messages": []object{{"text": "x"}, {"text": string(make([]byte, 300<<10))}}}, core.TooLarge)
		p.refused("send", object{"entity": "none", "messages": []object{{"text": "x"}}}, core.NotFound)
		if got := p.ok("peek", object{"entity": "q"})["messages"].([]any); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
}

func TestAFeedEndsWithItsEntity(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.connect()
		p.fill("q", 1) // opens a sender
		p.ok("feed", object{"feed": 1, "entity": "q"})
		p.ok("delete", object{"entity": "q"})
		if f := p.await("ended"); f["feed"] != int64(1) || f["code"] != "not_found" {
			t.Errorf("got %v", f)
		}
		p.refused("credit", object{"feed": 1, "credit": 1}, core.NotFound)
		p.refused("send", object{"entity": "q", "messages": []object{{"text": "x"}}}, core.NotFound)
		h.queue("q", nil)
		p.fill("q", 1) // a sender of its own
	})
}

func TestMessagesThatWereNotReadGoBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.connect()
		p.fill("q", 20)
		p.ok("feed", object{"feed": 1, "entity": "q", "credit": 20})
		p.deliveries(1, 20)
		_ = p.ws.Close()
		other := h.connect()
		other.ok("feed", object{"feed": 1, "entity": "q", "credit": 20})
		if f := other.ok("drain", object{"feed": 1}); f["unspent"] != int64(20) {
			t.Errorf("got %v: the locks of what was delivered stand", f)
		}
		time.Sleep(61 * time.Second)
		other.ok("credit", object{"feed": 1, "credit": 20})
		other.deliveries(1, 20)
	})
}

func TestAFeedTakesAPlaceUntilItEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{Pools: fair.Pools{Streams: fair.NewStreams(2, nil)}}, "q")
		p, other := h.connect(), h.connect()
		p.ok("feed", object{"feed": 1, "entity": "q"})
		other.ok("feed", object{"feed": 1, "entity": "q"})
		id := p.send("feed", object{"feed": 2, "entity": "q"})
		if f := p.answer(id); f["op"] != "error" || f["code"] != string(core.Busy) {
			t.Errorf("a third feed of four: got %v", f)
		}
		other.ok("end", object{"feed": 1})
		p.ok("feed", object{"feed": 2, "entity": "q"})
		p.refused("feed", object{"feed": 2, "entity": "q"}, core.InvalidArgument) // takes no place
		p.ok("end", object{"feed": 1})
		other.ok("feed", object{"feed": 1, "entity": "q"})
		_ = p.ws.Close()
		synctest.Wait()
		other.ok("feed", object{"feed": 2, "entity": "q"})
	})
}

func TestAFeedWithCreditGetsWhatTheQueueHolds(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 0))
		size := 1 << random.IntN(18)
		stocked, credit := 1+random.IntN(min(1500, 20<<20/size)), 1+random.IntN(1500)
		mode := []string{"receiveAndDelete", "peekLock"}[random.IntN(2)]
		t.Run(fmt.Sprintf("%d of %d bytes, credit %d, %s", stocked, size, credit, mode), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				h := openHouse(t, Options{}, "q")
				p, text := h.connect(), strings.Repeat("x", size)
				for range stocked {
					p.ok("send", object{"entity": "q", "messages": []object{{"text": text}}})
				}
				p.ok("feed", object{"feed": 7, "entity": "q", "credit": credit, "mode": mode})
				p.deliveries(7, min(stocked, credit))
			})
		})
	}
}
