package https

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/turn"
)

const batchMediaType = "application/vnd.microsoft.servicebus.json"

func (b *Bridge) send(w http.ResponseWriter, r *http.Request, c runtimeCall) error {
	tx, err := b.front.OpenSender(r.Context(), c.id, c.address, nil)
	if err != nil {
		return err
	}
	defer tx.Close()
	limit := int64(core.MaxMessageSizeKB << 10)
	if n := tx.MaxMessageSize(); n > 0 {
		limit = min(limit, n)
	}
	group, err := readMessages(w, r, limit)
	if err != nil {
		return err
	}
	for _, appended := range tx.Send(r.Context(), [][]*core.Message{group}) {
		if appended.Err != nil {
			return appended.Err
		}
	}
	visitOf(r).memory.Release()
	_ = respond(w, http.StatusCreated, nil) // the messages are stored, even if the client does not get the response
	return nil
}

func readMessages(w http.ResponseWriter, r *http.Request, limit int64) ([]*core.Message, error) {
	contentType := headerText(r.Header.Get("Content-Type"))
	if contentType != "" {
		if media, _, err := mime.ParseMediaType(contentType); err == nil && media == batchMediaType {
			body, err := readBody(w, r, limit)
			if err != nil {
				return nil, err
			}
			cost := countBatch(body) * fair.Message
			if err := visitOf(r).memory.Await(r.Context(), cost); err != nil {
				return nil, err
			}
			var large turn.Turn
			large.Take(int((int64(len(body)) + cost) / fair.Message))
			defer large.End()
			return parseBatch(body)
		}
	}
	if err := visitOf(r).memory.Await(r.Context(), fair.Message); err != nil {
		return nil, err
	}
	m := &core.Message{ContentType: contentType, ContentEncoding: headerText(r.Header.Get("Content-Encoding"))}
	if err := parseBrokerProperties(r.Header["Brokerproperties"], m); err != nil {
		return nil, err
	}
	var err error
	if m.Properties, err = parseUserProperties(r.Header); err != nil {
		return nil, err
	}
	if m.Body.Bytes, err = readBody(w, r, limit); err != nil {
		return nil, err
	}
	return []*core.Message{m}, nil
}

const maxBatch = 10_000

// parseBatch parses a JSON array of messages, each with Body, BrokerProperties and UserProperties.
// The error names the first invalid element.
func parseBatch(body []byte) ([]*core.Message, error) {
	const subject = "The batch"
	if !utf8.Valid(body) {
		return nil, core.Refuse(core.InvalidArgument, "%s is not valid UTF-8.", subject)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	start, err := dec.Token()
	if err != nil {
		return nil, refuseJSON(err, subject)
	}
	if start != json.Delim('[') {
		return nil, core.Refuse(core.InvalidArgument, "%s is %s: it must be a JSON array of messages.", subject, describe(start))
	}
	var group []*core.Message
	for dec.More() {
		m, err := readBatchMessage(dec)
		if isTruncated(err) {
			return nil, refuseJSON(err, subject)
		}
		if err != nil {
			return nil, core.Refuse(core.InvalidArgument, "In message %d (counted from 0) of the batch, %v.", len(group), err)
		}
		if len(group) == maxBatch {
			return nil, core.Refuse(core.InvalidArgument, "%s contains more than %d messages: send several batches.", subject, maxBatch)
		}
		group = append(group, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, refuseJSON(err, subject)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, core.Refuse(core.InvalidArgument, "%s has data after the JSON array.", subject)
	}
	if len(group) == 0 {
		return nil, core.Refuse(core.InvalidArgument, "%s contains no message.", subject)
	}
	return group, nil
}

// countBatch estimates the number of messages in a batch: never less than it has, at most maxBatch.
// It counts objects outside other objects, even if the body is not JSON.
func countBatch(body []byte) (n int64) {
	depth, quoted := 0, false
	for i := 0; i < len(body) && n < maxBatch; i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			if depth++; depth == 1 {
				n++
			}
		case c == '}':
			depth = max(depth-1, 0)
		}
	}
	return n
}

// isTruncated reports whether err says that the JSON text, not a value in it, is invalid or cut off.
func isTruncated(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	return syntax || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func readBatchMessage(dec *json.Decoder) (*core.Message, error) {
	m := &core.Message{Body: core.Body{Kind: core.BodyNone}}
	members := [...]string{"Body", "BrokerProperties", "UserProperties"}
	var seen [len(members)]bool
	err := readObject(dec, "the value", func(key string) error {
		at := slices.IndexFunc(members[:], func(name string) bool { return strings.EqualFold(key, name) })
		switch {
		case at < 0:
			return skipValue(dec)
		case seen[at]:
			return fmt.Errorf("%s appears twice", members[at])
		}
		seen[at] = true
		switch members[at] {
		case "BrokerProperties":
			return readBrokerProperties(dec, m)
		case "UserProperties":
			return readUserProperties(dec, m)
		}
		v, err := dec.Token()
		if err != nil || v == nil {
			return err
		}
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("%s is %s: it must be %s", members[at], describe(v), formString)
		}
		m.Body = core.Body{Kind: core.BodyData, Bytes: []byte(s)}
		return nil
	})
	return m, err
}

// readUserProperties reads an object. An integer becomes an int, or a long if an int is too small.
func readUserProperties(dec *json.Decoder, m *core.Message) error {
	seen := map[string]bool{}
	var pairs []core.Property
	err := readObject(dec, "UserProperties", func(key string) error {
		v, err := dec.Token()
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("UserProperties has %.60q twice", key)
		}
		seen[key] = true
		switch t := v.(type) {
		case string, bool:
			pairs = append(pairs, core.Property{Key: key, Value: t})
		case json.Number:
			n, ok := parseNumber(t.String())
			if !ok {
				return fmt.Errorf("UserProperties[%s] is %.60s, which is outside the range of a double: send the number as a string", strconv.Quote(key), t)
			}
			pairs = append(pairs, core.Property{Key: key, Value: n})
		default:
			return fmt.Errorf("UserProperties[%s] is %s: it must be a string, a number, true or false", strconv.Quote(key), describe(v))
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.Properties, err = core.NewProperties(pairs...)
	return err
}
