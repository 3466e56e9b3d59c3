package frame

import (
	"encoding/base64"
	"io"
	"iter"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// WriteDelivery writes a received message, with the body as bytes if binary is true.
func WriteDelivery(w codec.Writer, d core.Delivery, binary bool) {
	writeMessage(w, d.Message, &d.BrokerProperties, int64(d.DeliveryCount)+1, binary)
}

// WritePeeked writes a message that was peeked, which did not increase its delivery count.
func WritePeeked(w codec.Writer, d core.Delivery, binary bool) {
	writeMessage(w, d.Message, &d.BrokerProperties, int64(d.DeliveryCount), binary)
}

func WriteMessage(w codec.Writer, m *core.Message) { writeMessage(w, m, nil, 0, false) }

func writeMessage(w codec.Writer, m *core.Message, p *core.BrokerProperties, deliveries int64, binary bool) {
	w.OpenMap()
	writeBroker(w.Key("broker"), m, p, deliveries)
	if !m.Properties.IsEmpty() {
		WriteProperties(w.Key("properties"), m.Properties)
	}
	writeBody(w, m, binary)
	w.CloseMap()
}

func WriteProperties(w codec.Writer, p core.Properties) {
	w.OpenMap()
	if !p.IsEmpty() {
		for key, encoded := range value.MapEntries(p.Encoded()) {
			WriteValue(w.Key(value.Alias(key)), encoded)
		}
	}
	w.CloseMap()
}

// writeBroker writes broker properties. p is nil if the broker has not set any.
func writeBroker(w codec.Writer, m *core.Message, p *core.BrokerProperties, deliveries int64) {
	w.OpenMap()
	defer w.CloseMap()
	text := func(name, s string) {
		if s != "" {
			w.Key(name).Text(s)
		}
	}
	instant := func(name string, t time.Time) {
		if !t.IsZero() {
			w.Key(name).Instant(t.UnixMilli())
		}
	}
	for i := range core.MessageFields {
		f := &core.MessageFields[i]
		switch {
		case f.ID != nil:
			if id := *f.ID(m); !id.IsZero() || m.EmptyText&f.Bit != 0 {
				Write(w.Key(f.Name), idValue(id))
			}
		case m.Has(f.Bit, *f.Text(m)):
			w.Key(f.Name).Text(*f.Text(m))
		}
	}
	if ttl := m.TimeToLive; ttl > 0 && ttl < core.Forever {
		w.Key("TimeToLive")
		if ttl%time.Second == 0 {
			w.Int(int64(ttl / time.Second))
		} else {
			w.Float(ttl.Seconds())
		}
	}
	instant("ScheduledEnqueueTimeUtc", m.ScheduledEnqueueTime)
	if p == nil {
		return
	}
	w.Key("SequenceNumber").Int(p.SequenceNumber)
	w.Key("EnqueuedSequenceNumber").Int(p.EnqueuedSequenceNumber)
	instant("EnqueuedTimeUtc", p.EnqueuedTime)
	instant("ExpiresAtUtc", p.ExpiresAt)
	w.Key("DeliveryCount").Int(min(deliveries, math.MaxUint32))
	if !p.LockToken.IsZero() {
		text("LockToken", p.LockToken.String())
		instant("LockedUntilUtc", p.LockedUntil)
	}
	text("State", p.State.String())
	text("DeadLetterSource", p.DeadLetterSource)
}

func idValue(id core.ID) any {
	switch id.Kind() {
	case core.IDULong:
		return id.ULong()
	case core.IDUUID:
		var u value.UUID
		copy(u[:], id.Raw())
		return u
	case core.IDBinary:
		return []byte(id.Raw())
	default:
		return id.Raw()
	}
}

// writeBody writes a body in the form of its kind. It writes bytes if the body is not valid, or has
// at least Large bytes and might be longer than its base64. So the output is at most 4/3 of the
// body.
func writeBody(w codec.Writer, m *core.Message, binary bool) {
	large := len(m.Body.Bytes) >= Large
	switch m.Body.Kind {
	case core.BodyNone:
		return
	case core.BodyData:
		writeData(w, m, m.Body.Bytes, binary)
		return
	case core.BodyDataSections:
		if !large {
			if joined, ok := m.Body.Payload(); ok {
				writeData(w, m, joined, binary)
				return
			}
		} else if sections, size, err := dataSections(m.Body); err == nil {
			w.Key("binary").BinaryParts(size, sections)
			return
		}
	case core.BodyValue:
		n, only := 0, []byte(nil)
		err := m.Body.EachSection(func(v []byte) error {
			n, only = n+1, v
			return nil
		})
		if err == nil && n == 1 && (!large || isShort(w, only)) {
			WriteValue(w.Key("value"), only)
			return
		}
	case core.BodySequence:
		n := 0
		err := m.Body.EachSection(func(v []byte) error {
			n++
			_, _, _, err := value.ReadList(v)
			return err
		})
		if err == nil && n > 0 && !large {
			w.Key("sequence").OpenList()
			_ = m.Body.EachSection(func(v []byte) error {
				WriteValue(w, v)
				return nil
			})
			w.CloseList(n)
			return
		}
	}
	w.Key("binary").Binary(m.Body.Bytes)
}

func writeData(w codec.Writer, m *core.Message, data []byte, binary bool) {
	kind, _, _ := strings.Cut(m.ContentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	switch {
	case binary, m.ContentEncoding != "":
	case kind == typeJSON || strings.HasSuffix(kind, "+json"):
		if codec.ValidJSON(data, codec.MaxDepth) {
			w.Key("json").JSON(data)
			return
		}
	case strings.HasPrefix(kind, "text/"), kind == "application/xml", strings.HasSuffix(kind, "+xml"),
		kind == "application/x-www-form-urlencoded": // curl -d declares this type for any content
		if utf8.Valid(data) && (len(data) < Large || isShortText(w, data)) {
			w.Key("text").Text(value.Alias(data))
			return
		}
	}
	w.Key("binary").Binary(data)
}

// isShort reports whether the written form of v is not longer than its base64.
func isShort(w codec.Writer, v []byte) bool {
	switch value.KindOf(v) {
	case value.KindString:
		s, _, err := value.ReadString(v)
		return err == nil && isShortText(w, s)
	case value.KindBinary:
		return true
	default:
		return false
	}
}

// isShortText is isShort for a text. In JSON, escapes can make a text longer.
func isShortText(w codec.Writer, s []byte) bool {
	if w.Encoding() == codec.MessagePack {
		return utf8.Valid(s)
	}
	size := len(s)
	for _, c := range s {
		switch {
		case c == '"' || c == '\\' || c == '\n':
			size++
		case c < ' ':
			size += len(`u00ff`)
		}
	}
	return size <= base64.StdEncoding.EncodedLen(len(s)) && utf8.Valid(s)
}

func dataSections(b core.Body) (sections iter.Seq[[]byte], size int, err error) {
	err = b.EachSection(func(v []byte) error {
		data, _, err := value.ReadBinary(v)
		size += len(data)
		return err
	})
	return func(yield func([]byte) bool) {
		_ = b.EachSection(func(v []byte) error {
			if data, _, err := value.ReadBinary(v); err == nil && yield(data) {
				return nil
			}
			return io.EOF // ends the iteration
		})
	}, size, err
}
