package builtin

import (
	"context"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core/value"
)

// textFormat is plain text in UTF-8. A payload is one string.
type textFormat struct{}

var textTypes = []string{"text/plain"}

func (textFormat) ContentTypes() []string { return textTypes }

func (textFormat) Decode(_ context.Context, contentType string, payload []byte) (any, error) {
	if err := checkCharset(contentType); err != nil {
		return nil, err
	}
	if len(payload) > maxSize {
		return nil, &malformed{"text", 0, tooLarge}
	}
	if !utf8.Valid(payload) {
		return nil, &malformed{"text", 0, notUTF8}
	}
	return string(payload), nil
}

// Encode writes values that are no lists or maps, null as no text at all.
func (textFormat) Encode(_ context.Context, contentType string, v any) (payload []byte, produced string, err error) {
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
		return nil, "", fmt.Errorf("a list or a map has no plain text")
	case []byte:
		text = string(v)
	case float32, float64:
		text = strings.Trim(value.Text(v), `"`) // NaN and Infinity
	default:
		text = value.Text(v)
	}
	if !utf8.ValidString(text) {
		return nil, "", fmt.Errorf("a binary that is not UTF-8 has no plain text")
	}
	return []byte(text), "text/plain; charset=utf-8", nil
}

// checkCharset refuses every charset but UTF-8 and what is a part of it.
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
		return fmt.Errorf("the charset %.40q is not served; utf-8 is", charset)
	}
}
