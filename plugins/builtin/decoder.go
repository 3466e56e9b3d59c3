package builtin

import (
	"errors"
	"math/big"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// decoder reads values. The Reader keeps the first error, after which results are meaningless.
type decoder struct {
	*codec.Reader
	elements int // number of values that may still follow
}

var readers [3]sync.Pool

func decoding(e codec.Encoding, format string) func(contentType string, payload []byte) (any, error) {
	return func(_ string, payload []byte) (any, error) { return decodeWith(e, format, payload) }
}

// decodeWith decodes a payload in encoding e, which errors call format.
func decodeWith(e codec.Encoding, format string, payload []byte) (any, error) {
	r, ok := readers[e].Get().(*codec.Reader)
	if !ok {
		r = codec.NewReader(e, nil, codec.Options{Depth: maxDepth})
	}
	r.Reset(payload, false)
	d := decoder{r, maxElements}
	if e == codec.JSON && !utf8.Valid(payload) {
		d.Fail(codec.NotUTF8)
	}
	v, err := d.value(), d.End()
	r.Reset(nil, false)
	readers[e].Put(r)
	if failed, ok := errors.AsType[*codec.Error](err); ok {
		return nil, &malformed{format, failed.At, failed.Text}
	}
	return v, nil
}

func (d *decoder) value() any {
	switch k := d.Kind(); k {
	case codec.Null:
		d.Null()
	case codec.Bool:
		return d.Bool()
	case codec.Int:
		return d.Int()
	case codec.Uint:
		return d.Uint()
	case codec.Text:
		return string(d.Text())
	case codec.Huge, codec.Float:
		return d.number(k)
	case codec.Float32:
		f, _ := d.Float()
		return float32(f)
	case codec.Binary:
		return append([]byte{}, d.Binary()...)
	case codec.Instant:
		ms, ok := d.Instant()
		if !ok {
			d.Fail("a timestamp is out of range")
		}
		return value.Timestamp(ms)
	case codec.Extension:
		kind, data := d.Extension()
		return value.Described{Descriptor: value.Symbol(extensionPrefix + strconv.Itoa(int(kind))), Value: append([]byte{}, data...)}
	case codec.List:
		return d.list()
	case codec.Map:
		return d.entries()
	case codec.Tag:
		tag := d.Tag()
		d.More()
		v := d.value()
		d.More() // ends the tag
		return d.tagged(tag, v)
	}
	return nil
}

func (d *decoder) number(k codec.Kind) any {
	switch {
	case d.Encoding() == codec.JSON:
		v, ok := exactNumber(string(d.Skip()), k == codec.Huge)
		if !ok {
			d.Fail(inexact)
		}
		return v
	case k == codec.Huge: // of CBOR: the number is -1 - n
		n := new(big.Int).SetBytes(d.Skip()[1:])
		return d.integer(n.Not(n))
	}
	f, _ := d.Float()
	return f
}

// A list or map of unknown size gets memory for few elements at first, and others for at most many.
const few, many = 4, 256

func roomFor(n int) int {
	if n == 0 { // of unknown size
		n = few
	}
	return min(n, many)
}

func (d *decoder) list() any {
	n := d.Open()
	if !d.More() {
		return value.List{}
	}
	list := make(value.List, 0, roomFor(n))
	for more := true; more; more = d.More() {
		d.spend(1)
		list = append(list, d.value())
	}
	return list
}

func (d *decoder) entries() any {
	n := d.Open()
	if !d.More() {
		return value.Map{}
	}
	m := make(value.Map, 0, roomFor(n))
	for more := true; more; more = d.More() {
		d.spend(2)
		var e value.Entry
		if d.Encoding() == codec.JSON {
			e.Key = string(d.Key())
		} else if e.Key = d.value(); !isKey(e.Key) {
			d.Fail(deepKey)
		}
		e.Value = d.value()
		m = append(m, e)
	}
	if d.Err() == nil && !isDistinct(m) {
		d.Fail(sameKey)
	}
	return m
}

func (d *decoder) spend(n int) {
	if d.elements -= n; d.elements < 0 {
		d.Fail(tooMany)
	}
}
