package builtin

import (
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

const typeCloudEvents = "application/cloudevents+json"

// decodeEvent reads an event in the CloudEvents JSON event format 1.0. It returns a map with the
// attributes and, if the event has any data, "data": binary data for data_base64, otherwise any
// value.
func decodeEvent(_ string, payload []byte) (any, error) {
	v, err := decodeWith(codec.JSON, "JSON", payload)
	if err != nil {
		return nil, err
	}
	m, ok := v.(value.Map)
	if !ok {
		return nil, errNoEvent
	}
	event := make(value.Map, 0, len(m))
	hasData := false
	for _, e := range m {
		switch name := e.Key.(string); name {
		case "data", "data_base64":
			if hasData {
				return nil, fmt.Errorf("not a CloudEvent: the event has both data and data_base64")
			}
			hasData = true
			if name == "data_base64" {
				text, _ := e.Value.(string)
				data, err := base64.StdEncoding.DecodeString(text)
				if err != nil {
					return nil, fmt.Errorf("not a CloudEvent: data_base64 is not base64")
				}
				e = value.Entry{Key: "data", Value: data}
			}
		case "time":
			e.Value = instantOf(e.Value)
		}
		event = append(event, e)
	}
	return event, checkEvent(event)
}

// instantOf converts RFC 3339 strings of whole milliseconds to timestamps, and nothing else.
func instantOf(v any) any {
	text, ok := v.(string)
	if !ok {
		return v
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Nanosecond()%int(time.Millisecond) != 0 {
		return v
	}
	return value.TimestampOf(t)
}

func encodeEvent(_ string, v any) (payload []byte, produced string, err error) {
	event, ok := v.(value.Map)
	if !ok {
		return nil, "", errNoEvent
	}
	if err := checkEvent(event); err != nil {
		return nil, "", err
	}
	out := make(value.Map, len(event))
	for i, e := range event {
		if data, ok := e.Value.([]byte); ok && e.Key == "data" {
			e = value.Entry{Key: "data_base64", Value: data}
		}
		out[i] = e
	}
	payload, _, err = encodeJSON(typeJSON, out)
	return payload, typeCloudEvents, err
}

var errNoEvent = fmt.Errorf("not a CloudEvent: the payload is not a map with specversion, id, source and type")

// checkEvent checks that required attributes are present, and the names and types of all attributes
// (CloudEvents 1.0, "Context Attributes" and "Type System").
func checkEvent(event value.Map) error {
	for _, name := range [...]string{"specversion", "id", "source", "type"} {
		v, _ := event.Get(name)
		if text, _ := v.(string); text == "" {
			return errNoEvent
		}
	}
	if version, _ := event.Get("specversion"); version != "1.0" {
		return fmt.Errorf("not a supported CloudEvent: specversion is %.20s, but must be 1.0", value.Text(version))
	}
	for _, e := range event {
		name, ok := e.Key.(string)
		if !ok || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return fmt.Errorf("not a CloudEvent: %.40q is not a valid name of an attribute", value.Text(e.Key))
		}
		if name != "data" && !isAttribute(e.Value) {
			return fmt.Errorf("not a CloudEvent: the attribute %.40s is not a string, a boolean or a 32-bit integer", name)
		}
	}
	return nil
}

func isAttribute(v any) bool {
	switch v := v.(type) {
	case string, bool, []byte, value.Timestamp, int32:
		return true
	case int64:
		return v >= math.MinInt32 && v <= math.MaxInt32
	}
	return false
}
