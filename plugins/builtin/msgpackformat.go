package builtin

import (
	"context"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

const typeMessagePack = "application/msgpack"

type msgpackFormat struct{}

var msgpackTypes = []string{typeMessagePack, "application/x-msgpack", "application/vnd.msgpack", "application/*+msgpack"}

func (msgpackFormat) ContentTypes() []string { return msgpackTypes }

func (msgpackFormat) Decode(_ context.Context, _ string, payload []byte) (any, error) {
	return decodeWith(codec.MessagePack, "MessagePack", payload)
}

func (msgpackFormat) Encode(_ context.Context, contentType string, v any) (payload []byte, produced string, err error) {
	var w codec.PackWriter
	if err := writeMessagePack(&w, v, maxDepth); err != nil {
		return nil, "", err
	}
	return w.Bytes(), contentType, nil
}

// A descriptor of extensionPrefix and a type number stands for an extension, whose value is binary.
const extensionPrefix = "msgpack:"

func writeMessagePack(w *codec.PackWriter, v any, depth int) error {
	if d, ok := v.(value.Described); ok {
		if kind, data, ok := extensionOf(d); ok {
			w.Extension(kind, data)
			return nil
		}
	}
	v, err := simplified(v)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		w.Null()
	case bool:
		w.Bool(v)
	case int64:
		w.Int(v)
	case uint64:
		w.Uint(v)
	case float32:
		w.Float32(v)
	case float64:
		w.Float(v)
	case []byte:
		w.Binary(v)
	case value.Timestamp:
		w.Instant(int64(v))
	case value.List:
		w.List(len(v))
		return writeInside(w, v, nil, depth)
	case value.Map:
		w.Map(len(v))
		return writeInside(w, nil, v, depth)
	default:
		w.Text(value.Text(v)) // string, uuid and decimals
	}
	return nil
}

func writeInside(w *codec.PackWriter, l value.List, m value.Map, depth int) error {
	if depth == 0 {
		return errDepth
	}
	for _, v := range l {
		if err := writeMessagePack(w, v, depth-1); err != nil {
			return err
		}
	}
	for i := range m {
		if err := writeMessagePack(w, m[i].Key, 0); err != nil {
			return err
		}
		if err := writeMessagePack(w, m[i].Value, depth-1); err != nil {
			return err
		}
	}
	return nil
}

func extensionOf(d value.Described) (kind int8, data []byte, ok bool) {
	descriptor, ok := d.Descriptor.(value.Symbol)
	if !ok {
		return 0, nil, false
	}
	number, ok := strings.CutPrefix(string(descriptor), extensionPrefix)
	if !ok {
		return 0, nil, false
	}
	n, err := strconv.ParseInt(number, 10, 8)
	data, ok = d.Value.([]byte)
	return int8(n), data, ok && err == nil
}
