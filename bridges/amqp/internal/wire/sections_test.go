package wire

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core/value"
)

// inner is a durable message of priority 4 with id m1 and the data "hi".
const inner = "005370 d0 00000005 00000001 41 005373 d0 00000008 00000001 a1026d31 005375 a0 02 6869"

func TestSplitMessage(t *testing.T) {
	t.Parallel()
	long := "b0 00000003 616263"
	for _, c := range []struct {
		name string
		hex  string
		want Sections
	}{
		{"nothing", "", Sections{}},
		{
			"header, properties and data", inner,
			Sections{
				Header: unhex("d0 00000005 00000001 41"), Properties: unhex("d0 00000008 00000001 a1026d31"),
				BodyKind: BodyData, Body: []byte("hi"),
			},
		},
		{
			"every section",
			"005370 45 005371 c10100 005372 c1 05 02 a30161 40 005373 45 005374 c1 05 02 a10161 41 005375 a000 005378 c10100",
			Sections{
				Header: unhex("45"), DeliveryAnnotations: unhex("c10100"), MessageAnnotations: unhex("c1 05 02 a30161 40"),
				Properties: unhex("45"), ApplicationProperties: unhex("c1 05 02 a10161 41"), BodyKind: BodyData, Body: []byte{},
				Footer: unhex("c10100"),
			},
		},
		{"several data", "005375 a00161 005375" + long, Sections{BodyKind: BodyDataSections, Body: unhex("005375 a00161 005375" + long)}},
		{
			"three data and a footer", "005373 45 005375 a00161 005375 a00162 005375 a00163 005378 c10100",
			Sections{
				Properties: unhex("45"), BodyKind: BodyDataSections, Body: unhex("005375 a00161 005375 a00162 005375 a00163"),
				Footer: unhex("c10100"),
			},
		},
		{"value", "005377 a10161", Sections{BodyKind: BodyValue, Body: unhex("005377 a10161")}},
		{"null value", "005377 40", Sections{BodyKind: BodyValue, Body: unhex("005377 40")}},
		{"described value", "005377 00 5331 45", Sections{BodyKind: BodyValue, Body: unhex("005377 00 5331 45")}},
		{"sequence", "005376 45", Sections{BodyKind: BodySequence, Body: unhex("005376 45")}},
		{"sequences", "005376 45 005376 c0 02 01 41", Sections{BodyKind: BodySequence, Body: unhex("005376 45 005376 c0 02 01 41")}},
		{"wide descriptor", "00 80 0000000000000075 a00161", Sections{BodyKind: BodyData, Body: []byte("a")}},
		{"symbolic descriptor", "00 a310 616d71703a646174613a62696e617279 a00161", Sections{BodyKind: BodyData, Body: []byte("a")}},
		{"null sections", "005370 40 005372 40 005375 a00161", Sections{BodyKind: BodyData, Body: []byte("a")}},
		{
			"delivery annotations last, as pyamqp has them", "005370 45 005372 c10100 005373 45 005375 a00161 005371 c10100",
			Sections{
				Header: unhex("45"), MessageAnnotations: unhex("c10100"), Properties: unhex("45"), BodyKind: BodyData, Body: []byte("a"),
				DeliveryAnnotations: unhex("c10100"),
			},
		},
		{
			"footer before the body, as rhea has it", "005378 c10100 005375 a00161 005375 a00162",
			Sections{Footer: unhex("c10100"), BodyKind: BodyDataSections, Body: unhex("005375 a00161 005375 a00162")},
		},
		{
			"all but in order", "005377 40 005374 c10100 005373 45 005372 c10100 005371 c10100 005370 45",
			Sections{
				Header: unhex("45"), DeliveryAnnotations: unhex("c10100"), MessageAnnotations: unhex("c10100"), Properties: unhex("45"),
				ApplicationProperties: unhex("c10100"), BodyKind: BodyValue, Body: unhex("005377 40"),
			},
		},
		{"footer alone", "005378 c10100", Sections{Footer: unhex("c10100")}},
	} {
		got, err := SplitMessage(unhex(c.hex), value.Limits{})
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
}

// brokenMessages are refused by SplitMessage.
var brokenMessages = []struct{ name, hex, want string }{
	{"not described", "45", "got list, want a described value"},
	{"plain text", "6869", "got invalid, want a described value"},
	{"unknown section", "005379 45", "descriptor 0x79 is not a message section"},
	{"performative", "005314 45", "amqp:transfer:list is not a message section"},
	{"section without value", "005375", "the data ends before a value"},
	{"data cut short", "005375 a005 61", "is truncated"},
	{"data is text", "005375 a10161", "amqp:data:binary is a string, not a binary"},
	{"data is null", "005375 40", "amqp:data:binary is a null, not a binary"},
	{"header is a map", "005370 c10100", "amqp:header:list is a map, not a list"},
	{"properties are a map", "005373 c10100", "is a map, not a list"},
	{"annotations are a list", "005372 45", "is a list, not a map"},
	{"sequence is a map", "005376 c10100", "is a map, not a list"},
	{"data apart from data", "005375 a000 005373 45 005375 a000", "amqp:data:binary does not belong to the body"},
	{"two headers", "005370 45 005370 45", "appears twice"},
	{"two headers, one null", "005370 45 005373 45 005370 40", "appears twice"},
	{"two footers", "005378 c10100 005378 c10100", "appears twice"},
	{"two values", "005377 40 005377 40", "does not belong"},
	{"data and value", "005375 a000 005377 40", "does not belong"},
	{"value and data", "005377 40 005375 a000", "does not belong"},
	{"data and sequence", "005375 a000 005376 45", "does not belong"},
	{"application properties with a key twice", "005374 c1 09 04 a10161 40 a10161 40", "same key twice"},
	{"application properties with a bad string", "005374 c1 07 02 a10161 a101ff", "UTF-8"},
	{"annotations count beyond the bytes", "005372 d1 00000005 000000ff 40", "255 elements in 1 bytes"},
	{"deep value", "005377" + strings.Repeat("00", 50), "nested deeper than 32"},
}

func TestBrokenMessagesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range brokenMessages {
		got, err := SplitMessage(unhex(c.hex), value.Limits{})
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Condition != CondDecodeError || !strings.Contains(e.Description, c.want) {
			t.Errorf("%s: got %+v, %v, want %s", c.name, got, err, c.want)
		}
	}
}

func TestALongBodyIsNoAttack(t *testing.T) {
	t.Parallel()
	body := AppendSection(nil, DescValue, encoded(value.ArrayOf(make([]uint8, 100_000))))
	if _, err := SplitMessage(body, value.Limits{}); err != nil {
		t.Errorf("100000 elements in as many bytes: %v", err)
	}
	if _, err := SplitMessage(body, value.Limits{Elements: 1000}); err == nil {
		t.Error("beyond the limit of the caller: want an error")
	}
	nulls := AppendSection(nil, DescValue, unhex("f0 00000005 000186a0 40"))
	if _, err := SplitMessage(nulls, value.Limits{}); err == nil {
		t.Error("100000 elements in no bytes: want an error")
	}
}

func TestValueOfABody(t *testing.T) {
	t.Parallel()
	s, err := SplitMessage(unhex("005377 a10161"), value.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := s.Value(); !ok || !bytes.Equal(got, unhex("a10161")) {
		t.Errorf("got %x, %t", got, ok)
	}
	s = Sections{BodyKind: BodyData, Body: []byte("a")}
	if got, ok := s.Value(); ok {
		t.Errorf("got %x for a data body, want none", got)
	}
}

func TestSplitBatch(t *testing.T) {
	t.Parallel()
	m := unhex(inner)
	batch := unhex("005375 a024" + inner + "005375 a024" + inner)
	withEnvelope := append(unhex("005373 c0 04 01 a10161"), batch...)
	for _, c := range []struct {
		name  string
		batch []byte
		want  [][]byte
	}{
		{"two", batch, [][]byte{m, m}},
		{"envelope", withEnvelope, [][]byte{m, m}},
		{"one", batch[:len(batch)/2], [][]byte{m}},
	} {
		got, err := SplitBatch(c.batch, value.Limits{}, 2)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %x, %v, want %x", c.name, got, err, c.want)
		}
	}
	for _, c := range []struct {
		name  string
		batch []byte
		most  int
		cond  value.Symbol
	}{
		{"too many", batch, 1, CondInvalidField},
		{"no body", nil, 2, CondInvalidField},
		{"a value", unhex("005377 40"), 2, CondInvalidField},
		{"broken", batch[:len(batch)-1], 2, CondDecodeError},
	} {
		_, err := SplitBatch(c.batch, value.Limits{}, c.most)
		if e, ok := errors.AsType[*Error](err); !ok || e.Condition != c.cond {
			t.Errorf("%s: got %v, want %s", c.name, err, c.cond)
		}
	}
}

func TestSectionsAreAppendedAsSplit(t *testing.T) {
	t.Parallel()
	annotations := encoded(value.Map{{Key: value.Symbol("x-opt-sequence-number"), Value: int64(1)}})
	b := AppendHeader(nil, &Header{Durable: value.Some(true)})
	b = AppendSection(b, DescMessageAnnotations, annotations)
	b = AppendProperties(b, &MessageProperties{To: "t"})
	b = AppendDataSection(b, []byte("body"))
	got, err := SplitMessage(b, value.Limits{})
	want := Sections{
		Header: unhex("c0 06 05 41 40 40 40 43"), MessageAnnotations: annotations, Properties: unhex("c0 10 0d 40 40 a10174 40404040404040404040"),
		BodyKind: BodyData, Body: []byte("body"),
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		h   Header
		hex string
	}{
		{Header{}, "c0 06 05 40 40 40 40 43"},
		{Header{Durable: value.Some(true)}, "c0 06 05 41 40 40 40 43"},
		{Header{Durable: value.Some(false), FirstAcquirer: value.Some(false)}, "c0 06 05 42 40 40 42 43"},
		{
			Header{Durable: value.Some(true), Priority: value.Some[uint8](4), TTL: value.Some[uint32](1000), FirstAcquirer: value.Some(true), DeliveryCount: 2},
			"c0 0c 05 41 5004 70000003e8 41 5202",
		},
		{Header{DeliveryCount: 300}, "c0 0a 05 40 40 40 40 700000012c"},
		{Header{Priority: value.Some[uint8](0), TTL: value.Some[uint32](math.MaxUint32)}, "c0 0b 05 40 5000 70ffffffff 40 43"},
	} {
		b := AppendHeader(nil, &c.h)
		if want := append(unhex("005370"), unhex(c.hex)...); !bytes.Equal(b, want) {
			t.Errorf("%+v: got %x, want %x", c.h, b, want)
		}
		if got, err := DecodeHeader(unhex(c.hex)); err != nil || got != c.h {
			t.Errorf("got %+v, %v, want %+v", got, err, c.h)
		}
	}
	if got, err := DecodeHeader(nil); err != nil || got != (Header{}) {
		t.Errorf("no header: got %+v, %v", got, err)
	}
	for _, bad := range []string{"c10100", "c0 02 01 43", "c0 03 02 41 43", "c0 02 05 40", ""} {
		_, err := DecodeHeader(append([]byte{}, unhex(bad)...))
		if e, ok := errors.AsType[*Error](err); !ok || e.Condition != CondDecodeError {
			t.Errorf("%s: got %v, want %s", bad, err, CondDecodeError)
		}
	}
}

// allProperties has every field set.
var allProperties = MessageProperties{
	MessageID: ID{value.KindString, "message"}, UserID: []byte{1, 2}, To: "to", Subject: "subject", ReplyTo: "reply",
	CorrelationID: ID{value.KindUUID, "0123456789abcdef"}, ContentType: "text/plain", ContentEncoding: "gzip",
	AbsoluteExpiryTime: value.Some[value.Timestamp](2000), CreationTime: value.Some[value.Timestamp](-1),
	GroupID: strings.Repeat("g", 300), GroupSequence: value.Some[uint32](0), ReplyToGroupID: "group",
}

func TestPropertiesSurviveARoundTrip(t *testing.T) {
	t.Parallel()
	for _, p := range []MessageProperties{
		{},
		allProperties,
		{MessageID: ID{value.KindUint64, "\x00\x00\x00\x00\x00\x00\x00\x00"}, CorrelationID: ID{value.KindUint64, "\x00\x00\x00\x00\x00\x00\x00\x07"}},
		{MessageID: ID{value.KindUint64, "\xff\x00\x00\x00\x00\x00\x00\x07"}},
		{MessageID: ID{value.KindBinary, "\x00\xff"}, CorrelationID: ID{value.KindBinary, ""}, UserID: []byte{}},
		{MessageID: ID{value.KindString, ""}, ReplyToGroupID: "last"},
		{Empty: 1<<2 | 1<<3 | 1<<4 | 1<<6 | 1<<7 | 1<<10 | 1<<12, CorrelationID: ID{value.KindString, ""}},
	} {
		s, err := SplitMessage(AppendProperties(nil, &p), value.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeProperties(s.Properties); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("got %+v, %v, want %+v", got, err, p)
		}
	}
}

func TestPropertiesInOtherForms(t *testing.T) {
	t.Parallel()
	if got, err := DecodeProperties(nil); err != nil || !reflect.DeepEqual(got, MessageProperties{}) {
		t.Errorf("no properties: got %+v, %v", got, err)
	}
	// A string where a symbol belongs, a symbol where a string belongs, wide lengths, and bytes after the list.
	raw := unhex("d0 00000019 00000007 b100000001 61 40 a30162 40 40 53 09 a10174 c0ffee")
	got, err := DecodeProperties(raw)
	if err == nil {
		t.Errorf("a list that ends early: got %+v, want an error", got)
	}
	raw = unhex("d0 00000015 00000007 b100000001 61 40 a30162 40 40 5309 a10174 c0ffee")
	got, err = DecodeProperties(raw)
	want := MessageProperties{
		MessageID: ID{value.KindString, "a"}, To: "b", CorrelationID: ID{value.KindUint64, "\x00\x00\x00\x00\x00\x00\x00\x09"}, ContentType: "t",
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, c := range []struct {
		name, hex string
		cond      value.Symbol
	}{
		{"an int as id", "c0 03 01 5401", CondInvalidField},
		{"a symbol as id", "c0 04 01 a30161", CondInvalidField},
		{"an id cut short", "c0 03 01 a105", CondDecodeError},
		{"a ulong cut short", "c0 03 01 8000", CondDecodeError},
		{"a uuid cut short", "c0 03 01 9800", CondDecodeError},
		{"an id that is not UTF-8", "c0 04 01 a101ff", CondDecodeError},
		{"a number as subject", "c0 05 04 40 40 40 43", CondDecodeError},
		{"not a list", "c10100", CondDecodeError},
	} {
		_, err := DecodeProperties(unhex(c.hex))
		if e, ok := errors.AsType[*Error](err); !ok || e.Condition != c.cond {
			t.Errorf("%s: got %v, want %s", c.name, err, c.cond)
		}
	}
}

func TestAnIDOfTheWrongLengthIsLeftOut(t *testing.T) {
	t.Parallel()
	got := AppendProperties(nil, &MessageProperties{MessageID: ID{value.KindUUID, "short"}, CorrelationID: ID{value.KindUint64, "short"}})
	if want := unhex("005373 c0 0e 0d 40404040404040404040404040"); !bytes.Equal(got, want) {
		t.Fatalf("got %x, want %x", got, want)
	}
}
