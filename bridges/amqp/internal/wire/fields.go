package wire

import (
	"cmp"
	"fmt"

	"github.com/crosstown-mq/crosstown/core/value"
)

// list reads or writes the fields of a described list one by one. It keeps the first error; after
// it, all fields that are read count as absent. It also writes the nulls at the end, which AMQP 1.0
// §1.4 makes optional, because the Python SDK reads fields by index without counting them.
type list struct {
	of     Descriptor
	writes bool
	b      []byte       // reading: the fields still to be read; writing: all output
	n      int          // reading: the number of fields in b, those after them are absent; writing: the number so far
	mark   int          // writing: where the list begins in b
	lim    value.Limits // reading
	err    error
}

func readList(b []byte, of Descriptor, lim value.Limits) (l list, rest []byte) {
	l = list{of: of, lim: lim}
	var err error
	if l.n, l.b, rest, err = value.ReadList(b); err != nil {
		l.err = refuse(CondDecodeError, "%s: %v", of, err)
	}
	return l, rest
}

// begin begins to write the list, but does nothing when reading.
func (l *list) begin(of Descriptor) {
	if l.writes {
		l.of = of
		l.b, l.mark = value.OpenList(value.AppendDescriptor(l.b, uint64(of)))
	}
}

func (l *list) closed() ([]byte, error) { return value.CloseList(l.b, l.mark, l.n), l.err }

// next reports whether the next field is present, and skips it if it is null.
func (l *list) next() bool {
	if l.n == 0 || l.err != nil {
		return false
	}
	l.n--
	if value.IsNull(l.b) {
		l.b = l.b[1:]
		return false
	}
	return true
}

func (l *list) null() { l.wrote(value.AppendNull(l.b)) }

func (l *list) wrote(b []byte) { l.b, l.n = b, l.n+1 }

func (l *list) fail(name string, err error) {
	if l.err == nil {
		l.err = refuse(CondDecodeError, "%s, field %s: %v", l.of, name, err)
	}
}

func (l *list) invalid(name, format string, args ...any) {
	if l.err == nil {
		e := refuse(CondInvalidField, format, args...)
		e.Description = l.of.String() + ", field " + name + " " + e.Description
		l.err = e
	}
}

// done skips fields that a newer protocol may have added, and returns the first error.
func (l *list) done() error {
	for l.err == nil && l.n > 0 {
		l.n--
		if _, rest, err := value.ReadRaw(l.b); err != nil {
			l.fail("after the last known one", err)
		} else {
			l.b = rest
		}
	}
	if l.err == nil && len(l.b) > 0 {
		l.err = refuse(CondDecodeError, "%s: %d bytes follow the last field", l.of, len(l.b))
	}
	return l.err
}

// form is how values of a type are encoded.
type form[T any] struct {
	read  func([]byte) (T, []byte, error)
	write func([]byte, T) []byte
}

var (
	asBool      = &form[bool]{value.ReadBool, value.AppendBool}
	asUint8     = &form[uint8]{value.ReadUint8, value.AppendUint8}
	asUint16    = &form[uint16]{value.ReadUint16, value.AppendUint16}
	asUint32    = &form[uint32]{value.ReadUint32, value.AppendUint32}
	asUint64    = &form[uint64]{value.ReadUint64, value.AppendUint64}
	asTimestamp = &form[value.Timestamp]{value.ReadTimestamp, value.AppendTimestamp}
	asBinary    = &form[[]byte]{value.ReadBinary, value.AppendBinary}
	asText      = &form[string]{readText[string], value.AppendString[string]}
	asSymbol    = &form[value.Symbol]{readText[value.Symbol], value.AppendSymbol[value.Symbol]}
)

func readText[T ~string](b []byte) (T, []byte, error) {
	v, rest, err := value.ReadText(b)
	return T(v), rest, err
}

func opt[T any](l *list, name string, v *value.Opt[T], as *form[T]) {
	switch {
	case l.writes && !v.Set:
		l.null()
	case l.writes:
		l.wrote(as.write(l.b, v.V))
	case l.next():
		v.V, v.Set = read(l, name, as)
	}
}

func read[T any](l *list, name string, as *form[T]) (v T, ok bool) {
	v, rest, err := as.read(l.b)
	if err != nil {
		l.fail(name, err)
		return v, false
	}
	l.b = rest
	return v, true
}

func must[T any](l *list, name string, v *T, as *form[T]) {
	switch {
	case l.writes:
		l.wrote(as.write(l.b, *v))
	case l.next():
		*v, _ = read(l, name, as)
	default:
		l.invalid(name, "is mandatory")
	}
}

// optional is opt for a field whose zero value means that it is absent.
func optional[T comparable](l *list, name string, v *T, as *form[T]) {
	var none T
	switch {
	case l.writes && *v == none:
		l.null()
	case l.writes:
		l.wrote(as.write(l.b, *v))
	case l.next():
		*v, _ = read(l, name, as)
	}
}

func (l *list) flag(name string, v *bool) { optional(l, name, v, asBool) }

func (l *list) text(name string, v *string) { optional(l, name, v, asText) }

func (l *list) symbol(name string, v *value.Symbol) { optional(l, name, v, asSymbol) }

func upTo[T ~uint8](l *list, name string, v *value.Opt[T], most T) {
	o := value.Opt[uint8]{V: uint8(v.V), Set: v.Set}
	if opt(l, name, &o, asUint8); o.V > uint8(most) {
		l.invalid(name, "is %d: it must be at most %d", o.V, most)
	}
	v.V, v.Set = T(o.V), o.Set
}

func (l *list) binary(name string, v *[]byte, limit int) {
	o := value.Opt[[]byte]{V: *v, Set: *v != nil}
	if opt(l, name, &o, asBinary); len(o.V) > limit {
		l.invalid(name, "has %d bytes: at most %d are allowed", len(o.V), limit)
	}
	*v = o.V
}

// raw reads or writes the encoding of an optional field of any type; nil means that it is absent.
func (l *list) raw(name string, v *[]byte) {
	switch {
	case l.writes && *v == nil:
		l.null()
	case l.writes:
		l.wrote(append(l.b, *v...))
	case l.next():
		rest, err := value.Skip(l.b, l.lim)
		if err != nil {
			l.fail(name, err)
			return
		}
		n := len(l.b) - len(rest)
		*v, l.b = l.b[:n:n], rest
	}
}

func (l *list) rawMap(name string, v *[]byte) {
	if l.raw(name, v); *v != nil && value.KindOf(*v) != value.KindMap {
		l.invalid(name, "is a %s, not a map", value.KindOf(*v))
		*v = nil
	}
}

func (l *list) write(v any) {
	b, err := value.Append(l.b, v)
	l.wrote(b)
	l.err = cmp.Or(l.err, err)
}

func (l *list) decoded(name string) any {
	if !l.next() {
		return nil
	}
	v, rest, err := value.Decode(l.b, l.lim)
	if err != nil {
		l.fail(name, err)
		return nil
	}
	l.b = rest
	return v
}

func (l *list) mapping(name string, v *value.Map) {
	switch {
	case l.writes && *v == nil:
		l.null()
	case l.writes:
		l.write(*v)
	default:
		read := l.decoded(name)
		var ok bool
		if *v, ok = read.(value.Map); !ok && read != nil {
			l.invalid(name, "is not a map")
		}
	}
}

// symbols reads or writes an optional field of several symbols: an array, or a single symbol that
// stands for an array of one (AMQP 1.0 §1.4).
func (l *list) symbols(name string, v *[]value.Symbol) {
	switch {
	case l.writes && len(*v) == 0:
		l.null()
	case l.writes:
		l.write(value.ArrayOf(*v))
	default:
		*v = l.readSymbols(name)
	}
}

func (l *list) readSymbols(name string) (all []value.Symbol) {
	var values []any
	switch read := l.decoded(name).(type) {
	case nil:
	case value.Array:
		values = read.Values
	case value.List: // not allowed, but unambiguous
		values = read
	default:
		values = []any{read}
	}
	for _, v := range values {
		s, ok := v.(value.Symbol)
		if !ok {
			l.invalid(name, "is not an array of symbols")
			return nil
		}
		all = append(all, s)
	}
	return all
}

// open begins the described list in the next field: when writing, a list with the descriptor of, if
// present is true. ok is false if the field is absent.
func (l *list) open(name string, of Descriptor, present bool) (in list, ok bool) {
	switch {
	case l.writes && !present:
		l.null()
		return list{}, false
	case l.writes:
		in = list{writes: true, b: l.b}
		in.begin(of)
		return in, true
	case !l.next():
		return list{}, false
	}
	d, rest, err := readDescriptor(l.b)
	if err != nil {
		l.fail(name, err)
		return list{}, false
	}
	if in, rest = readList(rest, d, l.lim); in.err != nil {
		l.err = in.err
		return list{}, false
	}
	l.b = rest
	return in, true
}

func (l *list) close(in *list) {
	var err error
	if l.writes {
		var b []byte
		b, err = in.closed()
		l.wrote(b)
	} else {
		err = in.done()
	}
	l.err = cmp.Or(l.err, err)
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
