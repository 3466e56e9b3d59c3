package rules

import (
	"math"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// properties encodes key, value, key, value….
func properties(t testing.TB, pairs ...any) core.Properties {
	t.Helper()
	list := make([]core.Property, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, core.Property{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	p, err := core.NewProperties(list...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// compileSQL compiles a filter, which must be right.
func compileSQL(t testing.TB, sql string) *Rule {
	t.Helper()
	r, err := Compile(core.Rule{Name: "r", Filter: core.Filter{SQL: sql}})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return r
}

var testUUID = value.UUID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}

// testTime is when the test message was enqueued.
var testTime = time.Date(2030, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

var testFacts = Facts{EnqueuedTime: testTime, SequenceNumber: 7, EnqueuedSequenceNumber: 5, DeliveryCount: 2}

// testMessage has a property of every type.
func testMessage(t testing.TB) *core.Message {
	t.Helper()
	return &core.Message{
		MessageID:     core.StringID("m1"),
		CorrelationID: core.ULongID(42),
		To:            "somewhere",
		Subject:       "order",
		ContentType:   "text/plain",
		SessionID:     "s1",
		TimeToLive:    5 * time.Minute,
		Properties: properties(t,
			"colour", "red", "Quantity", int32(5), "price", 12.5, "big", int64(1)<<62, "huge", uint64(1)<<63,
			"yes", true, "no", false, "nothing", nil, "sym", value.Symbol("symbol"), "char", value.Char('c'),
			"u8", uint8(200), "u16", uint16(60000), "u32", uint32(1)<<31, "u64", uint64(9), "i8", int8(-3), "i16", int16(-300),
			"f32", float32(0.5), "at", value.TimestampOf(testTime), "guid", testUUID, "bytes", []byte("b"),
			"dec", value.Decimal128{0: 0x30, 1: 0x3c, 15: 250}, "list", value.List{"a"},
			"span", value.Described{Descriptor: value.DescriptorTimeSpan, Value: int64(3_000_000_000)},
			"offset", value.Described{Descriptor: value.DescriptorDateTimeOffset, Value: int64(unixEpochTicks) + testTime.UnixMilli()*ticksPerMilli},
			"uri", value.Described{Descriptor: value.DescriptorURI, Value: "http://x/"},
			"odd", value.Described{Descriptor: uint64(1), Value: "x"},
			"odd name]", "in brackets", "Twice", "first", "twice", "second", "Straße", "ß", "a.b", "dotted", "half", 2.0, "empty", "",
			"far", value.Timestamp(math.MaxInt64), "early", value.Timestamp(math.MinInt64),
			"odd span", value.Described{Descriptor: value.DescriptorTimeSpan, Value: "x"},
		),
		Body: core.Body{Bytes: []byte("body")},
	}
}
