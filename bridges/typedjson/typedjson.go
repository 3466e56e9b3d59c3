// Package typedjson writes and reads typed values as JSON, in the form of the WebSocket protocol. A
// value whose type JSON does not have is an object with one member, such as {"$int":5}. PROTOCOL.md
// in bridges/websocket lists these objects. The package is for tools that store messages as text.
package typedjson

import (
	"encoding/json"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

func Value(v any) json.RawMessage {
	w := codec.NewWriter(codec.JSON, nil)
	frame.Write(w, v)
	return w.Bytes()
}

func ParseValue(data []byte) (any, error) {
	r, err := reader(data)
	if err != nil {
		return nil, err
	}
	return frame.Read(r)
}

func Properties(p core.Properties) json.RawMessage {
	w := codec.NewWriter(codec.JSON, nil)
	frame.WriteProperties(w, p)
	return w.Bytes()
}

func ParseProperties(data []byte) (core.Properties, error) {
	r, err := reader(data)
	if err != nil {
		return core.Properties{}, err
	}
	return frame.ReadProperties(r)
}

func reader(data []byte) (*codec.Reader, error) {
	if !codec.ValidJSON(data, codec.MaxDepth) {
		return nil, frame.Wrong("is not JSON")
	}
	r := frame.NewReader(codec.JSON)
	r.Reset(data, true)
	return r, nil
}
