package websocket

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/core"
)

// FuzzFrames sends frames of a client that has signed in. Each is answered by
// its id, or closes the connection with a code of the protocol.
func FuzzFrames(f *testing.F) {
	for _, seed := range []string{
		`{"op":"send","id":2,"entity":"q","messages":[{"broker":{"MessageId":"m","TimeToLive":1.5},"properties":{"a":{"$int":1}},"json":{"a":1}}]}`,
		`{"op":"feed","id":3,"feed":1,"entity":"q","credit":10,"mode":"peekLock","bodies":"binary"}`,
		`{"op":"feed","id":3,"feed":2,"entity":"s","session":"a"}`,
		`{"op":"credit","id":4,"feed":1,"credit":5}`, `{"op":"drain","id":5,"feed":1}`, `{"op":"end","id":6,"feed":1}`,
		`{"op":"settle","id":7,"entity":"q","settlements":[{"lockToken":"00112233-4455-6677-8899-aabbccddeeff","outcome":"deadLetter","reason":"r","properties":{"a":1}}]}`,
		`{"op":"renew","id":8,"entity":"q","lockTokens":["00112233-4455-6677-8899-aabbccddeeff"]}`,
		`{"op":"peek","id":9,"entity":"q","from":1,"max":5}`, `{"op":"receiveDeferred","id":10,"entity":"q","sequenceNumbers":[1]}`,
		`{"op":"purge","id":11,"entity":"q","before":"2026-01-31T12:00:00Z"}`, `{"op":"setState","id":12,"feed":2,"state":{"$binary":"AA=="}}`,
		`{"op":"entities","id":13,"kind":"subscription","topic":"t"}`, `{"op":"update","id":14,"entity":"q","settings":{"LockDuration":"PT30S","Status":"Active"}}`,
		`{"op":"testRules","id":15,"entity":"t","message":{"text":"x"},"rules":[{"name":"r","filter":{"kind":"sql","sql":"a = @b","parameters":{"b":1}},"action":"SET c = 1"}]}`,
		`{"op":"createRule","id":16,"entity":"t/Subscriptions/s","rule":{"filter":{"kind":"correlation","correlation":{"Label":"x","properties":{"a":1}}}}}`,
		`{"op":"connections","id":17}`, `{"op":"auth","id":18,"token":"x"}`, `{"op":"x"}`, `{`,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	h := openHouse(f, Options{}, "q")
	h.queue("s", withSessions)
	if _, err := h.broker.CreateEntity(context.Background(), root, core.Topic, "t", core.DefaultSettings(core.Topic), nil); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, pack bool) {
		protocol, kind := protocolJSON, websocket.TextMessage
		if pack {
			protocol, kind = protocolPack, websocket.BinaryMessage
		}
		ws, _, err := h.dialer(protocol).Dial("ws://gateway"+Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ws.Close() }()
		p := &peer{tb: t, ws: ws, pack: pack, asked: map[int64]string{}, in: make(chan input, 1000)}
		go p.read()
		p.ok("auth", object{"token": "fuzz Send,Listen "})
		clear(p.asked) // what is sent may have the same id
		if err := ws.WriteMessage(kind, data); err != nil {
			t.Fatal(err)
		}
		_ = ws.WriteMessage(p.encode(`{"op": "peek", "id": 9007199254740991, "entity": "none"}`)) // unless that has closed it
		for {
			next := p.next()
			if next.err == nil {
				if f := p.decode(next); f["id"] == int64(9007199254740991) {
					return
				}
				continue
			}
			if closed, ok := errors.AsType[*websocket.CloseError](next.err); !ok || !slices.Contains([]int{1007, 4400, 4401}, closed.Code) {
				t.Fatalf("got %v", next.err)
			}
			return
		}
	})
}
