package websocket

import (
	"fmt"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func withSessions(s *core.Settings) { s.RequiresSession = true }

func inSession(id, text string) object {
	return object{"broker": object{"SessionId": id}, "text": text}
}

func TestASessionIsReceivedInOrderWithItsState(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		h.queue("q", withSessions)
		p := h.connect()
		p.ok("send", object{"entity": "q", "messages": []object{inSession("a", "a1"), inSession("b", "b1"), inSession("a", "a2")}})
		opened := p.ok("feed", object{"feed": 1, "entity": "q", "session": "a", "credit": 10})
		if until := time.Now().Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000Z"); opened["session"] != "a" || opened["lockedUntil"] != until {
			t.Errorf("got %v, want a until %s", opened, until)
		}
		p.refused("feed", object{"feed": 2, "entity": "q", "session": "a"}, core.SessionLocked)
		p.refused("feed", object{"feed": 2, "entity": "q"}, core.NotAllowed)
		got := p.deliveries(1, 2)
		if got[0]["text"] != "a1" || got[1]["text"] != "a2" {
			t.Errorf("got %v", got)
		}
		if f := p.ok("state", object{"feed": 1}); f["state"] != nil {
			t.Errorf("state: got %v, want none", f)
		}
		// What is asked of one feed takes effect in its order, without waiting for answers.
		set := p.send("setState", object{"feed": 1, "state": object{"$binary": "AP8="}})
		state := p.send("state", object{"feed": 1})
		settle := p.send("settle", object{"feed": 1, "settlements": []object{settlement(got[0], "complete"), settlement(got[1], "defer")}})
		deferred := p.send("receiveDeferred", object{"feed": 1, "sequenceNumbers": []any{broke(got[1])["SequenceNumber"]}})
		clear := p.send("setState", object{"feed": 1, "state": "text"})
		again := p.send("state", object{"feed": 1})
		peek := p.send("peek", object{"feed": 1})
		end := p.send("end", object{"feed": 1})
		if f := p.answer(set); f["op"] != "ok" {
			t.Errorf("setState: got %v", f)
		}
		if f := p.answer(state); fmt.Sprint(f["state"]) != "map[$binary:AP8=]" {
			t.Errorf("state: got %v", f)
		}
		if f := p.answer(settle); fmt.Sprint(f["results"]) != "[<nil> <nil>]" {
			t.Errorf("settle: got %v", f)
		}
		if f := p.answer(deferred); f["op"] != "ok" || f["messages"].([]any)[0].(object)["text"] != "a2" {
			t.Errorf("receiveDeferred: got %v", f)
		}
		if f := p.answer(clear); f["op"] != "ok" {
			t.Errorf("setState: got %v", f)
		}
		if f := p.answer(again); fmt.Sprint(f["state"]) != "map[$binary:dGV4dA==]" {
			t.Errorf("state: got %v", f)
		}
		if f := p.answer(peek); f["op"] != "ok" || len(f["messages"].([]any)) != 1 {
			t.Errorf("peek: got %v", f)
		}
		if f := p.answer(end); f["op"] != "ok" {
			t.Errorf("end: got %v", f)
		}
		if f := p.ok("sessions", object{"entity": "q"}); fmt.Sprint(f["sessions"]) != "[a b]" {
			t.Errorf("sessions: got %v", f)
		}
		if f := p.ok("sessions", object{"entity": "q", "since": "1999-01-01T00:00:00Z", "top": 5}); fmt.Sprint(f["sessions"]) != "[a]" {
			t.Errorf("sessions with a state: got %v", f)
		}
	})
}

func TestTheNextSessionIsAwaited(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		h.queue("q", withSessions)
		p := h.connect()
		began := time.Now()
		p.refused("feed", object{"feed": 1, "entity": "q", "nextSession": true, "wait": 2.5}, core.Timeout)
		if took := time.Since(began); took != 2500*time.Millisecond {
			t.Errorf("refused after %v", took)
		}
		p.refused("feed", object{"feed": 1, "entity": "q", "nextSession": true}, core.Timeout)
		if took := time.Since(began); took != 62500*time.Millisecond {
			t.Errorf("refused after %v more, want a minute", took)
		}
		waits := p.send("feed", object{"feed": 1, "entity": "q", "nextSession": true, "credit": 1})
		time.Sleep(time.Second)
		p.ok("send", object{"entity": "q", "messages": []object{inSession("a", "a1")}})
		if f := p.answer(waits); f["session"] != "a" {
			t.Errorf("got %v", f)
		}
		p.deliveries(1, 1)
		// A wait is given up by end, and by the connection's end.
		waits = p.send("feed", object{"feed": 2, "entity": "q", "nextSession": true})
		credit := p.send("credit", object{"feed": 2, "credit": 1})
		p.ok("end", object{"feed": 2})
		if f := p.answer(waits); f["code"] != "timeout" {
			t.Errorf("given up: got %v", f)
		}
		if f := p.answer(credit); f["code"] != "not_found" {
			t.Errorf("credit of a feed that was given up: got %v", f)
		}
		p.send("feed", object{"feed": 2, "entity": "q", "nextSession": true})
	})
}

func TestASessionIsGivenBackWithItsMessages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		h.queue("q", withSessions)
		p := h.connect()
		p.ok("send", object{"entity": "q", "messages": []object{inSession("a", "a1")}})
		for _, give := range []func(){
			func() { p.ok("end", object{"feed": 1}) },
			func() { _ = p.ws.Close(); p = h.connect() },
		} {
			p.ok("feed", object{"feed": 1, "entity": "q", "nextSession": true, "credit": 1})
			if got := p.deliveries(1, 1)[0]; broke(got)["DeliveryCount"] != int64(1) {
				t.Errorf("got %v: giving back is no failed delivery", got)
			}
			give()
		}
		p.ok("feed", object{"feed": 1, "entity": "q", "nextSession": true, "credit": 1})
		p.deliveries(1, 1)
	})
}

func TestASessionsLockIsRenewedOrEndsTheFeed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		h.queue("q", withSessions)
		p := h.connect()
		p.ok("send", object{"entity": "q", "messages": []object{inSession("a", "a1")}})
		p.ok("feed", object{"feed": 1, "entity": "q", "session": "a", "credit": 1})
		p.deliveries(1, 1)
		began := time.Now()
		time.Sleep(40 * time.Second)
		if f := p.ok("renewSession", object{"feed": 1}); f["lockedUntil"] != time.Now().Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("got %v", f)
		}
		if f := p.await("ended"); f["code"] != "session_lock_lost" || f["feed"] != int64(1) || time.Since(began) < 100*time.Second {
			t.Errorf("after %v: got %v", time.Since(began), f)
		}
		p.refused("state", object{"feed": 1}, core.NotFound)
		p.ok("feed", object{"feed": 2, "entity": "q/$DeadLetterQueue"})
		p.refused("renewSession", object{"feed": 2}, core.NotAllowed)
	})
}
