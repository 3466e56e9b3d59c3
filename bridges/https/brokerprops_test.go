package https

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

func TestBrokerPropertiesAreRead(t *testing.T) {
	t.Parallel()
	m := new(core.Message)
	err := parseBrokerProperties([]string{`{
		"CorrelationId":"c", "SESSIONID":"s", "messageid":"m\u00e9", "Label":"l", "ReplyTo":"r", "To":"t",
		"ReplyToSessionId":"rs", "PartitionKey":"s", "ViaPartitionKey":"v", "ContentType":"a/b", "TimeToLive": 1.5,
		"ScheduledEnqueueTimeUtc":"Sun, 06 Nov 1994 08:49:37 GMT", "ForcePersistence":true,
		"SequenceNumber":"ignored", "DeliveryCount":null, "LockToken":{"a":[1]}, "Unknown":[{"x":1}], "Label2":3}`}, m)
	if err != nil {
		t.Fatal(err)
	}
	want := core.Message{
		CorrelationID: core.StringID("c"), SessionID: "s", MessageID: core.StringID("mé"), Subject: "l", ReplyTo: "r", To: "t",
		ReplyToSessionID: "rs", PartitionKey: "s", ViaPartitionKey: "v", ContentType: "a/b", TimeToLive: 1500 * time.Millisecond,
		ScheduledEnqueueTime: time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC), Durable: value.Some(true),
	}
	if got, want := show(m), show(&want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEmptyTextsAreKeptApartFromAbsentOnes(t *testing.T) {
	t.Parallel()
	const all = core.FieldTo | core.FieldSubject | core.FieldReplyTo | core.FieldCorrelationID | core.FieldContentType |
		core.FieldSessionID | core.FieldReplyToSessionID
	m := new(core.Message)
	empty := `"ContentType":"","CorrelationId":"","Label":"","ReplyTo":"","ReplyToSessionId":"",`
	if err := parseBrokerProperties([]string{`{` + empty + `"SessionId":"","To":"","MessageId":"","PartitionKey":"","ViaPartitionKey":""}`}, m); err != nil {
		t.Fatal(err)
	}
	if m.EmptyText != all {
		t.Errorf("got %b, want %b", m.EmptyText, all)
	}
	written := string(appendBrokerProperties(nil, core.Delivery{Message: m}))
	for _, name := range []string{"ContentType", "CorrelationId", "Label", "ReplyTo", "ReplyToSessionId", "SessionId", "To"} {
		if !strings.Contains(written, `"`+name+`":""`) {
			t.Errorf("%s has no empty %s", written, name)
		}
	}
	for _, name := range []string{"MessageId", "PartitionKey", "ViaPartitionKey"} {
		if strings.Contains(written, `"`+name+`"`) {
			t.Errorf("%s has %s", written, name)
		}
	}
}

// show makes two messages comparable.
func show(m *core.Message) string {
	return strings.Join([]string{
		m.CorrelationID.String(), m.SessionID, m.MessageID.String(), m.Subject, m.ReplyTo, m.To, m.ReplyToSessionID,
		m.PartitionKey, m.ViaPartitionKey, m.ContentType, m.ContentEncoding, m.TimeToLive.String(),
		m.ScheduledEnqueueTime.String(), fmt.Sprint(m.Body.Kind, string(m.Body.Bytes)), map[bool]string{true: "durable"}[m.Durable.V],
	}, "|")
}

func TestTimesToLiveAndDates(t *testing.T) {
	t.Parallel()
	scheduled := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		in   string
		ttl  time.Duration
		when time.Time
	}{
		{`{"TimeToLive":30}`, 30 * time.Second, time.Time{}},
		{`{"TimeToLive":0.0001}`, time.Millisecond, time.Time{}},
		{`{"TimeToLive":922337203685.47754}`, core.Forever, time.Time{}},
		{`{"TimeToLive":1e999}`, core.Forever, time.Time{}},
		{`{"TimeToLive":null}`, 0, time.Time{}},
		{`{"TimeToLiveTimeSpan":"00:00:01.5"}`, 1500 * time.Millisecond, time.Time{}},
		{`{"TimeToLiveTimeSpan":"10675199.02:48:05.4775807"}`, core.Forever, time.Time{}},
		{`{"ScheduledEnqueueTimeUtc":"Tue, 02 Jan 2024 03:04:05 GMT"}`, 0, scheduled},
		{`{"ScheduledEnqueueTimeUtc":"2024-01-02T03:04:05Z"}`, 0, scheduled},
		{`{"ScheduledEnqueueTimeUtc":"2024-01-02T04:04:05.000+01:00"}`, 0, scheduled},
		{`{"ScheduledEnqueueTimeUtc":"2024-01-02T03:04:05"}`, 0, scheduled},
		{`{}`, 0, time.Time{}},
	} {
		var m core.Message
		if err := parseBrokerProperties([]string{c.in}, &m); err != nil || m.TimeToLive != c.ttl || !m.ScheduledEnqueueTime.Equal(c.when) {
			t.Errorf("%s: got %v, %v, %v, want %v, %v", c.in, m.TimeToLive, m.ScheduledEnqueueTime, err, c.ttl, c.when)
		}
	}
}

func TestBadBrokerPropertiesAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{`{"MessageId":5}`, `BrokerProperties.MessageId is 5: it must be a JSON string.`},
		{`{"messageid":{"a":1}}`, `BrokerProperties.MessageId is an object: it must be a JSON string.`},
		{`{"Label":["a"]}`, `BrokerProperties.Label is an array: it must be a JSON string.`},
		{`{"TimeToLive":"30"}`, `BrokerProperties.TimeToLive is "30": it must be a number of seconds above 0`},
		{`{"TimeToLive":-1}`, `BrokerProperties.TimeToLive is -1: it must be a number`},
		{`{"TimeToLive":0}`, `BrokerProperties.TimeToLive is 0: it must be a number`},
		{`{"TimeToLiveTimeSpan":"-00:01:00"}`, `BrokerProperties.TimeToLiveTimeSpan is "-00:01:00": it must be a time span`},
		{`{"TimeToLiveTimeSpan":"30 s"}`, `BrokerProperties.TimeToLiveTimeSpan is "30 s": it must be a time span`},
		{`{"ScheduledEnqueueTimeUtc":"tomorrow"}`, `BrokerProperties.ScheduledEnqueueTimeUtc is "tomorrow": it must be a date such as "Sun,`},
		{`{"ForcePersistence":1}`, `BrokerProperties.ForcePersistence is 1: it must be true or false.`},
		{`{"To":"a","TO":"b"}`, `BrokerProperties.To appears twice.`},
		{`{"To":"a"`, `BrokerProperties is not valid JSON`},
		{`{"To" "a"}`, `BrokerProperties is not valid JSON at byte `},
		{`{"To":"a"} x`, `BrokerProperties has data after the JSON object: remove this data.`},
		{`[]`, `BrokerProperties is an array: it must be a JSON object.`},
		{`"x"`, `BrokerProperties is "x": it must be a JSON object.`},
		{``, `BrokerProperties is not valid JSON: it ends too early.`},
		{`{"x":` + strings.Repeat("[", 20000), `BrokerProperties is not valid JSON`},
		{strings.Repeat(" ", core.MaxHeaderBytes+1), `The BrokerProperties header has 65537 bytes: at most 65536 are allowed.`},
	} {
		err := parseBrokerProperties([]string{c.in}, new(core.Message))
		if code := core.CodeOf(err); code != core.InvalidArgument && code != core.OutOfRange || !strings.HasPrefix(core.TextOf(err), c.want) {
			t.Errorf("%.60s: got %v %v, want %q", c.in, code, err, c.want)
		}
	}
	if err := parseBrokerProperties([]string{"{}", "{}"}, new(core.Message)); core.CodeOf(err) != core.InvalidArgument {
		t.Errorf("two headers: got %v, want %v", err, core.InvalidArgument)
	}
}

func TestBrokerPropertiesAreWritten(t *testing.T) {
	t.Parallel()
	at := time.Date(1994, 11, 6, 8, 49, 37, 999e6, time.UTC)
	for name, c := range map[string]struct {
		d    core.Delivery
		want string
	}{
		"everything": {
			core.Delivery{
				Message: &core.Message{
					MessageID: core.UUIDID([16]byte{0x12, 15: 1}), CorrelationID: core.ULongID(7), Subject: "grüße \"😀\"\n", To: "t",
					ReplyTo: "r", ReplyToSessionID: "rs", SessionID: "s", PartitionKey: "s", ViaPartitionKey: "v",
					TimeToLive: 1500 * time.Millisecond, ScheduledEnqueueTime: at, ContentType: "é",
				},
				BrokerProperties: core.BrokerProperties{
					SequenceNumber: 1<<48 | 5, EnqueuedSequenceNumber: 3, EnqueuedTime: at, ExpiresAt: at, DeliveryCount: 2,
					LockToken: core.NewLockToken(1, 5, 9), LockedUntil: at, State: core.Scheduled, DeadLetterSource: "dl",
				},
			},
			`{"DeliveryCount":3,"EnqueuedSequenceNumber":3,"EnqueuedTimeUtc":"Sun, 06 Nov 1994 08:49:37 GMT",` +
				`"ExpiresAtUtc":"Sun, 06 Nov 1994 08:49:37 GMT","ContentType":"\u00e9","CorrelationId":"7","DeadLetterSource":"dl",` +
				`"Label":"gr\u00fc\u00dfe \"\ud83d\ude00\"\n","LockToken":"00010000-0000-0005-0000-000000000009",` +
				`"LockedUntilUtc":"Sun, 06 Nov 1994 08:49:37 GMT","MessageId":"12000000-0000-0000-0000-000000000001","PartitionKey":"s",` +
				`"ReplyTo":"r","ReplyToSessionId":"rs","ScheduledEnqueueTimeUtc":"Sun, 06 Nov 1994 08:49:37 GMT",` +
				`"SequenceNumber":281474976710661,"SessionId":"s","State":"Scheduled","TimeToLive":1.5,"To":"t","ViaPartitionKey":"v"}`,
		},
		"nothing": {
			core.Delivery{Message: &core.Message{}, BrokerProperties: core.BrokerProperties{SequenceNumber: 1}},
			`{"DeliveryCount":1,"EnqueuedSequenceNumber":0,"SequenceNumber":1,"State":"Active","TimeToLive":922337203685.47754}`,
		},
	} {
		got := appendBrokerProperties(nil, c.d)
		if string(got) != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
		if !json.Valid(got) || !isPrintable(string(got)) {
			t.Errorf("%s: %s is not one line of JSON", name, got)
		}
		// What was received may be sent again as it is.
		if err := parseBrokerProperties([]string{string(got)}, new(core.Message)); err != nil {
			t.Errorf("%s, sent again: %v", name, err)
		}
	}
}

func TestBatchElementsAreRead(t *testing.T) {
	t.Parallel()
	group, err := parseBatch([]byte(`[
		{"Body":"grüße","BrokerProperties":{"Label":"M1","TimeToLiveTimeSpan":"0.00:00:40"},
		 "UserProperties":{"b":"High","i":7,"l":3000000000,"d":1.5,"t":true}},
		{"body":null,"Other":[1]}, {}]`))
	if err != nil || len(group) != 3 {
		t.Fatalf("got %d messages, %v, want 3", len(group), err)
	}
	for i, want := range []core.BodyKind{core.BodyData, core.BodyNone, core.BodyNone} {
		if got := group[i].Body.Kind; got != want {
			t.Errorf("message %d: got a body of kind %d, want %d", i, got, want)
		}
	}
	if m := group[0]; string(m.Body.Bytes) != "grüße" || m.Subject != "M1" || m.TimeToLive != 40*time.Second || m.Properties.Len() != 5 {
		t.Errorf("first message: got %s with %d properties", show(m), m.Properties.Len())
	}
	for key, want := range map[string]any{"b": "High", "i": int32(7), "l": int64(3000000000), "d": 1.5, "t": true} {
		if got, _ := group[0].Properties.Get(key); got != want {
			t.Errorf("property %s: got %T %v, want %T %v", key, got, got, want, want)
		}
	}
}

func TestBadBatchesNameElementAndField(t *testing.T) {
	t.Parallel()
	const first = "In message 1 (counted from 0) of the batch, "
	for _, c := range []struct{ in, want string }{
		{`[{},{"Body":5}]`, first + "Body is 5: it must be a JSON string."},
		{`[{},{"BrokerProperties":{"TimeToLive":"x"}}]`, first + `BrokerProperties.TimeToLive is "x": it must be a number`},
		{`[{},{"BrokerProperties":7}]`, first + "BrokerProperties is 7: it must be a JSON object."},
		{`[{},{"UserProperties":[]}]`, first + "UserProperties is an array: it must be a JSON object."},
		{`[{},{"UserProperties":{"k":null}}]`, first + `UserProperties["k"] is null: it must be a string, a number, true or false.`},
		{`[{},{"UserProperties":{"k":{}}}]`, first + `UserProperties["k"] is an object`},
		{`[{},{"UserProperties":{"k":1e999}}]`, first + `UserProperties["k"] is 1e999, which is outside the range of a double: send the number as a string.`},
		{`[{},{"UserProperties":{"k":1,"k":2}}]`, first + `UserProperties has "k" twice.`},
		{`[{},{"Body":"a","Body":"b"}]`, first + "Body appears twice."},
		{`[{},null]`, first + "the value is null: it must be a JSON object."},
		{`[{},"x"]`, first + `the value is "x": it must be a JSON object.`},
		{`[{}`, "The batch is not valid JSON"},
		{`[{}]]`, "The batch has data after the JSON array."},
		{`[{"Body":"a}]`, "The batch is not valid JSON"},
		{`[{"Body" "a"}]`, "The batch is not valid JSON at byte"},
		{`{}`, "The batch is an object: it must be a JSON array of messages."},
		{`[]`, "The batch contains no message."},
		{``, "The batch is not valid JSON: it ends too early."},
		{"[{\"Body\":\"\xff\"}]", "The batch is not valid UTF-8."},
	} {
		_, err := parseBatch([]byte(c.in))
		if core.CodeOf(err) != core.InvalidArgument || !strings.HasPrefix(core.TextOf(err), c.want) {
			t.Errorf("%s: got %v, want %q", c.in, err, c.want)
		}
	}
}

func FuzzBrokerProperties(f *testing.F) {
	f.Add(`{"MessageId":"m","TimeToLive":1.5,"ScheduledEnqueueTimeUtc":"2024-01-02T03:04:05"}`)
	f.Add(`{"TimeToLiveTimeSpan":"1.00:00:00","x":[[]],"Label":"\ud83d"}`)
	f.Fuzz(func(t *testing.T, s string) {
		m := new(core.Message)
		if err := parseBrokerProperties([]string{s}, m); err != nil {
			if code := core.CodeOf(err); code != core.InvalidArgument && code != core.OutOfRange {
				t.Fatalf("%q: got %v, want a refusal of the argument", s, err)
			}
			return
		}
		if m.TimeToLive < 0 {
			t.Fatalf("%q: got a time to live of %v", s, m.TimeToLive)
		}
		written := appendBrokerProperties(nil, core.Delivery{Message: m})
		again := new(core.Message)
		if err := parseBrokerProperties([]string{string(written)}, again); err != nil {
			t.Fatalf("%q: written %s, read again: %v", s, written, err)
		}
		again.Durable, again.ContentType = m.Durable, m.ContentType // not written
		m.ScheduledEnqueueTime = m.ScheduledEnqueueTime.Truncate(time.Second)
		if m.TimeToLive == 0 {
			m.TimeToLive = core.Forever
		}
		if got, want := show(again), show(m); got != want {
			t.Fatalf("%q: written %s\ngot  %s\nwant %s", s, written, got, want)
		}
	})
}

func FuzzBatch(f *testing.F) {
	f.Add([]byte(`[{"Body":"b","BrokerProperties":{"Label":"l"},"UserProperties":{"k":1}}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		group, err := parseBatch(b)
		if err != nil && core.CodeOf(err) != core.InvalidArgument {
			t.Fatalf("%q: got %v, want a refusal of the argument", b, err)
		}
		if err == nil && len(group) == 0 {
			t.Fatalf("%q: got an empty batch", b)
		}
	})
}
