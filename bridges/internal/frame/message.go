package frame

import (
	"math"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// Descriptors of body sections, AMQP 1.0 §3.2.7 and §3.2.8.
const (
	sequenceSection = 0x76
	valueSection    = 0x77
)

const (
	typeText = "text/plain; charset=utf-8"
	typeJSON = "application/json"
)

var bodies = map[string]func(m *core.Message, r *codec.Reader) error{
	"text": readTextBody, "json": readJSONBody, "binary": readBinaryBody, "value": readValueBody, "sequence": readSequenceBody,
}

func ReadMessage(r *codec.Reader) (*core.Message, error) {
	m := &core.Message{Body: core.Body{Kind: core.BodyNone}}
	body := ""
	if err := ReadMap(r, "a map with a message", func(name string) (err error) {
		read := bodies[name]
		switch {
		case name == "broker":
			return readBroker(r, m)
		case name == "properties":
			m.Properties, err = ReadProperties(r)
			return err
		case read == nil:
			return Wrong("is not a member of a message: use broker, properties and one of text, json, binary, value and sequence")
		case body != "":
			return Wrong("is a second body: the message already has %s", body)
		}
		body, m.Body.Kind = name, core.BodyData
		return read(m, r)
	}); err != nil {
		return nil, err
	}
	if !m.Has(core.FieldContentType, m.ContentType) {
		switch body {
		case "text":
			m.ContentType = typeText
		case "json":
			m.ContentType = typeJSON
		}
	}
	return m, nil
}

func ReadProperties(r *codec.Reader) (core.Properties, error) {
	if k := r.Kind(); k != codec.Map {
		return core.Properties{}, Wrong("is %s: it must be a map", k)
	}
	dst, mark := value.OpenMap(nil)
	n := 0
	for r.Open(); r.More(); n++ {
		key := r.Key()
		dst = value.AppendString(dst, key)
		var err error
		if dst, err = AppendValue(dst, r); err != nil {
			return core.Properties{}, In(string(key), err)
		}
	}
	if n == 0 {
		return core.Properties{}, nil
	}
	dst = value.CloseMap(dst, mark, n)
	if _, err := value.Skip(dst, value.Limits{}); err != nil { // refuses a key that occurs twice
		return core.Properties{}, Wrong("is not a valid map of properties: %v", err)
	}
	return core.RawProperties(dst), nil
}

func readTextBody(m *core.Message, r *codec.Reader) error {
	if k := r.Kind(); k != codec.Text {
		return Wrong("is %s: it must be a string", k)
	}
	m.Body.Bytes = kept(r.Text())
	return nil
}

// kept returns part in memory that stays valid: a large part in the frame, otherwise a copy.
func kept(part []byte) []byte {
	if len(part) >= Large {
		return part[:len(part):len(part)]
	}
	return append([]byte{}, part...)
}

func readJSONBody(m *core.Message, r *codec.Reader) error {
	if r.Encoding() != codec.JSON {
		if err := readTextBody(m, r); err != nil {
			return err
		}
		if !codec.ValidJSON(m.Body.Bytes, codec.MaxDepth) {
			return Wrong("is not valid JSON")
		}
		return nil
	}
	m.Body.Bytes = kept(r.Skip())
	return nil
}

func readBinaryBody(m *core.Message, r *codec.Reader) (err error) {
	m.Body.Bytes, err = ReadBinary(r)
	return err
}

func readValueBody(m *core.Message, r *codec.Reader) (err error) {
	m.Body.Kind = core.BodyValue
	m.Body.Bytes, err = AppendValue(value.AppendDescriptor(nil, valueSection), r)
	return err
}

func readSequenceBody(m *core.Message, r *codec.Reader) error {
	if k := r.Kind(); k != codec.List {
		return Wrong("is %s: it must be a list of lists", k)
	}
	m.Body.Kind = core.BodySequence
	i := 0
	for r.Open(); r.More(); i++ {
		if k := r.Kind(); k != codec.List {
			return At(i, Wrong("is %s: it must be a list", k))
		}
		var err error
		if m.Body.Bytes, err = AppendValue(value.AppendDescriptor(m.Body.Bytes, sequenceSection), r); err != nil {
			return At(i, err)
		}
	}
	if i == 0 {
		return Wrong("must contain at least one sequence")
	}
	return nil
}

// brokerProperties are the members of "broker" that a sender may set, by their Service Bus names.
var brokerProperties = func() map[string]func(m *core.Message, r *codec.Reader) error {
	all := map[string]func(m *core.Message, r *codec.Reader) error{
		"TimeToLive":              readTimeToLive,
		"ScheduledEnqueueTimeUtc": readScheduled,
	}
	for i := range core.MessageFields {
		f := &core.MessageFields[i]
		all[f.Name] = func(m *core.Message, r *codec.Reader) error { return readField(f, m, r) }
	}
	all["Subject"] = all["Label"]
	return all
}()

// givenByBroker are ignored in a sent message, so that clients can send a received message again.
var givenByBroker = map[string]bool{
	"SequenceNumber": true, "EnqueuedSequenceNumber": true, "EnqueuedTimeUtc": true, "ExpiresAtUtc": true, "DeliveryCount": true,
	"LockToken": true, "LockedUntilUtc": true, "State": true, "DeadLetterSource": true,
}

// readField decodes a text or, in the forms of AMQP 1.0 §3.2.11–14, an id.
func readField(f *core.MessageField, m *core.Message, r *codec.Reader) error {
	if f.Text != nil {
		s, err := ReadText(r)
		if err == nil {
			f.Set(m, s)
		}
		return err
	}
	v, err := Read(r)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		f.Set(m, v)
	case uint64:
		*f.ID(m) = core.ULongID(v)
	case value.UUID:
		*f.ID(m) = core.UUIDID(v)
	case []byte:
		*f.ID(m) = core.BinaryID(v)
	default:
		return Wrong("must be a string, or a value tagged as $ulong, $uuid or $binary")
	}
	return nil
}

func readTimeToLive(m *core.Message, r *codec.Reader) error {
	d, err := ReadSeconds(r)
	if err == nil && d <= 0 {
		err = Wrong("must be above 0")
	}
	m.TimeToLive = d
	return err
}

func readScheduled(m *core.Message, r *codec.Reader) (err error) {
	m.ScheduledEnqueueTime, err = ReadTime(r)
	return err
}

// ReadSeconds reads a number of seconds, rounded as by Milliseconds.
func ReadSeconds(r *codec.Reader) (time.Duration, error) {
	var seconds float64
	switch k := r.Kind(); k {
	case codec.Int:
		seconds = float64(r.Int())
	case codec.Uint, codec.Huge:
		seconds = math.Inf(1)
	case codec.Float, codec.Float32:
		var ok bool
		if seconds, ok = r.Float(); !ok || math.IsNaN(seconds) {
			return 0, Wrong("must be a number of seconds")
		}
	default:
		return 0, Wrong("is %s: it must be a number of seconds", k)
	}
	if seconds < 0 {
		return 0, Wrong("must not be negative")
	}
	return Milliseconds(seconds), nil
}

// Milliseconds converts a number of seconds, which must not be negative, to whole milliseconds. It
// returns at least 1 ms for any number above 0.
func Milliseconds(seconds float64) time.Duration {
	ms := math.Round(seconds * 1000)
	switch {
	case ms == 0 && seconds > 0:
		ms = 1
	case ms >= float64(core.Forever/time.Millisecond):
		return core.Forever
	}
	return time.Duration(ms) * time.Millisecond
}

func readBroker(r *codec.Reader, m *core.Message) error {
	if k := r.Kind(); k != codec.Map {
		return Wrong("is %s: it must be a map", k)
	}
	var seen []string
	for r.Open(); r.More(); {
		name := string(r.Key())
		if givenByBroker[name] {
			r.Skip()
			continue
		}
		set := brokerProperties[name]
		if set == nil {
			return In(name, Wrong("is not a broker property that a sender may set"))
		}
		if name == "Subject" {
			name = "Label"
		}
		if slices.Contains(seen, name) {
			return In(name, Wrong("appears twice"))
		}
		seen = append(seen, name)
		if err := set(m, r); err != nil {
			return In(name, err)
		}
	}
	return nil
}
