package wire

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/core/value"
)

// fields reads the fields of a described list one by one. err keeps the first error; after it, all
// fields count as absent.
type fields struct {
	of  Descriptor
	b   []byte // fields still to be read
	n   int    // number of fields in b; those after them are absent
	lim value.Limits
	err error
}

func readFields(b []byte, of Descriptor, lim value.Limits) (f fields, rest []byte) {
	f = fields{of: of, lim: lim}
	var err error
	if f.n, f.b, rest, err = value.ReadList(b); err != nil {
		f.err = refuse(CondDecodeError, "%s: %v", of, err)
	}
	return f, rest
}

// next reports whether the next field is present, and skips it if it is null.
func (f *fields) next() bool {
	if f.n == 0 || f.err != nil {
		return false
	}
	f.n--
	if value.IsNull(f.b) {
		f.b = f.b[1:]
		return false
	}
	return true
}

func (f *fields) fail(name string, err error) {
	if f.err == nil {
		f.err = refuse(CondDecodeError, "%s, field %s: %v", f.of, name, err)
	}
}

func (f *fields) invalid(name, format string, args ...any) {
	if f.err == nil {
		e := refuse(CondInvalidField, format, args...)
		e.Description = f.of.String() + ", field " + name + " " + e.Description
		f.err = e
	}
}

// done skips the fields that a newer version of the protocol may have added, and returns the first
// error.
func (f *fields) done() error {
	for f.err == nil && f.n > 0 {
		f.n--
		if _, rest, err := value.ReadRaw(f.b); err != nil {
			f.fail("after the last known one", err)
		} else {
			f.b = rest
		}
	}
	if f.err == nil && len(f.b) > 0 {
		f.err = refuse(CondDecodeError, "%s: %d bytes follow the last field", f.of, len(f.b))
	}
	return f.err
}

func field[T any](f *fields, name string, read func([]byte) (T, []byte, error)) (v value.Opt[T]) {
	if !f.next() {
		return v
	}
	var err error
	if v.V, f.b, err = read(f.b); err != nil {
		f.fail(name, err)
		return value.Opt[T]{}
	}
	v.Set = true
	return v
}

func must[T any](f *fields, name string, read func([]byte) (T, []byte, error)) T {
	v := field(f, name, read)
	if !v.Set {
		f.invalid(name, "is mandatory")
	}
	return v.V
}

func upTo[T ~uint8](f *fields, name string, most T) value.Opt[T] {
	v := field(f, name, value.ReadUint8)
	if v.V > uint8(most) {
		f.invalid(name, "is %d: it must be at most %d", v.V, most)
	}
	return value.Opt[T]{V: T(v.V), Set: v.Set}
}

func (f *fields) binary(name string, limit int) []byte {
	v := field(f, name, value.ReadBinary)
	if len(v.V) > limit {
		f.invalid(name, "has %d bytes: at most %d are allowed", len(v.V), limit)
	}
	return v.V
}

func (f *fields) text(name string) string { return field(f, name, readText).V }

func (f *fields) symbol(name string) value.Symbol { return value.Symbol(field(f, name, readText).V) }

func readText(b []byte) (string, []byte, error) {
	v, rest, err := value.ReadText(b)
	return string(v), rest, err
}

// raw returns the encoding of an optional field of any type, or nil if the field is absent.
func (f *fields) raw(name string) []byte {
	if !f.next() {
		return nil
	}
	b := f.b
	rest, err := value.Skip(b, f.lim)
	if err != nil {
		f.fail(name, err)
		return nil
	}
	f.b = rest
	return b[: len(b)-len(rest) : len(b)-len(rest)]
}

func (f *fields) rawMap(name string) []byte {
	raw := f.raw(name)
	if raw != nil && value.KindOf(raw) != value.KindMap {
		f.invalid(name, "is a %s, not a map", value.KindOf(raw))
		return nil
	}
	return raw
}

func (f *fields) decoded(name string) any {
	if !f.next() {
		return nil
	}
	v, rest, err := value.Decode(f.b, f.lim)
	if err != nil {
		f.fail(name, err)
		return nil
	}
	f.b = rest
	return v
}

func (f *fields) mapping(name string) value.Map {
	switch v := f.decoded(name).(type) {
	case nil:
		return nil
	case value.Map:
		return v
	default:
		f.invalid(name, "is not a map")
		return nil
	}
}

// symbols reads an optional field of several symbols: an array, or a single symbol that stands for
// an array of one (AMQP 1.0 §1.4).
func (f *fields) symbols(name string) []value.Symbol {
	switch v := f.decoded(name).(type) {
	case nil:
		return nil
	case value.Symbol:
		return []value.Symbol{v}
	case value.Array:
		return f.symbolsOf(name, v.Values)
	case value.List: // not allowed, but unambiguous
		return f.symbolsOf(name, v)
	default:
		f.invalid(name, "is not an array of symbols")
		return nil
	}
}

func (f *fields) symbolsOf(name string, values []any) []value.Symbol {
	var out []value.Symbol
	for _, v := range values {
		s, ok := v.(value.Symbol)
		if !ok {
			f.invalid(name, "is not an array of symbols")
			return nil
		}
		out = append(out, s)
	}
	return out
}

// described opens a described list. ok is false if the field is absent.
func (f *fields) described(name string) (inner fields, ok bool) {
	if !f.next() {
		return fields{}, false
	}
	d, rest, err := readDescriptor(f.b)
	if err != nil {
		f.fail(name, err)
		return fields{}, false
	}
	inner, rest = readFields(rest, d, f.lim)
	if inner.err != nil {
		f.err = inner.err
		return fields{}, false
	}
	f.b = rest
	return inner, true
}

func (f *fields) close(inner *fields) {
	if err := inner.done(); err != nil && f.err == nil {
		f.err = err
	}
}

// readDescriptor returns 0 for an unknown descriptor.
func readDescriptor(b []byte) (d Descriptor, rest []byte, err error) {
	if value.KindOf(b) != value.KindDescribed {
		return 0, nil, fmt.Errorf("got %s, want a described value", value.KindOf(b))
	}
	switch b = b[1:]; value.KindOf(b) {
	case value.KindUint64:
		n, rest, err := value.ReadUint64(b)
		return Descriptor(n), rest, err
	case value.KindSymbol:
		s, rest, err := value.ReadSymbol(b)
		return descriptorSymbols[string(s)], rest, err
	default:
		_, rest, err := value.ReadRaw(b)
		return 0, rest, err
	}
}
