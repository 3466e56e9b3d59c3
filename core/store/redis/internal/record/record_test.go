package record

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

func props(tb testing.TB, pairs ...core.Property) core.Properties {
	tb.Helper()
	p, err := core.NewProperties(pairs...)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// fullMessage has every field set, each to a value of its own.
func fullMessage(tb testing.TB) *core.Message {
	at := time.Date(2026, time.May, 4, 3, 2, 1, 7e6, time.UTC)
	return &core.Message{
		MessageID: core.ULongID(1<<63 + 7), CorrelationID: core.UUIDID([16]byte{1, 2, 15: 9}), UserID: []byte{0, 1, 255},
		To: "to", Subject: "subject", ReplyTo: "reply", ContentType: "application/json", ContentEncoding: "gzip",
		SessionID: "session", ReplyToSessionID: "reply session", PartitionKey: "key", ViaPartitionKey: "via",
		GroupSequence: value.Some(uint32(1<<32 - 1)), CreationTime: at, AbsoluteExpiryTime: at.Add(time.Hour),
		TimeToLive: 90*time.Second + 1, ScheduledEnqueueTime: at.Add(2 * time.Hour), WasScheduled: true, Durable: value.Some(true), FirstAcquirer: value.Some(true), EmptyText: core.FieldSubject | core.FieldSessionID, Priority: value.Some(uint8(0)),
		Annotations:         props(tb, core.Property{Key: "x-opt-mine", Value: int64(-5)}),
		Properties:          props(tb, core.Property{Key: "ü", Value: "v"}, core.Property{Key: "n", Value: nil}),
		Body:                core.Body{Kind: core.BodyValue, Bytes: []byte{0xa1, 1, 'x'}},
		Footer:              []byte{},
		DeliveryAnnotations: props(tb, core.Property{Key: "next", Value: "hop"}),
		Transit:             &core.Transit{EnqueuedSequenceNumber: 1<<48 + 5, DeadLetterSource: "source", Hops: 3, Destination: "destination"},
	}
}

func TestRecordsKeepEveryField(t *testing.T) {
	t.Parallel()
	full := fullMessage(t)
	for v, i := reflect.ValueOf(full).Elem(), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("field %s is not set: this test would not see it lost", v.Type().Field(i).Name)
		}
	}
	for name, m := range map[string]*core.Message{
		"full":          full,
		"empty":         {},
		"empty body":    {Body: core.Body{Bytes: []byte{}}},
		"long":          {Subject: strings.Repeat("s", 70_000), Body: core.Body{Bytes: make([]byte, 300_000)}},
		"text id":       {MessageID: core.StringID("a\x00b")},
		"binary id":     {CorrelationID: core.BinaryID([]byte{0xff})},
		"forever":       {TimeToLive: core.Forever},
		"before 1970":   {CreationTime: time.Date(1950, 1, 1, 0, 0, 0, 0, time.UTC)},
		"flags off":     {Durable: value.Some(false), FirstAcquirer: value.Some(false)},
		"no body":       {Body: core.Body{Kind: core.BodyNone}},
		"group seq 0":   {GroupSequence: value.Some(uint32(0))},
		"sections body": {Body: core.Body{Kind: core.BodyDataSections, Bytes: []byte("xyz")}},
	} {
		record, err := Encode(m, 1234567890123)
		if err != nil {
			t.Fatalf("%s: encode: %v", name, err)
		}
		got, enqueued, bodiless, err := decodeRecord(string(record))
		if err != nil || enqueued != 1234567890123 || bodiless {
			t.Fatalf("%s: decode: %v, enqueued %d, bodiless %v", name, err, enqueued, bodiless)
		}
		if !reflect.DeepEqual(got, m) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, m)
		}
		record, err = EncodeBodiless(m, 1234567890123)
		if err != nil {
			t.Fatalf("%s: encode without body: %v", name, err)
		}
		got, _, bodiless, err = decodeRecord(string(record))
		if err != nil || !bodiless || got.Body.Kind != m.Body.Kind || got.Body.Bytes != nil {
			t.Errorf("%s: without body: got %+v, bodiless %v, %v", name, got, bodiless, err)
		}
		if got.Body = m.Body; err == nil && !reflect.DeepEqual(got, m) {
			t.Errorf("%s: without body:\n got %+v\nwant %+v", name, got, m)
		}
	}
}

// firstRecord is fullMessage as the first version with records wrote it, which knew no empty texts and of the flags of
// a header only durable.
const firstRecord = "01cf0000011f71fb04cbce017fffff01a8800000000000000702b001020000000000000000000000000009c4030001ffa2746fa7737562" +
	"6a656374a57265706c79b06170706c69636174696f6e2f6a736f6ea4677a6970a773657373696f6ead7265706c792073657373696f6ea3" +
	"6b6579a3766961ceffffffffcf0000019df0ef802fcf0000019df1266eafcf00000014f46b0401cf0000019df15d5d2f00c411c10f02a1" +
	"0a782d6f70742d6d696e6555fbc40ec10c04a102c3bca10176a1016e40c400cf0001000000000005a6736f7572636503ab64657374696e" +
	"6174696f6ec40ec10c02a1046e657874a103686f7002c403a10178"

func TestTheFirstVersionsRecordsAreRead(t *testing.T) {
	t.Parallel()
	record, err := hex.DecodeString(firstRecord)
	if err != nil {
		t.Fatal(err)
	}
	want := fullMessage(t)
	want.EmptyText, want.FirstAcquirer, want.WasScheduled = 0, value.Opt[bool]{}, false
	m, enqueued, bodiless, err := decodeRecord(string(record))
	if err != nil || enqueued != 1234567890123 || bodiless || !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, %d, %t, %v\nwant %+v", m, enqueued, bodiless, err, want)
	}
}

func TestTheKeyOfAMoveIsNotKept(t *testing.T) {
	t.Parallel()
	record, err := Encode(&core.Message{Transit: &core.Transit{Key: "k"}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	m, _, _, err := decodeRecord(string(record))
	if err != nil || m.Transit == nil || *m.Transit != (core.Transit{}) {
		t.Errorf("got %+v, %v, want an empty transit", m.Transit, err)
	}
}

func TestDamagedRecordsAreRefused(t *testing.T) {
	t.Parallel()
	record, err := Encode(fullMessage(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	for n := range record {
		if _, _, _, err := decodeRecord(string(record[:n])); err == nil {
			t.Errorf("the first %d of %d bytes were read as a record", n, len(record))
		}
	}
	if _, _, _, err := decodeRecord(string(record) + "x"); err == nil {
		t.Error("a record with a byte too many was read")
	}
	newer := append([]byte{recordVersion + 1}, record[1:]...)
	if _, _, _, err := decodeRecord(string(newer)); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("a record of a later version: got %v, want the remedy", err)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	record, err := Encode(fullMessage(f), 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(record))
	f.Add("")
	f.Fuzz(func(t *testing.T, record string) {
		m, enqueued, bodiless, err := decodeRecord(record)
		if err != nil {
			return
		}
		encode := Encode
		if bodiless {
			encode = EncodeBodiless
		}
		again, err := encode(m, enqueued)
		if err != nil {
			t.Fatalf("encode what was decoded: %v", err)
		}
		if m2, _, _, err := decodeRecord(string(again)); err != nil || !reflect.DeepEqual(m, m2) {
			t.Fatalf("second reading: got %+v, %v, want %+v", m2, err, m)
		}
	})
}

func TestOverridesAreMergedOldestFirst(t *testing.T) {
	t.Parallel()
	first := props(t, core.Property{Key: "a", Value: int32(1)}, core.Property{Key: "b", Value: "x"})
	second := props(t, core.Property{Key: "a", Value: int32(2)}, core.Property{Key: "c", Value: true})
	m := &core.Message{Properties: props(t, core.Property{Key: "b", Value: "old"}, core.Property{Key: "z", Value: nil})}
	if err := override(m, string(OverrideOf(first))+string(OverrideOf(second))); err != nil {
		t.Fatal(err)
	}
	want := m.Properties
	for key, wanted := range map[string]any{"a": int32(2), "b": "x", "c": true, "z": nil} {
		if got, ok := want.Get(key); !ok || got != wanted {
			t.Errorf("%s: got %v, want %v", key, got, wanted)
		}
	}
	for _, damaged := range []string{"\x05", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", string(OverrideOf(first)[:4])} {
		if err := override(new(core.Message), damaged); err == nil {
			t.Errorf("damaged overrides %q were read", damaged)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	m := &core.Message{
		MessageID: core.StringID("2b7a2d4e-8f5c-4f52-9c6f-3a1f1a1a0001"), ContentType: "application/json", Subject: "order",
		Properties: props(b, core.Property{Key: "tenant", Value: "acme"}, core.Property{Key: "n", Value: int32(7)}),
		Body:       core.Body{Bytes: make([]byte, 1024)},
	}
	record, err := Encode(m, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Encode(m, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	text := string(record)
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, _, err := decodeRecord(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
