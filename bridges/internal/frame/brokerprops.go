package frame

import (
	"math"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

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
