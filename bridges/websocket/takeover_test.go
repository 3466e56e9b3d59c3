package websocket

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func TestASessionIsTakenOverWithItsMessages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		h.queue("q", withSessions)
		p := h.connect()
		p.ok("send", object{"entity": "q", "messages": []object{inSession("a", "1"), inSession("a", "2"), inSession("a", "3")}})
		token := p.ok("feed", object{"feed": 1, "entity": "q", "session": "a", "exclusive": false, "credit": 2})["sessionLockToken"]
		if _, err := core.ParseLockToken(fmt.Sprint(token)); err != nil {
			t.Fatalf("token: got %v", token)
		}
		got := p.deliveries(1, 2)
		time.Sleep(30 * time.Second)

		other := h.connect()
		other.refused("feed", object{"feed": 1, "entity": "q", "session": "a", "exclusive": false}, core.SessionLocked)
		other.refused("feed", object{"feed": 1, "entity": "q", "session": "a", "sessionLockToken": broke(got[0])["LockToken"]}, core.SessionLocked)
		other.refused("feed", object{"feed": 1, "entity": "q", "session": "b", "sessionLockToken": token}, core.SessionLockLost)
		taken := other.ok("feed", object{"feed": 1, "entity": "q", "session": "a", "sessionLockToken": token, "credit": 5})
		if until := time.Now().Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000Z"); taken["sessionLockToken"] != token || taken["session"] != "a" || taken["lockedUntil"] != until {
			t.Errorf("got %v, want the token %v until %s", taken, token, until)
		}
		if f := p.await("ended"); f["code"] != "session_lock_lost" || f["feed"] != int64(1) {
			t.Errorf("the former feed: got %v", f)
		}
		p.refused("settle", object{"feed": 1, "settlements": []object{settlement(got[0], "complete")}}, core.NotFound)
		if more := other.deliveries(1, 1); more[0]["text"] != "3" {
			t.Errorf("got %v, want the next message", more)
		}
		if f := other.ok("settle", object{"feed": 1, "settlements": []object{settlement(got[0], "complete"), settlement(got[1], "abandon")}}); fmt.Sprint(f["results"]) != "[<nil> <nil>]" {
			t.Errorf("settle: got %v", f)
		}
		if f := other.ok("settle", object{"feed": 1, "settlements": []object{settlement(got[0], "complete")}}); f["results"].([]any)[0].(object)["code"] != "lock_lost" {
			t.Errorf("settle again: got %v", f)
		}
		if again := other.deliveries(1, 1); again[0]["text"] != "2" || broke(again[0])["DeliveryCount"] != int64(2) {
			t.Errorf("got %v, want what was abandoned", again)
		}
	})
}

func TestSessionIsExclusiveByDefault(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		h.queue("q", withSessions)
		p := h.connect()
		for i, more := range []object{{}, {"exclusive": true}} {
			request := object{"feed": i + 1, "entity": "q", "session": fmt.Sprint(i)}
			maps.Copy(request, more)
			if f := p.ok("feed", request); f["sessionLockToken"] != nil {
				t.Errorf("%v: got %v", more, f)
			}
		}
	})
}

func TestASessionIsPurgedByItsFeed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		h.queue("q", withSessions)
		p := h.connect()
		p.ok("send", object{"entity": "q", "messages": []object{inSession("a", "1"), inSession("b", "2"), inSession("a", "3")}})
		p.ok("feed", object{"feed": 1, "entity": "q", "session": "a"})
		if f := p.ok("purge", object{"feed": 1, "before": "9999-12-31T23:59:59.999Z"}); f["count"] != int64(2) {
			t.Errorf("got %v", f)
		}
		p.ok("feed", object{"feed": 2, "entity": "q", "session": "b", "credit": 1})
		if got := p.deliveries(2, 1); got[0]["text"] != "2" {
			t.Errorf("the other session: got %v", got)
		}
	})
}
