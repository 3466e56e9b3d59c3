package e2e

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core/value"
)

// sampleProperty is a user property, as it is sent and as each protocol shows it.
type sampleProperty struct {
	name   string
	value  any    // of its AMQP type
	json   string // in the WebSocket protocol
	header string // over HTTPS; "" for none
}

// sampleTyped has a property of every AMQP primitive type. Names are such that
// HTTP keeps them.
var sampleTyped = []sampleProperty{
	{"Null", nil, `null`, ``},
	{"True", true, `true`, `true`},
	{"False", false, `false`, `false`},
	{"Ubyte", uint8(255), `{"$ubyte":255}`, `255`},
	{"Ushort", uint16(65535), `{"$ushort":65535}`, `65535`},
	{"Uint", uint32(1 << 31), `{"$uint":2147483648}`, `2147483648`},
	{"Ulong", uint64(1<<63 + 1), `{"$ulong":"9223372036854775809"}`, `9223372036854775809`},
	{"Ulong-Small", uint64(5), `{"$ulong":5}`, `5`},
	{"Byte", int8(-128), `{"$byte":-128}`, `-128`},
	{"Short", int16(-300), `{"$short":-300}`, `-300`},
	{"Int", int32(-70000), `{"$int":-70000}`, `-70000`},
	{"Long", int64(-5), `-5`, `-5`},
	{"Long-Safe", int64(1<<53 - 1), `9007199254740991`, `9007199254740991`},
	{"Long-Large", int64(1<<53 + 1), `{"$long":"9007199254740993"}`, `9007199254740993`},
	{"Float", float32(1.25), `{"$float":1.25}`, `1.25`},
	{"Double", 2.5, `2.5`, `2.5`},
	{"Double-Whole", 3.0, `{"$double":3}`, `3.0`},
	{"Double-Tiny", 5e-324, `5e-324`, `5e-324`},
	{"Infinity", math.Inf(-1), `{"$double":"-Infinity"}`, `"-Infinity"`},
	{"Decimal32", value.Decimal32{0x32, 0x80, 0, 7}, `{"$decimal32":"32800007"}`, `"7"`},
	{"Decimal64", value.Decimal64{0x31, 0xc0, 7: 25}, `{"$decimal64":"31c0000000000019"}`, `"25"`},
	{"Decimal128", value.Decimal128{0x30, 0x40, 15: 7}, `{"$decimal128":"30400000000000000000000000000007"}`, `"7"`},
	{"Char", value.Char('😀'), `{"$char":"😀"}`, `"=?utf-8?B?8J+YgA==?="`},
	{"Timestamp", value.Timestamp(784111777000), `{"$timestamp":"1994-11-06T08:49:37.000Z"}`, `"Sun, 06 Nov 1994 08:49:37 GMT"`},
	{"Timestamp-Ms", value.Timestamp(784111777123), `{"$timestamp":"1994-11-06T08:49:37.123Z"}`, `"Sun, 06 Nov 1994 08:49:37 GMT"`},
	{"Uuid", value.UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255}, `{"$uuid":"00010203-0405-0607-0809-0a0b0c0d0eff"}`, `"00010203-0405-0607-0809-0a0b0c0d0eff"`},
	{"Binary", []byte{0, 255}, `{"$binary":"AP8="}`, `"AP8="`},
	{"String", "grüße", `"grüße"`, `"=?utf-8?B?Z3LDvMOfZQ==?="`},
	{"Empty", "", `""`, `""`},
	{"Symbol", value.Symbol("hi"), `{"$symbol":"hi"}`, `"hi"`},
	{"Timespan", value.Described{Descriptor: value.DescriptorTimeSpan, Value: int64(100)}, `{"$described":[{"$symbol":"com.microsoft:timespan"},100]}`, `"00:00:00.0000100"`},
}

// sampleHeaders are the properties that HTTPS can send, whose header is sent as
// it comes back.
var sampleHeaders = []sampleProperty{
	{"True", true, `true`, `true`},
	{"Int", int32(-70000), `{"$int":-70000}`, `-70000`},
	{"Long", int64(1<<53 + 1), `{"$long":"9007199254740993"}`, `9007199254740993`},
	{"Ulong", uint64(1<<63 + 1), `{"$ulong":"9223372036854775809"}`, `9223372036854775809`},
	{"Double", 2.5, `2.5`, `2.5`},
	{"Timestamp", value.Timestamp(784111777000), `{"$timestamp":"1994-11-06T08:49:37.000Z"}`, `"Sun, 06 Nov 1994 08:49:37 GMT"`},
	{"String", "grüße", `"grüße"`, `"=?utf-8?B?Z3LDvMOfZQ==?="`},
	{"Quoted", "42", `"42"`, `"42"`},
	{"Empty", "", `""`, `""`},
}

// The sample's broker properties and its body.
const (
	sampleBody = "grüße\x00\n"
	sampleType = "text/plain;charset=utf-8"
	sampleLife = 90500 * time.Millisecond
)

// sampleDue has passed long ago.
var sampleDue = time.Date(2020, time.February, 3, 4, 5, 6, 0, time.UTC)

var sampleTexts = map[string]string{
	"MessageId": "m-1", "CorrelationId": "c-1", "SessionId": "k", "PartitionKey": "k", "ViaPartitionKey": "v", "ReplyToSessionId": "rs",
	"Label": "subject", "To": "to", "ReplyTo": "reply",
}

// sampleAMQP is the sample as AMQP encodes it (AMQP 1.0 §3.2).
func sampleAMQP(e *env, properties []sampleProperty) []byte {
	e.Helper()
	user := value.Map{}
	for _, p := range properties {
		user = append(user, value.Entry{Key: p.name, Value: p.value})
	}
	t := sampleTexts
	var message []byte
	for _, section := range []value.Described{
		{Descriptor: uint64(0x70), Value: value.List{nil, nil, uint32(sampleLife.Milliseconds())}},
		{Descriptor: uint64(0x72), Value: value.Map{
			{Key: value.Symbol("x-opt-partition-key"), Value: t["PartitionKey"]},
			{Key: value.Symbol("x-opt-via-partition-key"), Value: t["ViaPartitionKey"]},
			{Key: value.Symbol("x-opt-scheduled-enqueue-time"), Value: value.TimestampOf(sampleDue)},
		}},
		{Descriptor: uint64(0x73), Value: value.List{
			t["MessageId"], nil, t["To"], t["Label"], t["ReplyTo"], t["CorrelationId"], value.Symbol(sampleType), nil, nil, nil, t["SessionId"], nil, t["ReplyToSessionId"],
		}},
		{Descriptor: uint64(0x74), Value: user},
		{Descriptor: uint64(0x75), Value: []byte(sampleBody)},
	} {
		var err error
		if message, err = value.Append(message, section); err != nil {
			e.Fatal(err)
		}
	}
	return message
}

// sampleJSON is the sample as the WebSocket protocol writes it.
func sampleJSON(properties []sampleProperty) string {
	var user, broker []string
	for _, p := range properties {
		user = append(user, quoted(p.name)+":"+p.json)
	}
	for name, text := range sampleTexts {
		broker = append(broker, quoted(name)+":"+quoted(text))
	}
	return fmt.Sprintf(`{"broker":{%s,"ContentType":%s,"TimeToLive":%v,"ScheduledEnqueueTimeUtc":%s},"properties":{%s},"text":"grüße\u0000\n"}`,
		strings.Join(broker, ","), quoted(sampleType), sampleLife.Seconds(), quoted(sampleDue.Format("2006-01-02T15:04:05.000Z")), strings.Join(user, ","))
}

// sampleHTTP is the headers of the sample.
func sampleHTTP(properties []sampleProperty) http.Header {
	h := http.Header{"Content-Type": {sampleType}}
	var broker []string
	for name, text := range sampleTexts {
		broker = append(broker, quoted(name)+":"+quoted(text))
	}
	h.Set("BrokerProperties", fmt.Sprintf(`{%s,"TimeToLive":%v,"ScheduledEnqueueTimeUtc":%s}`,
		strings.Join(broker, ","), sampleLife.Seconds(), quoted(sampleDue.Format(http.TimeFormat))))
	for _, p := range properties {
		h.Set(p.name, p.header)
	}
	return h
}

// shown is a received message, as a protocol shows it.
type shown struct {
	broker     map[string]string // as texts, instants in RFC 3339
	properties map[string]any
	// as is how the protocol shows a property; false if it leaves it out.
	as     func(sampleProperty) (any, bool)
	body   string
	number int64
	token  string
}

// identify reads number and lock from the broker properties.
func (s *shown) identify(e *env) {
	e.Helper()
	var err error
	if s.number, err = strconv.ParseInt(s.broker["SequenceNumber"], 10, 64); err != nil {
		e.Fatalf("SequenceNumber: %v", err)
	}
	s.token = s.broker["LockToken"]
}

// check compares what was received with the sample.
func (s *shown) check(e *env, properties []sampleProperty, deliveries int) {
	e.Helper()
	want := map[string]string{
		"ContentType": sampleType, "TimeToLive": fmt.Sprint(sampleLife.Seconds()), "ScheduledEnqueueTimeUtc": sampleDue.Format(time.RFC3339),
		"DeliveryCount": fmt.Sprint(deliveries), "State": "Active", "SequenceNumber": fmt.Sprint(s.number), "EnqueuedSequenceNumber": fmt.Sprint(s.number),
		"LockToken": s.token,
	}
	maps.Copy(want, sampleTexts)
	for name, text := range want {
		if s.broker[name] != text {
			e.Errorf("%s: got %q, want %q", name, s.broker[name], text)
		}
	}
	if len(s.token) != 36 || s.number <= 0 || s.body != sampleBody {
		e.Errorf("got number %d, lock %q, body %q", s.number, s.token, s.body)
	}
	instant := func(name string) time.Time {
		at, err := time.Parse(time.RFC3339, s.broker[name])
		if err != nil {
			e.Errorf("%s: %v", name, err)
		}
		delete(s.broker, name)
		return at
	}
	enqueued, expires, locked := instant("EnqueuedTimeUtc"), instant("ExpiresAtUtc"), instant("LockedUntilUtc")
	if life := expires.Sub(enqueued); life < sampleLife-time.Second || life > sampleLife+time.Second || time.Since(enqueued).Abs() > time.Minute || !locked.After(enqueued) {
		e.Errorf("enqueued %v, expires %v, locked until %v", enqueued, expires, locked)
	}
	if len(s.broker) != len(want) {
		e.Errorf("broker properties: got %v, want %d", s.broker, len(want))
	}
	count := 0
	for _, p := range properties {
		want, shows := s.as(p)
		got, has := s.properties[p.name]
		if has != shows || shows && !value.Equal(got, want) {
			e.Errorf("property %s: got %#v, %t, want %#v, %t", p.name, got, has, want, shows)
		}
		if shows {
			count++
		}
	}
	if len(s.properties) != count {
		e.Errorf("properties: got %v, want %d", s.properties, count)
	}
}
