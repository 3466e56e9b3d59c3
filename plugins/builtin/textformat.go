package builtin

import (
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// decodeText returns a payload as one string, which must be UTF-8.
func decodeText(contentType string, payload []byte) (any, error) {
	if err := checkCharset(contentType); err != nil {
		return nil, err
	}
	if !utf8.Valid(payload) {
		return nil, &malformed{"text", 0, codec.NotUTF8}
	}
	return string(payload), nil
}

// encodeText writes any value except a list or a map. Null becomes an empty text.
func encodeText(contentType string, v any) (payload []byte, produced string, err error) {
	if err := checkCharset(contentType); err != nil {
		return nil, "", err
	}
	v, err = simplified(v)
	if err != nil {
		return nil, "", err
	}
	text := ""
	switch v := v.(type) {
	case nil:
	case value.List, value.Map:
		return nil, "", fmt.Errorf("a list or a map cannot be written as plain text")
	case []byte:
		text = string(v)
	case float32, float64:
		text = strings.Trim(value.Text(v), `"`) // NaN and Infinity
	default:
		text = value.Text(v)
	}
	if !utf8.ValidString(text) {
		return nil, "", fmt.Errorf("binary data that is not UTF-8 cannot be written as plain text")
	}
	return []byte(text), "text/plain; charset=utf-8", nil
}

func checkCharset(contentType string) error {
	_, parameters, err := mime.ParseMediaType(contentType)
	if contentType == "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the content type %.100q is malformed", contentType)
	}
	switch charset := strings.ToLower(parameters["charset"]); charset {
	case "", "utf-8", "utf8", "us-ascii":
		return nil
	default:
		return fmt.Errorf("the charset %.40q is not supported: use utf-8", charset)
	}
}

// decodeAMQP reads one value in the encoding of AMQP 1.0 Part 1.
func decodeAMQP(_ string, payload []byte) (any, error) {
	v, rest, err := value.Decode(payload, value.Limits{Depth: maxDepth, Elements: maxElements})
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, &malformed{"an AMQP value", len(payload) - len(rest), codec.LeftOver}
	}
	return v, nil
}

func encodeAMQP(contentType string, v any) (payload []byte, produced string, err error) {
	payload, err = value.Append(nil, v)
	return payload, contentType, err
}
