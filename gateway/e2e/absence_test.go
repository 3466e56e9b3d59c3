package e2e

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/crosstown-mq/crosstown/core/value"
)

// A message without a body, and a text that is empty, are neither an empty body nor an absent text, whatever way they take.
func TestAbsenceIsNotEmptiness(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		overAMQP := func() {
			w := e.wire(queue, false)
			defer w.close()
			// No body; subject and correlation-id are empty, reply-to is absent.
			w.send(section(e, 0x73, value.List{nil, nil, nil, "", nil, ""}))
		}
		overWebSocket := func() {
			e.native().must(map[string]any{"op": "send", "entity": queue, "messages": []any{
				map[string]any{"broker": map[string]any{"Label": "", "CorrelationId": ""}},
			}})
		}
		overHTTPS := func() {
			h := http.Header{"Content-Type": {"application/vnd.microsoft.servicebus.json"}}
			batch := `[{"BrokerProperties":{"Label":"","CorrelationId":""}}]`
			e.wantHTTP(e.http(http.MethodPost, queue+"/messages", batch, h), http.StatusCreated)
		}
		for from, send := range map[string]func(){"AMQP": overAMQP, "WebSocket": overWebSocket, "HTTPS": overHTTPS} {
			send()
			w := e.wire(queue, true)
			message, err := sections(w.receive())
			w.close()
			if err != nil {
				e.Fatal(err)
			}
			fields, _ := message[0x73].(value.List)
			if len(fields) < 6 || fields[3] != "" || fields[4] != nil || fields[5] != "" {
				e.Errorf("%s to AMQP: got the properties %v", from, fields)
			}
			for _, body := range []uint64{0x75, 0x76, 0x77} {
				if v, ok := message[body]; ok {
					e.Errorf("%s to AMQP: got a body %v", from, v)
				}
			}
			number, _ := message[0x72].(value.Map).Get("x-opt-sequence-number")
			peeked := e.native().ask(map[string]any{"op": "peek", "entity": queue, "from": number})
			shown := members(e, peeked.Messages[0])
			broker := members(e, json.RawMessage(shown["broker"]))
			if len(shown) != 1 || broker["Label"] != `""` || broker["CorrelationId"] != `""` || broker["ReplyTo"] != "" {
				e.Errorf("%s to WebSocket: got %v", from, shown)
			}
			send()
			a := e.wantHTTP(e.http(http.MethodDelete, queue+"/messages/head?timeout=10", "", nil), http.StatusOK)
			all := a.broker(e)
			_, replies := all["ReplyTo"]
			if a.body != "" || a.header["Content-Type"] != nil || all["Label"] != "" || all["CorrelationId"] != "" || replies {
				e.Errorf("%s to HTTPS: got %q, %v, %v", from, a.body, a.header, all)
			}
		}
	})
}
