package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
)

// coder encodes or decodes fields, so that each format is written only once. Encoding does not
// change the values. After an error, decoding gives zeros.
type coder struct {
	buf     []byte
	decodes bool
	rest    []byte
	err     error

	collects bool   // only collect in fields which fields are present; encode nothing yet
	fields   uint64 // the set of the fields of a head
	next     uint64 // the bit of the next call of has
}

var (
	errShort    = errors.New("a record of the log ends before its last field")
	errTrailing = errors.New("a record of the log has bytes that this version does not know: start the newer version that wrote it")
)

func (c *coder) fail() {
	if c.err == nil {
		c.err = errShort
	}
	c.rest = nil
}

// take decodes n bytes. The result shares memory with the input, and is never nil.
func (c *coder) take(n uint64) []byte {
	if n > uint64(len(c.rest)) {
		c.fail()
		return []byte{}
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

type integer interface {
	~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func unsigned[T integer](c *coder, v *T) {
	if !c.decodes {
		c.buf = binary.AppendUvarint(c.buf, uint64(*v))
		return
	}
	u, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.fail()
		u, n = 0, 0
	}
	*v, c.rest = T(u), c.rest[n:]
}

func signed[T integer](c *coder, v *T) {
	if !c.decodes {
		c.buf = binary.AppendVarint(c.buf, int64(*v))
		return
	}
	i, n := binary.Varint(c.rest)
	if n <= 0 {
		c.fail()
		i, n = 0, 0
	}
	*v, c.rest = T(i), c.rest[n:]
}

func (c *coder) fixed64(v *uint64) {
	if !c.decodes {
		c.buf = binary.LittleEndian.AppendUint64(c.buf, *v)
	} else if b := c.take(8); len(b) == 8 {
		*v = binary.LittleEndian.Uint64(b)
	}
}

func (c *coder) byte(v *byte) {
	if !c.decodes {
		c.buf = append(c.buf, *v)
	} else if b := c.take(1); len(b) == 1 {
		*v = b[0]
	}
}

func (c *coder) bool(v *bool) {
	b := byte(0)
	if *v {
		b = 1
	}
	if c.byte(&b); c.decodes {
		*v = b != 0
	}
}

func (c *coder) bytes(v *[]byte) {
	n := uint64(len(*v))
	if unsigned(c, &n); c.decodes {
		*v = c.take(n)
	} else {
		c.buf = append(c.buf, *v...)
	}
}

func (c *coder) string(v *string) {
	n := uint64(len(*v))
	if unsigned(c, &n); c.decodes {
		*v = string(c.take(n))
	} else {
		c.buf = append(c.buf, *v...)
	}
}

func (c *coder) id(v *core.ID) {
	kind, raw := byte(v.Kind()), v.Raw()
	c.byte(&kind)
	if c.string(&raw); c.decodes {
		*v = core.RawID(core.IDKind(kind), raw)
	}
}

func (c *coder) optionalTime(v *time.Time) {
	if c.has(!v.IsZero()) {
		millis := v.UnixMilli()
		if signed(c, &millis); c.decodes {
			*v = time.UnixMilli(millis).UTC()
		}
	}
}

func (c *coder) instant(v *time.Time) {
	millis := core.Millis(*v)
	if signed(c, &millis); c.decodes {
		*v = core.Instant(millis)
	}
}

func (c *coder) properties(v *core.Properties) {
	b := v.Encoded()
	if c.bytes(&b); c.decodes {
		*v = core.RawProperties(b)
	}
}

func (c *coder) object(v any) {
	if c.decodes {
		if b := []byte(nil); c.err == nil {
			if c.bytes(&b); c.err == nil {
				c.err = json.Unmarshal(b, v)
			}
		}
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // never: these types can always be encoded
	}
	c.bytes(&b)
}

func (c *coder) ref(v *state.Ref) {
	unsigned(c, &v.Position)
	unsigned(c, &v.Length)
}
