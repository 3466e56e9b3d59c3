package builtin

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core/value"
)

// binaryReader reads values of a binary format.
type binaryReader struct {
	budget
	format string
	b      []byte
	at     int
}

func newBinaryReader(format string, payload []byte) (*binaryReader, error) {
	r := &binaryReader{newBudget(), format, payload, 0}
	if len(payload) > maxSize {
		return nil, r.fail(tooLarge)
	}
	return r, nil
}

func (r *binaryReader) fail(text string) error { return &malformed{r.format, r.at, text} }

// bytes returns the next n bytes, which are the payload's.
func (r *binaryReader) bytes(n uint64) ([]byte, error) {
	if n > uint64(len(r.b)-r.at) {
		return nil, r.fail(cutShort)
	}
	b := r.b[r.at : r.at+int(n)]
	r.at += int(n)
	return b, nil
}

func (r *binaryReader) byte() (byte, error) {
	b, err := r.bytes(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// uint reads a big-endian number of 1, 2, 4 or 8 bytes.
func (r *binaryReader) uint(width int) (uint64, error) {
	b, err := r.bytes(uint64(width))
	if err != nil {
		return 0, err
	}
	switch width {
	case 1:
		return uint64(b[0]), nil
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), nil
	case 4:
		return uint64(binary.BigEndian.Uint32(b)), nil
	default:
		return binary.BigEndian.Uint64(b), nil
	}
}

func (r *binaryReader) text(n uint64) (any, error) {
	b, err := r.bytes(n)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(b) {
		return nil, r.fail(notUTF8)
	}
	return string(b), nil
}

// blob reads n bytes that the value keeps.
func (r *binaryReader) blob(n uint64) (any, error) {
	b, err := r.bytes(n)
	if err != nil {
		return nil, err
	}
	return append(make([]byte, 0, len(b)), b...), nil
}

// list reads n elements; read is not ok for a break, which ends a list where n
// is forever.
func (r *binaryReader) list(n uint64, read func() (v any, ok bool, err error)) (any, error) {
	if !r.enter() {
		return nil, r.fail(tooDeep)
	}
	defer r.leave()
	l := make(value.List, 0, r.capacity(n))
	for left := n; left > 0; left-- {
		v, ok, err := read()
		switch {
		case err != nil:
			return nil, err
		case !ok && n == forever:
			return l, nil
		case !ok:
			return nil, r.fail(strayBreak)
		case !r.spend(1):
			return nil, r.fail(tooMany)
		}
		l = append(l, v)
	}
	return l, nil
}

// entries reads n pairs of a map, as list does.
func (r *binaryReader) entries(n uint64, read func() (v any, ok bool, err error)) (any, error) {
	if !r.enter() {
		return nil, r.fail(tooDeep)
	}
	defer r.leave()
	m := make(value.Map, 0, r.capacity(n))
	for left := n; left > 0; left-- {
		e, ok, err := r.entry(read)
		if err != nil {
			return nil, err
		}
		if !ok && n == forever {
			break
		}
		if !ok {
			return nil, r.fail(strayBreak)
		}
		m = append(m, e)
	}
	if !isDistinct(m) {
		return nil, r.fail(sameKey)
	}
	return m, nil
}

func (r *binaryReader) entry(read func() (v any, ok bool, err error)) (e value.Entry, ok bool, err error) {
	if e.Key, ok, err = read(); err != nil || !ok {
		return e, ok, err
	}
	if !isKey(e.Key) {
		return e, false, r.fail(deepKey)
	}
	switch e.Value, ok, err = read(); {
	case err != nil:
		return e, false, err
	case !ok:
		return e, false, r.fail("a map ends behind a key")
	case !r.spend(2):
		return e, false, r.fail(tooMany)
	}
	return e, true, nil
}

// forever is the length of what ends with a mark.
const forever = 1<<64 - 1

// capacity is how many of n announced elements are allocated at once: each takes a byte at least.
func (r *binaryReader) capacity(n uint64) int {
	if n == forever {
		return 0
	}
	return int(min(n, uint64(len(r.b)-r.at), 256))
}

// end is nil if nothing follows.
func (r *binaryReader) end() error {
	if r.at != len(r.b) {
		return r.fail(leftOver)
	}
	return nil
}
