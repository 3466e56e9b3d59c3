package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
)

// trackingIn is how AMQP and HTTP errors tell their tracking id, in a text.
var trackingIn = regexp.MustCompile(`TrackingId:([0-9a-f-]{36})`)

// lineOf returns the only line of a gateway's log, in JSON, that has a tracking id,
// which a client has read in a text. The line may come a moment after the answer.
func (e *env) lineOf(text string) (line map[string]any) {
	e.Helper()
	id := text
	if m := trackingIn.FindStringSubmatch(text); m != nil {
		id = m[1]
	}
	if len(id) != 36 {
		e.Fatalf("no tracking id is in %q", text)
	}
	var found []string
	e.eventually("a line of the log has "+id, func() bool {
		found = nil
		for line := range strings.Lines(e.gw.log.String()) {
			if strings.Contains(line, id) && strings.HasSuffix(line, "\n") {
				found = append(found, line)
			}
		}
		return len(found) > 0
	})
	if err := json.Unmarshal([]byte(found[0]), &line); err != nil || line["tracking"] != id || len(found) > 1 {
		e.Fatalf("%v: %v", err, found)
	}
	return line
}

// wantLine checks what the log says of an error.
func (e *env) wantLine(text string, want map[string]any) map[string]any {
	e.Helper()
	line := e.lineOf(text)
	for key, v := range want {
		if line[key] != v {
			e.Errorf("%s: %s is %v, want %v", text, key, line[key], v)
		}
	}
	return line
}

// TestTrackingIDsFindLinesOfTheLog provokes errors by each protocol, and looks for
// each with what its client was told.
func TestTrackingIDsFindLinesOfTheLog(t *testing.T) {
	t.Parallel()
	e := &env{T: t, gw: own(t, "memory", "--log-format", "json"), plain: true}
	queue := e.queue(nil)
	e.send(queue, "one", "two", "three")

	t.Run("AMQP", func(t *testing.T) {
		e := &env{T: t, gw: e.gw, plain: true}
		// On one connection: a link that is refused, a message that is, and a settlement.
		conn, err := amqp.Dial(e.ctx(), "amqp://"+e.gw.host, &amqp.ConnOptions{SASLType: amqp.SASLTypePlain(devPolicy, devKey)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		s, err := conn.NewSession(e.ctx(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.NewSender(e.ctx(), "missing", nil)
		missing := e.wantLine(fmt.Sprint(err), map[string]any{"level": "INFO", "code": "not_found", "entity": "missing", "link": 1.0})
		if peer, _ := missing["peer"].(string); !strings.HasPrefix(peer, "127.0.0.1:") {
			t.Errorf("got peer %v", missing["peer"])
		}
		sender, err := s.NewSender(e.ctx(), queue, nil)
		if err != nil {
			t.Fatal(err)
		}
		m := amqp.NewMessage([]byte("hello"))
		m.Properties = &amqp.MessageProperties{MessageID: strings.Repeat("x", 200)}
		var first map[string]any
		for n := range 2 {
			line := e.wantLine(fmt.Sprint(sender.Send(e.ctx(), m, nil)), map[string]any{"code": "invalid_argument", "entity": queue, "link": 2.0, "conn": missing["conn"]})
			if n == 0 {
				first = line
			} else if line["delivery"] == first["delivery"] {
				t.Errorf("two deliveries have the id %v", line["delivery"])
			}
		}

		// A lock that somebody else has ended.
		r := e.receiver(queue)
		got := e.one(r)
		e.native().must(map[string]any{"op": "settle", "entity": queue, "settlements": []any{
			map[string]any{"lockToken": core.LockToken(got.LockToken).String(), "outcome": "complete"},
		}})
		err = r.CompleteMessage(e.ctx(), got, nil)
		e.wantLine(fmt.Sprint(err), map[string]any{"code": "lock_lost", "entity": queue})

		// A stranger's token.
		c := e.clientAs(devPolicy, "wrong")
		wrong, err := c.NewSender(queue, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = wrong.SendMessage(e.ctx(), &azservicebus.Message{}, nil)
		e.wantLine(fmt.Sprint(err), map[string]any{"code": "unauthorized", "operation": "put-token"})
	})

	t.Run("HTTP", func(t *testing.T) {
		e := &env{T: t, gw: e.gw, plain: true}
		a := e.wantHTTP(e.http(http.MethodPost, "missing/messages", "x", nil), http.StatusNotFound)
		e.wantLine(a.body, map[string]any{"level": "INFO", "code": "not_found", "method": "POST", "path": "/missing/messages", "status": 404.0})
		a = e.wantHTTP(e.httpAs("", http.MethodGet, queue, "", nil), http.StatusUnauthorized)
		e.wantLine(a.body, map[string]any{"code": "unauthorized", "path": "/" + queue, "status": 401.0})
		a = e.wantHTTP(e.http(http.MethodDelete, queue+"/messages/1/"+strings.Repeat("0", 32), "", nil), http.StatusNotFound)
		e.wantLine(a.body, map[string]any{"code": "lock_lost"})
		a = e.wantHTTP(e.http(http.MethodDelete, "$crosstown/metrics", "", nil), http.StatusMethodNotAllowed)
		var told struct{ Tracking string }
		if err := json.Unmarshal([]byte(a.body), &told); err != nil {
			t.Fatal(err)
		}
		e.wantLine(told.Tracking, map[string]any{"code": "not_allowed", "path": "/$crosstown/metrics"})
	})

	t.Run("WebSocket", func(t *testing.T) {
		e := &env{T: t, gw: e.gw, plain: true}
		n := e.native()
		missing := n.ask(map[string]any{"op": "send", "entity": "missing", "messages": []any{map[string]any{"text": "x"}}})
		line := e.wantLine(missing.Tracking, map[string]any{"level": "INFO", "code": "not_found", "entity": "missing", "operation": "send", "request": float64(n.last)})
		settled := n.must(map[string]any{"op": "peek", "entity": queue})
		if len(settled.Messages) == 0 {
			t.Fatal("nothing is there to peek at")
		}
		results := n.ask(map[string]any{"op": "settle", "entity": queue, "settlements": []any{map[string]any{"lockToken": "00000000-0000-0000-0000-000000000000", "outcome": "complete"}}}).Results
		e.wantLine(results[0].Tracking, map[string]any{"code": "lock_lost", "entity": queue, "conn": line["conn"]})
		feed := n.ask(map[string]any{"op": "feed", "feed": 7, "entity": "missing"})
		e.wantLine(feed.Tracking, map[string]any{"code": "not_found", "operation": "feed", "link": 7.0, "conn": line["conn"]})

		stranger, answer, err := (&websocket.Dialer{Subprotocols: []string{"crosstown.v1.json"}, HandshakeTimeout: patience}).DialContext(e.ctx(), "ws://"+e.gw.host+"/$crosstown/ws", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close() // it is empty
		defer func() { _ = stranger.Close() }()
		s := &native{env: e, conn: stranger}
		refused := s.ask(map[string]any{"op": "auth", "token": auth.SignSAS("http://"+e.gw.host+"/", devPolicy, "wrong", time.Now().Add(time.Hour))})
		if other := e.wantLine(refused.Tracking, map[string]any{"code": "unauthorized", "operation": "auth"}); other["conn"] == line["conn"] || other["conn"] == nil {
			t.Errorf("the stranger's connection is %v, the other's %v", other["conn"], line["conn"])
		}
	})
}

// TestStrangersCannotFillTheLog has one ask again and again.
func TestStrangersCannotFillTheLog(t *testing.T) {
	t.Parallel()
	e := &env{T: t, gw: own(t, "memory"), plain: true}
	for range 300 {
		e.httpAs("SharedAccessSignature no", http.MethodGet, strings.Repeat("q", 200), "", nil)
	}
	// 40 at once, and 2 a second: more only if that took minutes.
	if n := strings.Count(e.gw.log.String(), "msg=refused"); n < 40 || n > 200 {
		t.Errorf("the log has %d lines", n)
	}
	a := e.wantHTTP(e.http(http.MethodPost, "missing/messages", "", nil), http.StatusNotFound)
	e.eventually("the line about somebody known", func() bool {
		m := trackingIn.FindStringSubmatch(a.body)
		return m != nil && strings.Contains(e.gw.log.String(), m[1])
	})
}
