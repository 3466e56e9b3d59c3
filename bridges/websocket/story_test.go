package websocket

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// inBoth runs a test in both encodings.
func inBoth(t *testing.T, story func(t *testing.T, protocol string)) {
	t.Parallel()
	for _, protocol := range []string{protocolJSON, protocolPack} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			story(t, protocol)
		})
	}
}

func TestAMessageIsSentReceivedAndSettled(t *testing.T) {
	inBoth(t, func(t *testing.T, protocol string) {
		h := openHouse(t, Options{}, "orders")
		p := h.dial(protocol)
		signedIn := p.ok("auth", object{"token": rootToken})
		if signedIn["policy"] != "root" || signedIn["scope"] != "" || fmt.Sprint(signedIn["rights"]) != "[Send Listen Manage]" || signedIn["expires"] != nil || signedIn["connection"] == "" {
			t.Errorf("auth: got %v", signedIn)
		}
		sent := p.ok("send", object{"entity": "orders", "messages": []object{
			{"broker": object{"MessageId": "m-1", "Label": "first"}, "properties": object{"n": 1}, "text": "one"},
			{"text": "two"},
		}})
		if fmt.Sprint(sent["sequenceNumbers"]) != "[1 2]" {
			t.Errorf("send: got %v", sent)
		}
		p.ok("feed", object{"feed": 1, "entity": "orders", "credit": 1})
		got := p.deliveries(1, 1)[0]
		if b := broke(got); b["MessageId"] != "m-1" || b["Label"] != "first" || b["SequenceNumber"] != int64(1) || b["DeliveryCount"] != int64(1) || got["text"] != "one" || got["properties"].(object)["n"] != int64(1) {
			t.Errorf("delivery: got %v", got)
		}
		settled := p.ok("settle", object{"feed": 1, "settlements": []object{{"lockToken": broke(got)["LockToken"], "outcome": "complete"}}})
		if fmt.Sprint(settled["results"]) != "[<nil>]" {
			t.Errorf("settle: got %v", settled)
		}
		again := p.ok("settle", object{"entity": "orders", "settlements": []object{{"lockToken": broke(got)["LockToken"], "outcome": "complete"}}})
		if result := again["results"].([]any)[0].(object); result["code"] != "lock_lost" || result["retriable"] != false {
			t.Errorf("settle again: got %v", again)
		}
		p.ok("credit", object{"feed": 1, "credit": 5})
		second := p.deliveries(1, 1)[0]
		drained := p.ok("drain", object{"feed": 1})
		if drained["unspent"] != int64(4) {
			t.Errorf("drain: got %v", drained)
		}
		p.ok("settle", object{"feed": 1, "settlements": []object{{"lockToken": broke(second)["LockToken"], "outcome": "deadLetter", "reason": "tired", "description": "of it", "properties": object{"x": 1.5}}}})
		peeked := p.ok("peek", object{"entity": "orders/$DeadLetterQueue"})["messages"].([]any)
		if len(peeked) != 1 {
			t.Fatalf("peek: got %v", peeked)
		}
		if props := peeked[0].(object)["properties"].(object); props["DeadLetterReason"] != "tired" || props["DeadLetterErrorDescription"] != "of it" || props["x"] != 1.5 {
			t.Errorf("dead letter: got %v", peeked[0])
		}
		p.ok("end", object{"feed": 1})
		p.refused("credit", object{"feed": 1, "credit": 1}, core.NotFound)
	})
}
