package websocket

import (
	"fmt"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// leavings are the ways in which a client ends a connection.
var leavings = map[string]func(p *peer){
	"says goodbye": func(p *peer) {
		goodbye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = p.ws.WriteControl(websocket.CloseMessage, goodbye, time.Now().Add(time.Minute))
		_ = p.ws.Close()
	},
	"breaks off": func(p *peer) { _ = p.ws.Close() },
}

// What a client has written before it leaves is done, although it reads no answer.
func TestWhatAClientWroteBeforeItLeftIsDone(t *testing.T) {
	const n = 40
	for name, leave := range leavings {
		for _, entity := range []string{"q", "sessions"} {
			t.Run(name+" "+entity, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					h := openHouse(t, Options{}, "q")
					h.queue("sessions", withSessions)
					p := h.connect()
					opening := object{"feed": 1, "entity": entity, "credit": n}
					if entity == "sessions" {
						opening["session"] = "s"
					}
					for i := range n {
						p.send("send", object{"entity": entity, "messages": []object{inSession("s", fmt.Sprint(i))}})
					}
					leave(p)
					time.Sleep(time.Second)
					p = h.connect()
					p.ok("feed", opening)
					for _, m := range p.deliveries(1, n) {
						p.send("settle", object{"feed": 1, "settlements": []object{settlement(m, "complete")}})
					}
					leave(p)
					time.Sleep(time.Second)
					p = h.connect()
					if left := p.ok("peek", object{"entity": entity, "max": 2 * n})["messages"].([]any); len(left) > 0 {
						t.Errorf("%d messages were settled and are left", len(left))
					}
					if entity == "sessions" {
						p.ok("feed", object{"feed": 1, "entity": entity, "session": "s", "credit": 1})
					}
				})
			})
		}
	}
}
