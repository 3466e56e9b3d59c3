package https

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

type brokerProperty struct {
	name string
	form string
	set  func(m *core.Message, v any) bool
}

const (
	formString = "a JSON string"
	formDate   = `a date such as "Sun, 06 Nov 1994 08:49:37 GMT" or "1994-11-06T08:49:37Z"`
)

// brokerProperties are the members that a client can set; letter case does not matter. The bridge
// ignores all others, so that a client can send a received message again.
var brokerProperties = func() []brokerProperty {
	all := []brokerProperty{timeToLive, timeToLiveTimeSpan, scheduled, forcePersistence}
	for i := range core.MessageFields {
		f := &core.MessageFields[i]
		all = append(all, brokerProperty{f.Name, formString, func(m *core.Message, v any) bool { // all of these are strings
			s, ok := v.(string)
			if ok {
				f.Set(m, s)
			}
			return ok
		}})
	}
	return all
}()

var (
	timeToLive = brokerProperty{"TimeToLive", "a number of seconds above 0, such as 30 or 0.5", func(m *core.Message, v any) bool {
		n, ok := v.(json.Number)
		seconds, err := strconv.ParseFloat(string(n), 64)
		if !ok || err != nil && !errors.Is(err, strconv.ErrRange) || seconds <= 0 {
			return false
		}
		m.TimeToLive = frame.Milliseconds(seconds)
		return true
	}}
	timeToLiveTimeSpan = brokerProperty{"TimeToLiveTimeSpan", `a time span above 0 of the form "[d.]hh:mm:ss[.fffffff]"`, func(m *core.Message, v any) bool {
		s, ok := v.(string)
		ticks, err := value.ParseTimeSpan(s)
		d := core.DurationOfTicks(ticks)
		if !ok || err != nil || d <= 0 {
			return false
		}
		m.TimeToLive = frame.Milliseconds(d.Seconds())
		return true
	}}
	scheduled = brokerProperty{"ScheduledEnqueueTimeUtc", formDate, func(m *core.Message, v any) bool {
		s, ok := v.(string)
		t, err := parseDate(s)
		if !ok || err != nil {
			return false
		}
		m.ScheduledEnqueueTime = t
		return true
	}}
	forcePersistence = brokerProperty{"ForcePersistence", "true or false", func(m *core.Message, v any) bool {
		b, ok := v.(bool)
		m.Durable = value.Opt[bool]{V: b, Set: ok}
		return ok
	}}
)

// dateForms are the accepted forms. A time without a zone is in UTC.
var dateForms = []string{
	http.TimeFormat, time.RFC3339Nano, "2006-01-02T15:04:05.999999999", time.RFC1123Z, "2006-01-02 15:04:05Z07:00",
}

func parseDate(s string) (time.Time, error) {
	var first error
	for _, form := range dateForms {
		t, err := time.Parse(form, s)
		if err == nil {
			return t.UTC().Truncate(time.Millisecond), nil
		}
		first = cmp.Or(first, err)
	}
	return time.Time{}, first
}

func parseBrokerProperties(values []string, m *core.Message) error {
	if len(values) == 0 {
		return nil
	}
	if len(values) > 1 {
		return core.Refuse(core.InvalidArgument, "The BrokerProperties header is given %d times: give it once.", len(values))
	}
	if len(values[0]) > core.MaxHeaderBytes {
		return core.Refuse(core.OutOfRange, "The BrokerProperties header has %d bytes: at most %d are allowed.", len(values[0]), core.MaxHeaderBytes)
	}
	dec := json.NewDecoder(strings.NewReader(headerText(values[0])))
	dec.UseNumber()
	err := readBrokerProperties(dec, m)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = fmt.Errorf("BrokerProperties has data after the JSON object: remove this data")
		}
	}
	return refuseJSON(err, "BrokerProperties")
}

func refuseJSON(err error, subject string) error {
	if err == nil {
		return nil
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return core.Refuse(core.InvalidArgument, "%s is not valid JSON at byte %d: %v.", subject, syntax.Offset, syntax)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return core.Refuse(core.InvalidArgument, "%s is not valid JSON: it ends too early.", subject)
	}
	return core.Refuse(core.InvalidArgument, "%v.", err)
}

func readBrokerProperties(dec *json.Decoder, m *core.Message) error {
	var seen [32]bool
	return readObject(dec, "BrokerProperties", func(key string) error {
		for i, p := range brokerProperties {
			if !strings.EqualFold(p.name, key) {
				continue
			}
			if seen[i] {
				return fmt.Errorf("BrokerProperties.%s appears twice", p.name)
			}
			seen[i] = true
			v, err := dec.Token()
			if err != nil {
				return err
			}
			if v != nil && !p.set(m, v) { // null means that the property is not set
				return fmt.Errorf("BrokerProperties.%s is %s: it must be %s", p.name, describe(v), p.form)
			}
			return nil
		}
		return skipValue(dec)
	})
}

func readObject(dec *json.Decoder, subject string, member func(key string) error) error {
	start, err := dec.Token()
	if err != nil {
		return err
	}
	if start != json.Delim('{') {
		return fmt.Errorf("%s is %s: it must be a JSON object", subject, describe(start))
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string) // the decoder accepts only strings as keys
		if err := member(name); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

func skipValue(dec *json.Decoder) error {
	var ignored json.RawMessage
	return dec.Decode(&ignored)
}

func describe(token any) string {
	switch v := token.(type) {
	case json.Delim:
		if v == '[' {
			return "an array"
		}
		return "an object"
	case string:
		return fmt.Sprintf("%.60q", v)
	case nil:
		return "null"
	default:
		return fmt.Sprintf("%.60s", fmt.Sprint(v))
	}
}

// unlimitedSeconds is the TimeToLive of messages that do not expire: the largest TimeSpan of .NET.
const unlimitedSeconds = "922337203685.47754"

// appendBrokerProperties appends the header BrokerProperties: JSON in one line of ASCII.
func appendBrokerProperties(dst []byte, d core.Delivery) []byte {
	dst = append(dst, '{')
	number := func(key string, n int64) {
		dst = appendKey(dst, key)
		dst = strconv.AppendInt(dst, n, 10)
	}
	text := func(key, s string, bit core.TextFields) {
		if d.Has(bit, s) {
			dst = appendKey(dst, key)
			dst = value.AppendStringJSON(dst, s, true)
		}
	}
	date := func(key string, t time.Time) {
		if !t.IsZero() {
			dst = appendKey(dst, key)
			dst = append(dst, '"')
			dst = t.UTC().AppendFormat(dst, http.TimeFormat)
			dst = append(dst, '"')
		}
	}
	number("DeliveryCount", int64(d.DeliveryCount)+1) // this API counts the current delivery too
	number("EnqueuedSequenceNumber", d.EnqueuedSequenceNumber)
	date("EnqueuedTimeUtc", d.EnqueuedTime)
	date("ExpiresAtUtc", d.ExpiresAt)
	if d.ContentType == "" || !isPrintable(d.ContentType) {
		text("ContentType", d.ContentType, core.FieldContentType)
	}
	text("CorrelationId", d.CorrelationID.String(), core.FieldCorrelationID)
	text("DeadLetterSource", d.DeadLetterSource, 0)
	text("Label", d.Subject, core.FieldSubject)
	if !d.LockToken.IsZero() {
		text("LockToken", d.LockToken.String(), 0)
		date("LockedUntilUtc", d.LockedUntil)
	}
	text("MessageId", d.MessageID.String(), 0)
	text("PartitionKey", d.PartitionKey, 0)
	text("ReplyTo", d.ReplyTo, core.FieldReplyTo)
	text("ReplyToSessionId", d.ReplyToSessionID, core.FieldReplyToSessionID)
	date("ScheduledEnqueueTimeUtc", d.ScheduledEnqueueTime)
	number("SequenceNumber", d.SequenceNumber)
	text("SessionId", d.SessionID, core.FieldSessionID)
	text("State", d.State.String(), 0)
	dst = appendKey(dst, "TimeToLive")
	if d.TimeToLive <= 0 || d.TimeToLive >= core.Forever {
		dst = append(dst, unlimitedSeconds...)
	} else {
		dst = strconv.AppendFloat(dst, d.TimeToLive.Seconds(), 'f', -1, 64)
	}
	text("To", d.To, core.FieldTo)
	text("ViaPartitionKey", d.ViaPartitionKey, 0)
	return append(dst, '}')
}

func appendKey(dst []byte, key string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, key...)
	return append(dst, '"', ':')
}
