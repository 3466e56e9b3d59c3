package websocket

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

func TestBadFramesCloseTheConnection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{MaxFrame: 1 << 20}, "q")
		for _, c := range []struct {
			name     string
			protocol string
			signedIn bool
			kind     int
			data     string
			code     int
		}{
			{"no JSON", protocolJSON, true, websocket.TextMessage, `{"op":`, 1007},
			{"nothing", protocolJSON, true, websocket.TextMessage, ``, 1007},
			{"no map", protocolJSON, true, websocket.TextMessage, `[]`, 1007},
			{"no op", protocolJSON, true, websocket.TextMessage, `{"id": 2}`, 1007},
			{"op no text", protocolJSON, true, websocket.TextMessage, `{"op": 1, "id": 2}`, 1007},
			{"no UTF-8", protocolJSON, true, websocket.TextMessage, "{\"op\":\"\xff\",\"id\":2}", 1007},
			{"too deep", protocolJSON, true, websocket.TextMessage, `{"op":"auth","id":2,"token":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, 1007},
			{"no MessagePack", protocolPack, true, websocket.BinaryMessage, "\x81\xa2op", 1007},
			{"no map in MessagePack", protocolPack, true, websocket.BinaryMessage, "\x90", 1007},
			{"JSON in MessagePack", protocolPack, true, websocket.BinaryMessage, `{"op":"peek","id":2,"entity":"q"}`, 1007},
			{"no id", protocolJSON, true, websocket.TextMessage, `{"op":"peek","entity":"q"}`, 4400},
			{"id 0", protocolJSON, true, websocket.TextMessage, `{"op":"peek","id":0,"entity":"q"}`, 4400},
			{"id of a fraction", protocolJSON, true, websocket.TextMessage, `{"op":"peek","id":1.5,"entity":"q"}`, 4400},
			{"id too large", protocolJSON, true, websocket.TextMessage, `{"op":"peek","id":9007199254740992,"entity":"q"}`, 4400},
			{"id no number", protocolJSON, true, websocket.TextMessage, `{"op":"peek","id":"2","entity":"q"}`, 4400},
			{"binary where text was agreed on", protocolJSON, true, websocket.BinaryMessage, `{"op":"peek","id":2,"entity":"q"}`, 1003},
			{"text where binary was agreed on", protocolPack, true, websocket.TextMessage, `{"op":"peek","id":2,"entity":"q"}`, 1003},
			{"too large", protocolJSON, true, websocket.TextMessage, `{"op":"send","id":2,"entity":"q","messages":[{"text":"` + strings.Repeat("x", 1<<20) + `"}]}`, 1009},
			{"too large for a stranger", protocolJSON, false, websocket.TextMessage, `{"op":"auth","id":2,"token":"` + strings.Repeat("x", 64<<10) + `"}`, 1009},
			{"not signed in", protocolJSON, false, websocket.TextMessage, `{"op":"peek","id":2,"entity":"q"}`, 4401},
			{"an unknown operation, not signed in", protocolJSON, false, websocket.TextMessage, `{"op":"what","id":2}`, 4401},
		} {
			p := h.dial(c.protocol)
			if c.signedIn {
				p.ok("auth", object{"token": rootToken})
			}
			if err := p.ws.WriteMessage(c.kind, []byte(c.data)); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if code := p.closed(); code != c.code {
				t.Errorf("%s: got %d, want %d", c.name, code, c.code)
			}
		}
	})
}

func TestBadRequestsAreRefusedByName(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		p := h.connect()
		p.ok("feed", object{"feed": 1, "entity": "q"})
		for _, c := range []struct {
			members string // after op and id
			code    core.Code
			names   string // in the text
		}{
			{`"op": "what"`, core.InvalidArgument, `"what"`},
			{`"op": "peek"`, core.InvalidArgument, "entity"},
			{`"op": "peek", "entity": "q", "feed": 1`, core.InvalidArgument, "entity"},
			{`"op": "peek", "entity": "q", "colour": "red"`, core.InvalidArgument, "colour"},
			{`"op": "peek", "entity": "q", "token": "x"`, core.InvalidArgument, "token"},
			{`"op": "peek", "entity": "q", "entity": "r"`, core.InvalidArgument, "entity appears twice"},
			{`"op": "peek", "op": "peek", "entity": "q"`, core.InvalidArgument, "op appears twice"},
			{`"op": "peek", "entity": 5`, core.InvalidArgument, "entity is an integer"},
			{`"op": "peek", "entity": "q", "max": "5"`, core.InvalidArgument, "max"},
			{`"op": "peek", "entity": "q", "max": 0`, core.OutOfRange, "max"},
			{`"op": "peek", "entity": "q", "from": -1`, core.OutOfRange, "from"},
			{`"op": "peek", "entity": "q", "from": 1e3`, core.InvalidArgument, "from"},
			{`"op": "peek", "entity": "q", "from": 99999999999999999999`, core.OutOfRange, "from"},
			{`"op": "peek", "entity": "q", "bodies": "raw"`, core.InvalidArgument, "bodies"},
			{`"op": "peek", "entity": "q", "inState": "Locked"`, core.InvalidArgument, "inState"},
			{`"op": "peek", "feed": 1, "inState": "Active"`, core.InvalidArgument, "inState"},
			{`"op": "peek", "entity": "none"`, core.NotFound, "none"},
			{`"op": "send", "entity": "q"`, core.InvalidArgument, "'messages' is missing"},
			{`"op": "send", "entity": "q", "messages": []`, core.InvalidArgument, "messages is empty"},
			{`"op": "send", "entity": "q", "messages": {}`, core.InvalidArgument, "messages"},
			{`"op": "send", "entity": "q", "messages": [{}, {"broker": {"Lable": "x"}}]`, core.InvalidArgument, "messages[1].broker.Lable"},
			{`"op": "send", "entity": "q", "messages": [{"properties": {"a": [1]}}]`, core.InvalidArgument, "'a'"},
			{`"op": "send", "entity": "q", "messages": [{"properties": {"a": {"$int": 3000000000}}}]`, core.OutOfRange, "messages[0].properties.a.$int"},
			{`"op": "send", "entity": "q", "messages": [{"value": ` + strings.Repeat("[", 33) + strings.Repeat("]", 33) + `}]`, core.InvalidArgument, "nested"},
			{`"op": "send", "entity": "q", "messages": [` + strings.TrimSuffix(strings.Repeat("{},", 4501), ",") + `]`, core.OutOfRange, "messages"},
			{`"op": "send", "entity": "", "messages": [{}]`, core.NotFound, ""},
			{`"op": "cancel", "entity": "q", "sequenceNumbers": ["1"]`, core.InvalidArgument, "sequenceNumbers[0]"},
			{`"op": "feed", "feed": 1, "entity": "q"`, core.InvalidArgument, "Feed 1 is already open"},
			{`"op": "feed", "feed": 0, "entity": "q"`, core.OutOfRange, "feed"},
			{`"op": "feed", "feed": 2, "entity": "q", "mode": "look"`, core.InvalidArgument, "mode"},
			{`"op": "feed", "feed": 2, "entity": "q", "credit": 5001`, core.OutOfRange, "credit"},
			{`"op": "feed", "feed": 2, "entity": "q", "session": "a", "nextSession": true`, core.InvalidArgument, "nextSession"},
			{`"op": "feed", "feed": 2, "entity": "q", "session": "a", "wait": 5`, core.InvalidArgument, "wait"},
			{`"op": "feed", "feed": 2, "entity": "q", "nextSession": true, "wait": -5`, core.InvalidArgument, "wait"},
			{`"op": "feed", "feed": 2, "entity": "q", "nextSession": "yes"`, core.InvalidArgument, "nextSession"},
			{`"op": "feed", "feed": 2, "entity": "q", "session": "a"`, core.NotAllowed, ""},
			{`"op": "feed", "feed": 2, "entity": "q", "exclusive": false`, core.InvalidArgument, "exclusive"},
			{`"op": "feed", "feed": 2, "entity": "q", "session": "a", "exclusive": "no"`, core.InvalidArgument, "exclusive"},
			{`"op": "feed", "feed": 2, "entity": "q", "nextSession": true, "sessionLockToken": "00112233-4455-6677-8899-aabbccddeeff"`, core.InvalidArgument, "sessionLockToken"},
			{`"op": "feed", "feed": 2, "entity": "q", "session": "a", "exclusive": true, "sessionLockToken": "00112233-4455-6677-8899-aabbccddeeff"`, core.InvalidArgument, "sessionLockToken"},
			{`"op": "feed", "feed": 2, "entity": "q", "session": "a", "sessionLockToken": "x"`, core.InvalidArgument, "sessionLockToken"},
			{`"op": "feed", "feed": 2, "entity": "q", "session": "a", "sessionLockToken": "00000000-0000-0000-0000-000000000000"`, core.InvalidArgument, "sessionLockToken"},
			{`"op": "credit", "feed": 5, "credit": 1`, core.NotFound, "Feed 5"},
			{`"op": "settle", "entity": "q", "settlements": [{"outcome": "complete"}]`, core.InvalidArgument, "settlements[0].lockToken is missing"},
			{`"op": "settle", "entity": "q", "settlements": [{"lockToken": "x", "outcome": "complete"}]`, core.InvalidArgument, "settlements[0].lockToken"},
			{`"op": "settle", "entity": "q", "settlements": [{"lockToken": "00112233-4455-6677-8899-aabbccddeeff", "outcome": "lose"}]`, core.InvalidArgument, "settlements[0].outcome"},
			{`"op": "settle", "entity": "q", "settlements": [{"lockToken": "00112233-4455-6677-8899-aabbccddeeff", "outcome": "complete", "reason": "x"}]`, core.InvalidArgument, "settlements[0]"},
			{`"op": "settle", "entity": "q", "settlements": [{"lockToken": "00112233-4455-6677-8899-aabbccddeeff", "outcome": "complete", "properties": {}}]`, core.InvalidArgument, "settlements[0]"},
			{`"op": "settle", "entity": "q", "settlements": [{"lockToken": "00112233-4455-6677-8899-aabbccddeeff", "outcome": "defer", "why": 1}]`, core.InvalidArgument, "settlements[0].why"},
			{`"op": "purge", "entity": "q", "before": "now"`, core.InvalidArgument, "before"},
			{`"op": "purge", "before": "2026-01-31T12:00:00Z"`, core.InvalidArgument, "'entity' and 'feed'"},
			{`"op": "setState", "feed": 1`, core.InvalidArgument, "state"},
			{`"op": "setState", "feed": 1, "state": 5`, core.InvalidArgument, "state"},
			{`"op": "state", "feed": 1`, core.NotAllowed, "session"},
			{`"op": "entities", "kind": "queues"`, core.InvalidArgument, "kind"},
			{`"op": "entities", "kind": "subscription"`, core.InvalidArgument, "topic"},
			{`"op": "entities", "kind": "queue", "topic": "t"`, core.InvalidArgument, "topic"},
			{`"op": "entities", "kind": "queue", "top": 1001`, core.OutOfRange, "top"},
			{`"op": "create", "kind": "queue", "entity": "x", "settings": {"LockDurations": "PT1M"}`, core.InvalidArgument, "settings.LockDurations"},
			{`"op": "create", "kind": "queue", "entity": "x", "settings": {"LockDuration": 60}`, core.InvalidArgument, "settings.LockDuration"},
			{`"op": "create", "kind": "queue", "entity": "x", "settings": {"LockDuration": "1m"}`, core.InvalidArgument, "settings.LockDuration"},
			{`"op": "create", "kind": "queue", "entity": "x", "settings": {"RequiresSession": 1}`, core.InvalidArgument, "settings.RequiresSession"},
			{`"op": "create", "kind": "queue", "entity": "x", "settings": {"MaxDeliveryCount": "3"}`, core.InvalidArgument, "settings.MaxDeliveryCount"},
			{`"op": "create", "kind": "queue", "entity": "x", "settings": {"Status": "Open"}`, core.InvalidArgument, "Status"},
			{`"op": "create", "kind": "queue", "entity": "x", "settings": {"AuthorizationRules": [{"KeyName": "k", "Rights": ["Read"]}]}`, core.InvalidArgument, "settings.AuthorizationRules[0].Rights"},
			{`"op": "create", "kind": "queue", "entity": "x", "rule": {"name": "r"}`, core.InvalidArgument, "rule"},
			{`"op": "create", "kind": "queue", "entity": "x//y"`, core.InvalidArgument, "x//y"},
			{`"op": "update", "entity": "q", "settings": {"SupportOrdering": true, "DeadLetteringOnFilterEvaluationExceptions": true}`, core.InvalidArgument, "DeadLetteringOnFilterEvaluationExceptions"},
			{`"op": "createRule", "entity": "q", "rule": {"filter": {"kind": "like"}}`, core.InvalidArgument, "rule.filter.kind"},
			{`"op": "createRule", "entity": "q", "rule": {"filter": {"sql": "1=1"}}`, core.InvalidArgument, "rule.filter.kind"},
			{`"op": "createRule", "entity": "q", "rule": {"filter": {"kind": "true", "sql": "1=1"}}`, core.InvalidArgument, "rule.filter"},
			{`"op": "createRule", "entity": "q", "rule": {"filter": {"kind": "correlation"}}`, core.InvalidArgument, "rule.filter"},
			{`"op": "createRule", "entity": "q", "rule": {"filter": {"kind": "correlation", "correlation": {"Colour": "x"}}}`, core.InvalidArgument, "rule.filter.correlation.Colour"},
			{`"op": "createRule", "entity": "q", "rule": {"name": "a", "sql": "1=1"}`, core.InvalidArgument, "rule.sql"},
			{`"op": "deleteRule", "entity": "q", "name": 5`, core.InvalidArgument, "name"},
		} {
			p.id++
			p.write(fmt.Sprintf(`{"id": %d, %s}`, p.id, c.members))
			f := p.raw(p.id)
			if text, _ := f["text"].(string); f["code"] != string(c.code) || !strings.Contains(text, c.names) {
				t.Errorf("%.150s: got %v, want %s about %s", c.members, f, c.code, c.names)
			}
		}
	})
}

func TestAnIDThatIsUnderWayIsNotUsedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		h.queue("s", withSessions)
		p := h.connect()
		p.write(`{"op": "feed", "id": 9, "feed": 1, "entity": "s", "nextSession": true}`)
		p.write(`{"op": "peek", "id": 9, "entity": "s"}`)
		if code := p.closed(); code != 4400 {
			t.Errorf("got %d", code)
		}
	})
}

func TestLimitsAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{MaxFeeds: 3, MaxConnections: 2}, "q")
		h.queue("s", withSessions)
		p := h.connect()
		for i := range 3 {
			p.ok("feed", object{"feed": i + 1, "entity": "q"})
		}
		p.refused("feed", object{"feed": 4, "entity": "q"}, core.QuotaExceeded)
		p.ok("end", object{"feed": 2})
		p.ok("feed", object{"feed": 4, "entity": "q"})

		other := h.connect()
		_, refused, err := h.dialer(protocolJSON).Dial("ws://gateway"+Path, nil)
		if err == nil || refused.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a connection too many: got %v, %v", refused, err)
		}
		_ = other.ws.Close()
		synctest.Wait()
		_ = h.connect()
	})
}

// Connections that have not signed in do not count among those that there may be.
func TestStrangersAreNotCountedAsConnections(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{MaxConnections: 1}, "q")
		for range 3 {
			stranger, answer, err := h.dialer(protocolJSON).Dial("ws://gateway"+Path, nil)
			if err != nil {
				t.Fatalf("a connection that does not sign in: got %v, %v", answer, err)
			}
			t.Cleanup(func() { _ = stranger.Close() })
		}
		h.connect().ok("peek", object{"entity": "q"})
		if _, _, err := h.dialer(protocolJSON).Dial("ws://gateway"+Path, nil); err == nil {
			t.Error("a connection too many was let in")
		}
	})
}

// A client that repeats a large refused request at once would otherwise keep a processor busy.
func TestAConnectionRestsAfterALargeRefusedRequest(t *testing.T) {
	for name, c := range map[string]struct {
		messages int
		code     string
	}{
		"more messages than a request may have":       {2 * maxGroup, "out_of_range"},
		"no memory for the messages of a small frame": {1000, "quota_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := openHouse(t, Options{Pools: fair.Pools{Budget: fair.New(1<<20, nil, nil)}}).connect()
				messages := strings.Repeat(`{},`, c.messages) + `{}`
				start := time.Now()
				for i := range 2 {
					id := int64(100 + i)
					p.write(fmt.Sprintf(`{"op":"send","id":%d,"entity":"q","messages":[%s]}`, id, messages))
					if f := p.answer(id); f["code"] != c.code {
						t.Fatalf("got %v, want %s", f, c.code)
					}
					if took, want := time.Since(start), time.Duration(i)*fair.AfterRefusal; took != want {
						t.Errorf("request %d was refused after %v, want %v", i, took, want)
					}
				}
			})
		})
	}
}

func TestNothingIsReadWhileTooManyRequestsAreUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{MaxFeeds: 1000})
		h.queue("s", withSessions)
		p := h.connect()
		began := time.Now()
		var waits []int64
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for i := range maxRequests {
				waits = append(waits, p.send("feed", object{"feed": i + 1, "entity": "s", "nextSession": true, "wait": 90}))
			}
			p.send("peek", object{"entity": "s"}) // waits for the others to end
			p.send("peek", object{"entity": "s"}) // is not read
		}()
		time.Sleep(80 * time.Second) // pings are sent, and pongs cannot be read
		synctest.Wait()
		if len(p.in) > 0 {
			t.Fatalf("got %s while too many requests are under way", (<-p.in).data)
		}
		<-sent
		if f := p.answer(p.id); f["op"] != "ok" || time.Since(began) < 90*time.Second {
			t.Errorf("after %v: got %v", time.Since(began), f)
		}
		for _, id := range waits {
			if f := p.answer(id); f["code"] != "timeout" {
				t.Errorf("got %v", f)
			}
		}
	})
}

func TestOnlyPagesOfAllowedOriginsMayConnect(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{Origins: []string{"https://*.example.com"}})
		for origin, status := range map[string]int{
			"": 101, "http://gateway": 101, "https://app.example.com": 101, "https://evil.example": 403, "null": 403,
		} {
			header := http.Header{}
			if origin != "" {
				header.Set("Origin", origin)
			}
			ws, got, err := h.dialer(protocolJSON).Dial("ws://gateway"+Path, header)
			if got == nil || got.StatusCode != status {
				t.Errorf("%q: got %v, %v, want %d", origin, got, err, status)
			}
			if ws != nil {
				_ = ws.Close()
			}
		}
		if _, got, _ := h.dialer("mqtt").Dial("ws://gateway"+Path, nil); got == nil || got.StatusCode != http.StatusBadRequest {
			t.Errorf("another sub-protocol: got %v", got)
		}
		both := h.dialer(protocolJSON)
		both.Subprotocols = []string{protocolJSON, protocolPack}
		ws, _, err := both.Dial("ws://gateway"+Path, nil)
		if err != nil || ws.Subprotocol() != protocolPack {
			t.Errorf("of both: got %v", err)
		} else {
			_ = ws.Close()
		}
	})
}

func TestAClientThatDoesNotReadIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		filler := h.connect()
		big := strings.Repeat("x", 200<<10)
		for range 100 {
			filler.ok("send", object{"entity": "q", "messages": []object{{"broker": object{"ContentType": "x"}, "text": big}}})
		}
		ws, _, err := h.dialer(protocolJSON).Dial("ws://gateway"+Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		write := func(text string) {
			if err := ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		write(`{"op": "auth", "id": 1, "token": "` + rootToken + `"}`)
		if _, data, err := ws.ReadMessage(); err != nil || !strings.Contains(string(data), `"ok"`) {
			t.Fatalf("auth: got %s, %v", data, err)
		}
		write(`{"op": "feed", "id": 2, "feed": 1, "entity": "q", "credit": 1000}`)
		synctest.Wait()
		// What waits here is bounded, so that the others' messages stay in the store.
		f := filler.ok("feed", object{"feed": 1, "entity": "q", "credit": 100})
		drained := filler.ok("drain", object{"feed": 1})
		if left := 100 - drained["unspent"].(int64); f["op"] != "ok" || left < 20 {
			t.Errorf("others get %d of the 100 messages that a client does not read", left)
		}
		time.Sleep(32 * time.Second)
		began := time.Now()
		frames := 0
		for {
			if _, _, err = ws.ReadMessage(); err != nil {
				break
			}
			frames++
		}
		if !websocket.IsCloseError(err, 4408) || frames > 2 || time.Since(began) > lastWords {
			t.Errorf("after %d frames and %v: got %v", frames, time.Since(began), err)
		}
		_ = ws.Close()
	})
}

func TestAClientThatDoesNotAnswerPingsIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		p := h.dialWith(protocolJSON, func(ws *websocket.Conn) { ws.SetPingHandler(func(string) error { return nil }) })
		p.ok("auth", object{"token": rootToken})
		began := time.Now()
		if code := p.closed(); code != 4408 || time.Since(began) != time.Minute {
			t.Errorf("got %d after %v", code, time.Since(began))
		}
		quiet := h.connect()
		time.Sleep(10 * time.Minute)
		quiet.ok("entities", object{"kind": "queue"})
	})
}

func TestPingsOfClientsAreAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		pongs := make(chan string, 1)
		p := h.dialWith(protocolJSON, func(ws *websocket.Conn) {
			ws.SetPongHandler(func(data string) error { pongs <- data; return nil })
		})
		if err := p.ws.WriteControl(websocket.PingMessage, []byte("hello"), time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if got := <-pongs; got != "hello" {
			t.Errorf("got %q", got)
		}
	})
}

func TestGoodbyesAreAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		for _, code := range []int{websocket.CloseNormalClosure, websocket.CloseGoingAway, 4999} {
			p := h.connect()
			if err := p.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, "enough"), time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if got := p.closed(); got != code {
				t.Errorf("got %d, want %d back", got, code)
			}
		}
	})
}

func TestRequestsInProgressAreAnsweredWhenTheGatewayStops(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		h.queue("s", withSessions)
		p := h.connect()
		p.fill("q", 3)
		p.ok("feed", object{"feed": 1, "entity": "q", "credit": 1})
		got := p.deliveries(1, 1)
		waits := p.send("feed", object{"feed": 2, "entity": "s", "nextSession": true})
		settles := p.send("settle", object{"feed": 1, "settlements": []object{settlement(got[0], "complete")}})
		idle := h.dial(protocolPack)
		idle.ok("auth", object{"token": rootToken})
		synctest.Wait()
		began := time.Now()
		h.stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		if f := p.answer(waits); f["code"] != "timeout" {
			t.Errorf("the wait for a session: got %v", f)
		}
		if f := p.answer(settles); f["op"] != "ok" {
			t.Errorf("the settlement: got %v", f)
		}
		p.await("bye")
		if code := p.closed(); code != 1001 {
			t.Errorf("got %d", code)
		}
		idle.await("bye")
		if code := idle.closed(); code != 1001 {
			t.Errorf("idle: got %d", code)
		}
		if _, refused, _ := h.dialer(protocolJSON).Dial("ws://gateway"+Path, nil); refused == nil || refused.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a new connection: got %v", refused)
		}
	})
}

// raw waits for the answer to a request without looking at the schema.
func (p *peer) raw(id int64) object {
	p.tb.Helper()
	for {
		f, _ := parseJSON(p.tb, p.next().data).(object)
		if f["id"] == id {
			return f
		}
		p.kept = slices.Insert(p.kept, 0, f)
	}
}

// trickle is a connection on which reading takes its time.
type trickle struct {
	net.Conn
	slow atomic.Bool
}

func (c *trickle) Read(b []byte) (int, error) {
	if c.slow.Load() {
		time.Sleep(4 * time.Second)
		b = b[:min(len(b), 8<<10)]
	}
	return c.Conn.Read(b)
}

func TestAClientThatReadsSlowlyIsNotClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		filler := h.connect()
		for range 10 {
			filler.ok("send", object{"entity": "q", "messages": []object{{"text": strings.Repeat("x", 200<<10)}}})
		}
		var line *trickle
		d := h.dialer(protocolJSON)
		d.NetDialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := h.pipes.dial(ctx, network, address)
			line = &trickle{Conn: nc}
			return line, err
		}
		p := h.dialBy(d, func(*websocket.Conn) {})
		p.ok("auth", object{"token": rootToken})
		line.slow.Store(true)
		p.ok("feed", object{"feed": 1, "entity": "q", "credit": 10, "mode": "receiveAndDelete"})
		began := time.Now()
		defer time.Sleep(4 * time.Second) // for the last read to end
		defer func() { line.slow.Store(false); _ = p.ws.Close() }()
		p.deliveries(1, 10)
		if took := time.Since(began); took < 10*time.Minute {
			t.Errorf("2 MB at 2 KiB a second took only %v", took)
		}
	})
}

func TestAFaultOfTheGatewayHasItsOwnCode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		p := h.dial(protocolJSON)
		p.send("auth", object{"token": "panic"})
		if code := p.closed(); code != 1011 {
			t.Errorf("got %d", code)
		}
	})
}
