package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
)

// protocol is a way into the gateway, to one queue.
type protocol struct {
	name string
	// sends is what of the sample it can send.
	sends []sampleProperty
	send  func()
	// receive takes a message under a lock.
	receive func() *shown
	// settle completes or abandons by the lock token, and reports whether the lock was held.
	settle func(s *shown, complete bool) bool
}

// Sent by each protocol, received by each, settled through each: every property
// arrives as the receiving protocol can show it, and a lock taken by one
// protocol is any other's to settle, once.
func TestEveryProtocolUnderstandsEveryOther(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		all := []protocol{e.overHTTPS(queue), e.overAMQP(queue), e.overWebSocket(queue)}
		for _, from := range all {
			for j, to := range all {
				for k, by := range all {
					again := all[(j+1+k)%len(all)]
					from.send()
					first := to.receive()
					first.check(e, from.sends, 1)
					if !by.settle(first, false) {
						e.Errorf("a lock of %s is lost to %s", to.name, by.name)
					}
					second := again.receive()
					second.check(e, from.sends, 2)
					if from.settle(first, true) {
						e.Errorf("%s completes by the lock of %s that %s has ended", from.name, to.name, by.name)
					}
					if !by.settle(second, true) {
						e.Errorf("a lock of %s is lost to %s", again.name, by.name)
					}
					for _, late := range all {
						if late.settle(second, true) {
							e.Errorf("%s completes what %s has completed", late.name, by.name)
						}
					}
					if e.Failed() {
						e.Fatalf("sent over %s, received over %s, abandoned over %s, received over %s", from.name, to.name, by.name, again.name)
					}
				}
			}
		}
		if c := e.runtime(queue); c.TotalMessageCount != 0 {
			e.Errorf("%d messages are left", c.TotalMessageCount)
		}
	})
}

func (e *env) overHTTPS(queue string) protocol {
	return protocol{
		name: "HTTPS", sends: sampleHeaders,
		send: func() {
			e.wantHTTP(e.http(http.MethodPost, queue+"/messages", sampleBody, sampleHTTP(sampleHeaders)), http.StatusCreated)
		},
		receive: func() *shown {
			a := e.wantHTTP(e.http(http.MethodPost, queue+"/messages/head?timeout=10", "", nil), http.StatusCreated)
			s := &shown{
				broker: map[string]string{}, properties: map[string]any{}, body: a.body,
				as: func(p sampleProperty) (any, bool) { return p.header, p.header != "" },
			}
			for name, v := range a.broker(e) {
				s.broker[name] = fmt.Sprint(v)
				if number, ok := v.(float64); ok {
					s.broker[name] = strconv.FormatFloat(number, 'f', -1, 64)
				}
				if at, err := http.ParseTime(s.broker[name]); err == nil {
					s.broker[name] = at.Format(time.RFC3339)
				}
			}
			for name, values := range a.header {
				switch name {
				case "Content-Type":
					s.broker["ContentType"] = values[0]
				case "Brokerproperties", "Location", "Date", "X-Content-Type-Options", "Vary":
				default:
					s.properties[name] = values[0]
				}
			}
			s.identify(e)
			return s
		},
		settle: func(s *shown, complete bool) bool {
			method := http.MethodPut
			if complete {
				method = http.MethodDelete
			}
			a := e.http(method, fmt.Sprintf("%s/messages/%d/%s", queue, s.number, s.token), "", nil)
			if a.status != http.StatusOK && a.status != http.StatusNotFound {
				e.Fatalf("settle: got %d %s", a.status, a.body)
			}
			return a.status == http.StatusOK
		},
	}
}

func (e *env) overAMQP(queue string) protocol {
	return protocol{
		name: "AMQP", sends: sampleTyped,
		send: func() {
			w := e.wire(queue, false)
			defer w.close()
			w.send(sampleAMQP(e, sampleTyped))
		},
		receive: func() *shown {
			w := e.wire(queue, true)
			defer w.close()
			message, err := sections(w.receive())
			if err != nil {
				e.Fatal(err)
			}
			s := &shown{broker: map[string]string{}, properties: map[string]any{}, as: func(p sampleProperty) (any, bool) { return p.value, true }}
			data, _ := message[0x75].([]byte)
			s.body = string(data)
			s.readAMQP(e, message)
			s.identify(e)
			return s
		},
		settle: func(s *shown, complete bool) bool {
			disposition := "abandoned"
			if complete {
				disposition = "completed"
			}
			a := e.ask(queue, "com.microsoft:update-disposition", map[string]any{"disposition-status": disposition, "lock-tokens": uuids(e, s.token)})
			status := a.ApplicationProperties["statusCode"]
			if status != int32(http.StatusOK) && fmt.Sprint(a.ApplicationProperties["errorCondition"]) != "com.microsoft:message-lock-lost" {
				e.Fatalf("settle: got %v", a.ApplicationProperties)
			}
			return status == int32(http.StatusOK)
		},
	}
}

// readAMQP reads what sections say of a message beside its body.
func (s *shown) readAMQP(e *env, message map[uint64]any) {
	e.Helper()
	put := func(name string, v any) {
		switch v := v.(type) {
		case nil:
		case value.Timestamp:
			s.broker[name] = v.Time().Format(time.RFC3339)
		case value.UUID:
			s.broker[name] = v.String()
		default:
			s.broker[name] = fmt.Sprint(v)
		}
	}
	list := func(section uint64, i int) any {
		if fields, _ := message[section].(value.List); i < len(fields) {
			return fields[i]
		}
		return nil
	}
	ttl, _ := list(0x70, 2).(uint32)
	failures, _ := list(0x70, 4).(uint32)
	put("TimeToLive", (time.Duration(ttl) * time.Millisecond).Seconds())
	put("DeliveryCount", failures+1) // those before this one travel
	for i, name := range []string{
		"MessageId", "", "To", "Label", "ReplyTo", "CorrelationId", "ContentType", "", "ExpiresAtUtc", "", "SessionId", "", "ReplyToSessionId",
	} {
		put(name, list(0x73, i))
	}
	delete(s.broker, "")
	brief, _ := message[0x71].(value.Map)
	notes, _ := message[0x72].(value.Map)
	for _, a := range append(brief, notes...) {
		key, _ := a.Key.(value.Symbol)
		name, ok := map[value.Symbol]string{
			"x-opt-lock-token": "LockToken", "x-opt-partition-key": "PartitionKey", "x-opt-via-partition-key": "ViaPartitionKey",
			"x-opt-scheduled-enqueue-time": "ScheduledEnqueueTimeUtc", "x-opt-enqueued-time": "EnqueuedTimeUtc",
			"x-opt-sequence-number": "SequenceNumber", "x-opt-enqueue-sequence-number": "EnqueuedSequenceNumber", "x-opt-locked-until": "LockedUntilUtc",
		}[key]
		if !ok {
			e.Errorf("got the annotation %v", a)
		}
		put(name, a.Value)
	}
	s.broker["State"] = "Active" // which does not travel
	user, _ := message[0x74].(value.Map)
	for _, p := range user {
		key, _ := p.Key.(string)
		s.properties[key] = p.Value
	}
}

func (e *env) overWebSocket(queue string) protocol {
	n := e.native()
	n.must(map[string]any{"op": "feed", "feed": 1, "entity": queue})
	return protocol{
		name: "WebSocket", sends: sampleTyped,
		send: func() {
			n.must(map[string]any{"op": "send", "entity": queue, "messages": []json.RawMessage{json.RawMessage(sampleJSON(sampleTyped))}})
		},
		receive: func() *shown {
			n.must(map[string]any{"op": "credit", "feed": 1, "credit": 1})
			m := members(e, n.next())
			s := &shown{broker: map[string]string{}, properties: map[string]any{}, as: func(p sampleProperty) (any, bool) { return p.json, true }}
			if err := json.Unmarshal([]byte(m["text"]), &s.body); err != nil {
				e.Errorf("body: got %v, %v", m, err)
			}
			for name, v := range members(e, json.RawMessage(m["broker"])) {
				s.broker[name] = v
				var text string
				if json.Unmarshal([]byte(v), &text) != nil {
					continue
				}
				s.broker[name] = text
				if strings.HasSuffix(name, "Utc") {
					s.broker[name] = strings.Replace(text, ".000Z", "Z", 1)
				}
			}
			for name, v := range members(e, json.RawMessage(m["properties"])) {
				s.properties[name] = v
			}
			s.identify(e)
			return s
		},
		settle: func(s *shown, complete bool) bool {
			outcome := "abandon"
			if complete {
				outcome = "complete"
			}
			r := n.ask(map[string]any{"op": "settle", "entity": queue, "settlements": []any{map[string]any{"lockToken": s.token, "outcome": outcome}}})
			if r.Op != "ok" || len(r.Results) != 1 || r.Results[0] != nil && r.Results[0].Code != "lock_lost" {
				e.Fatalf("settle: got %+v", r)
			}
			return r.Results[0] == nil
		},
	}
}
