package websocket

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/clients"
	"github.com/crosstown-mq/crosstown/core"
)

// inBubble runs a test under a fake clock.
func inBubble(t *testing.T, story func(t *testing.T)) {
	t.Parallel()
	synctest.Test(t, story)
}

func TestWhoeverDoesNotSignInIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		began := time.Now()
		if code := h.dial(protocolJSON).closed(); code != 4401 || time.Since(began) != 10*time.Second {
			t.Errorf("silent: got %d after %v", code, time.Since(began))
		}
		p := h.dial(protocolJSON)
		p.send("peek", object{"entity": "q"})
		if code := p.closed(); code != 4401 {
			t.Errorf("another frame: got %d", code)
		}
		p = h.dial(protocolJSON)
		for i := range 3 {
			if text := p.refused("auth", object{"token": "nonsense"}, core.Unauthorized); !strings.Contains(text, "InvalidSignature") {
				t.Errorf("token %d: got %q", i, text)
			}
		}
		if code := p.closed(); code != 4401 {
			t.Errorf("three tokens: got %d", code)
		}
	})
}

func TestRequestsMayFollowAuthAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.dial(protocolJSON)
		auth := p.send("auth", object{"token": rootToken})
		peek := p.send("peek", object{"entity": "q"})
		if f := p.answer(auth); f["op"] != "ok" {
			t.Errorf("auth: got %v", f)
		}
		if f := p.answer(peek); f["op"] != "ok" {
			t.Errorf("peek: got %v", f)
		}
	})
}

func TestSigningInSaysWhetherTheClientIsAnOperator(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{Clients: &clients.Registry{Home: "home"}})
		for _, c := range []struct {
			token, namespace string
			operator         bool
		}{
			{"root@home Manage ", "home", true},
			{"root@home Listen ", "home", false},
			{"root@home Manage orders", "home", false},
			{"root@rented Manage ", "rented", false},
		} {
			answer := h.dial(protocolJSON).ok("auth", object{"token": c.token})
			if answer["namespace"] != c.namespace || answer["operator"] != c.operator {
				t.Errorf("%s: got %v", c.token, answer)
			}
		}
	})
}

func TestRightsAddUpAndAreCheckedEachTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "a", "b")
		p := h.dial(protocolJSON)
		p.ok("auth", object{"token": "sender Send a"})
		one := []object{{"text": "x"}}
		p.ok("send", object{"entity": "a", "messages": one})
		if text := p.refused("send", object{"entity": "b", "messages": one}, core.Unauthorized); !strings.Contains(text, "'Send'") || !strings.Contains(text, "'b'") {
			t.Errorf("got %q, want the claim and the resource", text)
		}
		p.refused("feed", object{"feed": 1, "entity": "a"}, core.Unauthorized)
		p.refused("peek", object{"entity": "a"}, core.Unauthorized)
		p.refused("settle", object{"entity": "a", "settlements": []object{{"lockToken": "00112233-4455-6677-8899-aabbccddeeff", "outcome": "complete"}}}, core.Unauthorized)
		p.refused("entity", object{"entity": "a"}, core.Unauthorized)
		p.refused("connections", nil, core.Unauthorized)
		p.ok("auth", object{"token": "listener Listen a"})
		p.ok("feed", object{"feed": 1, "entity": "a", "credit": 1})
		p.deliveries(1, 1)
		p.ok("send", object{"entity": "a", "messages": one})
	})
}

func TestAConnectionLivesAsLongAsItsRights(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "a", "b")
		p := h.dial(protocolJSON)
		began := time.Now()
		p.ok("auth", object{"token": "one Listen a 90s"})
		p.ok("auth", object{"token": "two Manage b 3m"})
		p.ok("feed", object{"feed": 1, "entity": "a"})
		p.ok("feed", object{"feed": 2, "entity": "b"})
		ended := p.await("ended")
		if ended["feed"] != int64(1) || ended["code"] != "unauthorized" || time.Since(began) != 90*time.Second {
			t.Errorf("after %v: got %v", time.Since(began), ended)
		}
		expiring := p.await("expiring")
		if at := began.Add(3 * time.Minute).UTC().Format("2006-01-02T15:04:05.000Z"); expiring["expires"] != at || time.Since(began) != 2*time.Minute {
			t.Errorf("after %v: got %v, want %s", time.Since(began), expiring, at)
		}
		p.ok("auth", object{"token": "two Manage b 3m"})
		if p.await("expiring"); time.Since(began) != 4*time.Minute {
			t.Errorf("a renewed token was said to expire after %v", time.Since(began))
		}
		if code := p.closed(); code != 4401 || time.Since(began) != 5*time.Minute {
			t.Errorf("got %d after %v, want 4401 when all rights have ended", code, time.Since(began))
		}
	})
}
