package frame

import (
	"fmt"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/internal/codec"
)

// Large is the size in bytes from which a text or binary body shares the memory of its frame, which
// the caller must then not reuse. Smaller bodies are copied.
const Large = 1 << 20

type Member struct {
	Key   string
	Value []byte
}

func NewReader(e codec.Encoding) *codec.Reader {
	return codec.NewReader(e, nil, codec.Options{Depth: codec.MaxDepth, Frame: true})
}

// Split checks a whole frame, and appends the members of its map to into, in order. Their values
// share memory with data. With an error, it returns the members before the invalid part.
func Split(r *codec.Reader, data []byte, into []Member) ([]Member, error) {
	r.Reset(data, false)
	if r.Encoding() == codec.JSON && !utf8.Valid(data) {
		r.Fail(codec.NotUTF8)
	} else if r.Kind() != codec.Map {
		r.Fail("the frame is not a map")
	} else {
		for r.Open(); r.More(); {
			m := Member{Key: string(r.Key())}
			if r.Err() == nil {
				m.Value = r.Skip()
			}
			if r.Err() == nil {
				into = append(into, m)
			}
		}
	}
	if err := r.End(); err != nil {
		return into, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return into, nil
}

// Start returns the complete members in data, which is the beginning of a frame.
func Start(r *codec.Reader, data []byte) []Member {
	if r.Encoding() == codec.JSON {
		for cut := 0; cut < utf8.UTFMax && !utf8.Valid(data); cut++ { // the last character may be incomplete
			data = data[:max(0, len(data)-1)]
		}
	}
	members, _ := Split(r, data, nil) // an error is expected, because the frame is incomplete
	return members
}
