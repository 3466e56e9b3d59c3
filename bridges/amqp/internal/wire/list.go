package wire

import "github.com/crosstown-mq/crosstown/core/value"

// list appends a described list field by field. The nulls at its end, which AMQP 1.0 §1.4 lets a sender leave out, are
// written: the Python SDK finds fields by their place without looking how many there are. The first error sticks.
type list struct {
	dst  []byte
	mark int
	n    int // fields appended
	err  error
}

func openList(dst []byte, d Descriptor) list {
	l := list{dst: value.AppendDescriptor(dst, uint64(d))}
	l.dst, l.mark = value.OpenList(l.dst)
	return l
}

func (l *list) close() []byte { return value.CloseList(l.dst, l.mark, l.n) }

func (l *list) null() {
	l.n++
	l.dst = value.AppendNull(l.dst)
}

func put[T any](l *list, v T, appendTo func([]byte, T) []byte) {
	l.n++
	l.dst = appendTo(l.dst, v)
}

func putOpt[T any](l *list, o value.Opt[T], appendTo func([]byte, T) []byte) {
	if o.Set {
		put(l, o.V, appendTo)
	} else {
		l.null()
	}
}

func (l *list) uint32(o value.Opt[uint32]) { putOpt(l, o, value.AppendUint32) }

// flag appends a boolean field whose default is false.
func (l *list) flag(v bool) {
	if v {
		put(l, true, value.AppendBool)
	} else {
		l.null()
	}
}

// putText appends a text that is there, also when it is empty, if set says so.
func putText[T ~string](l *list, s T, set bool, appendTo func([]byte, T) []byte) {
	if set || s != "" {
		put(l, s, appendTo)
	} else {
		l.null()
	}
}

func (l *list) text(s string)                { putText(l, s, false, value.AppendString) }
func (l *list) symbol(s value.Symbol)        { putText(l, s, false, value.AppendSymbol) }
func (l *list) optText(s string, set bool)   { putText(l, s, set, value.AppendString) }
func (l *list) optSymbol(s string, set bool) { putText(l, s, set, value.AppendSymbol) }

func (l *list) binary(b []byte) {
	if b == nil {
		l.null()
	} else {
		put(l, b, value.AppendBinary)
	}
}

// raw appends a field that is encoded already.
func (l *list) raw(b []byte) {
	if b == nil {
		l.null()
		return
	}
	l.n++
	l.dst = append(l.dst, b...)
}

// any appends a field of any type.
func (l *list) any(v any) {
	l.n++
	var err error
	if l.dst, err = value.Append(l.dst, v); err != nil && l.err == nil {
		l.err = err
	}
}

func (l *list) mapping(m value.Map) {
	if m == nil {
		l.null()
	} else {
		l.any(m)
	}
}

func (l *list) symbols(s []value.Symbol) {
	if len(s) == 0 {
		l.null()
	} else {
		l.any(value.ArrayOf(s))
	}
}

func (l *list) state(s DeliveryState) {
	if s == nil {
		l.null()
		return
	}
	l.n++
	l.take(appendState(l.dst, s))
}

func (l *list) error(e *Error) {
	if e == nil {
		l.null()
		return
	}
	l.n++
	l.take(appendError(l.dst, e))
}

// take replaces dst after something was appended to it.
func (l *list) take(dst []byte, err error) {
	l.dst = dst
	if l.err == nil {
		l.err = err
	}
}
