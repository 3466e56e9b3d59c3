package builtin

import (
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

func encodeMessagePack(contentType string, v any) (payload []byte, produced string, err error) {
	w := packWriter{walk: walk{left: maxDepth}}
	if w.write(v); w.err != nil {
		return nil, "", w.err
	}
	return w.Bytes(), contentType, nil
}

// extensionPrefix and a type number are the descriptor of an extension, whose value is binary.
const extensionPrefix = "msgpack:"

type packWriter struct {
	codec.PackWriter
	walk
}

func (w *packWriter) write(v any) {
	if d, ok := v.(value.Described); ok {
		if kind, data, ok := extensionOf(d); ok {
			w.Extension(kind, data)
			return
		}
	}
	v, err := simplified(v)
	if err != nil {
		w.fail(err)
		return
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
		w.elements(v, w.write)
	case value.Map:
		w.Map(len(v))
		w.entries(v, 0, w.write)
	default:
		w.Text(value.Text(v)) // string, uuid and decimals
	}
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
