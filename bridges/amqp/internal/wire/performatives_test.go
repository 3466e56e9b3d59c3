package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core/value"
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// encoded returns the encoding of v, which has one.
func encoded(v any) []byte {
	b, err := value.Append(nil, v)
	if err != nil {
		panic(err)
	}
	return b
}

// vectors pairs performatives with the body of their frame.
var vectors = []struct {
	name  string
	p     Performative
	hex   string
	short string // "": there are no such nulls
}{
	{
		"open",
		&Open{
			ContainerID: "c", Hostname: "h", MaxFrameSize: value.Some[uint32](65536), ChannelMax: value.Some[uint16](8191),
			IdleTimeOut: value.Some[uint32](60000),
		},
		"005310c0190aa10163a101687000010000601fff700000ea604040404040", "00 5310 c0 14 05 a10163 a10168 7000010000 601fff 700000ea60",
	},
	{
		"begin",
		&Begin{RemoteChannel: value.Some[uint16](1), IncomingWindow: 5000, OutgoingWindow: 1, HandleMax: value.Some[uint32](255)},
		"005311c01108600001437000001388520152ff404040", "00 5311 c0 0e 05 600001 43 7000001388 5201 52ff",
	},
	{
		"attach of a receiver",
		&Attach{
			Name: "l", Handle: 2, Role: RoleReceiver, SndSettleMode: value.Some(SenderUnsettled), RcvSettleMode: value.Some(ReceiverSecond),
			Source: &Source{Address: value.Some("q")}, Target: &Target{},
			MaxMessageSize: value.Some[uint64](9), Properties: value.Map{},
		},
		"005312c0350ea1016c52024150005001005328c00e0ba1017140404040404040404040005329c008074040404040404040404053094040c10100", "00 5312 c0 22 0e a1016c 5202 41 5000 5001 00 5328 c0 04 01 a10171 00 5329 45 40 40 40 5309 40 40 c10100",
	},
	{
		"attach to a coordinator",
		&Attach{
			Name: "t", InitialDeliveryCount: value.Some[uint32](0),
			Coordinator: &Coordinator{Capabilities: []value.Symbol{"a"}},
		},
		"005312c01c0ea101744342404040005330c00701e00401a3016140404340404040", "00 5312 c0 18 0a a10174 43 42 40 40 40 00 5330 c0 07 01 e0 04 01 a3 0161 40 40 43",
	},
	{
		"flow of a link",
		&Flow{
			NextIncomingID: value.Some[uint32](0), IncomingWindow: 1, NextOutgoingID: 2, OutgoingWindow: 3, Handle: value.Some[uint32](0),
			DeliveryCount: value.Some[uint32](4), LinkCredit: value.Some[uint32](100), Drain: true,
		},
		"005313c0110b43520152025203435204526440414040", "00 5313 c0 0f 09 43 5201 5202 5203 43 5204 5264 40 41",
	},
	{
		"first transfer",
		&Transfer{
			Handle: 1, DeliveryID: value.Some[uint32](0), DeliveryTag: []byte{0xaa}, MessageFormat: value.Some(FormatBatch),
			Settled: value.Some(false), More: true,
		},
		"005314c0130b520143a001aa708001370042414040404040", "00 5314 c0 0e 06 5201 43 a001aa 7080013700 42 41",
	},
	{
		"transfer with an empty tag",
		&Transfer{DeliveryTag: []byte{}, Settled: value.Some(true)},
		"005314c00d0b4340a0004041404040404040", "00 5314 c0 07 05 43 40 a000 40 41",
	},
	{
		"transfer in a transaction",
		&Transfer{Handle: 1, State: TransactionalState{TxnID: []byte{7}}},
		"005314c0160b5201404040404040005334c00502a0010740404040", "00 5314 c0 12 08 5201 40 40 40 40 40 40 00 5334 c0 04 01 a00107",
	},
	{
		"disposition accepted",
		&Disposition{Role: RoleReceiver, First: 1, Last: value.Some[uint32](3), Settled: true, State: Accepted{}},
		"005315c00c064152015203410053244540", "00 5315 c0 0b 05 41 5201 5203 41 00 5324 45",
	},
	{
		"disposition modified",
		&Disposition{
			Role: RoleReceiver, First: 1,
			State: Modified{UndeliverableHere: value.Some(true), MessageAnnotations: unhex("c10100")},
		},
		"005315c012064152014040005327c006034041c1010040", "00 5315 c0 11 05 41 5201 40 40 00 5327 c0 06 03 40 41 c10100",
	},
	{
		"disposition of a dead letter",
		&Disposition{
			Role: RoleReceiver, First: 1,
			State: Rejected{&Error{Condition: "x", Description: "d", Info: value.Map{{Key: value.Symbol("k"), Value: "v"}}}},
		},
		"005315c022064152014040005325c0160100531dc01003a30178a10164c10702a3016ba1017640", "00 5315 c0 21 05 41 5201 40 40 00 5325 c0 16 01 00 531d c0 10 03 a30178 a10164 c1 07 02 a3016b a10176",
	},
	{
		"disposition in a transaction",
		&Disposition{First: 1, State: TransactionalState{TxnID: []byte{7}, Outcome: Released{}}},
		"005315c014064252014040005334c00802a001070053264540", "00 5315 c0 13 05 42 5201 40 40 00 5334 c0 08 02 a00107 00 5326 45",
	},
	{"disposition declared", &Disposition{State: Declared{TxnID: []byte{1}}}, "005315c00f0642434040005333c00401a0010140", "00 5315 c0 0e 05 42 43 40 40 00 5333 c0 04 01 a00101"},
	{"disposition received", &Disposition{State: Received{1, 2}}, "005315c0100642434040005323c005025201530240", "00 5315 c0 0f 05 42 43 40 40 00 5323 c0 05 02 5201 5302"},
	{"detach", &Detach{Handle: 3, Closed: true, Error: &Error{Condition: "a"}}, "005316c00f0352034100531dc00603a301614040", "00 5316 c0 0d 03 5203 41 00 531d c0 04 01 a30161"},
	{"end", &End{}, "005317c0020140", "00 5317 45"},
	{"close", &Close{&Error{Condition: "a"}}, "005318c00c0100531dc00603a301614040", "00 5318 c0 0a 01 00 531d c0 04 01 a30161"},
	{"sasl-mechanisms", &SASLMechanisms{[]value.Symbol{"PLAIN", "A"}}, "00 5340 c0 0d 01 e0 0a 02 a3 05504c41494e 0141", ""},
	{"sasl-init", &SASLInit{Mechanism: "A", InitialResponse: []byte{}, Hostname: "h"}, "00 5341 c0 09 03 a30141 a000 a10168", ""},
	{"sasl-challenge", &SASLChallenge{[]byte{1}}, "00 5342 c0 04 01 a00101", ""},
	{"sasl-response", &SASLResponse{[]byte{2}}, "00 5343 c0 04 01 a00102", ""},
	{"sasl-outcome", &SASLOutcome{Code: SASLAuth}, "005344c00402500140", "00 5344 c0 03 01 5001"},
}

// full are performatives with every field set.
var full = []Performative{
	&Open{
		ContainerID: "c", Hostname: "h", MaxFrameSize: value.Some[uint32](512), ChannelMax: value.Some[uint16](1), IdleTimeOut: value.Some[uint32](1),
		OutgoingLocales: []value.Symbol{"en"}, IncomingLocales: []value.Symbol{"de"}, OfferedCapabilities: []value.Symbol{"a", "b"},
		DesiredCapabilities: []value.Symbol{"c"}, Properties: value.Map{{Key: value.Symbol("product"), Value: "p"}},
	},
	&Begin{
		RemoteChannel: value.Some[uint16](1), NextOutgoingID: 1, IncomingWindow: 2, OutgoingWindow: 3, HandleMax: value.Some[uint32](4),
		OfferedCapabilities: []value.Symbol{"a"}, DesiredCapabilities: []value.Symbol{"b"}, Properties: value.Map{},
	},
	&Attach{
		Name: strings.Repeat("n", 300), Handle: 1, Role: RoleReceiver,
		SndSettleMode: value.Some(SenderMixed), RcvSettleMode: value.Some(ReceiverSecond),
		Source: &Source{
			Address: value.Some("q"), Durable: value.Some[uint32](2), ExpiryPolicy: "never", Timeout: value.Some[uint32](1), Dynamic: true,
			DynamicNodeProperties: value.Map{{Key: value.Symbol("lifetime"), Value: value.Described{Descriptor: uint64(0x2b), Value: value.List{}}}},
			DistributionMode:      "move",
			Filter:                value.Map{{Key: value.Symbol("com.microsoft:session-filter"), Value: value.Described{Descriptor: uint64(0x137000000c), Value: nil}}},
			DefaultOutcome:        Modified{DeliveryFailed: value.Some(true)},
			Outcomes:              []value.Symbol{"amqp:accepted:list"}, Capabilities: []value.Symbol{"queue"},
		},
		Target: &Target{
			Address: value.Some(""), Durable: value.Some[uint32](0), ExpiryPolicy: "link-detach", Timeout: value.Some[uint32](2), Dynamic: true,
			DynamicNodeProperties: value.Map{}, Capabilities: []value.Symbol{"topic"},
		},
		IncompleteUnsettled: true, InitialDeliveryCount: value.Some[uint32](7), MaxMessageSize: value.Some[uint64](1 << 40),
		OfferedCapabilities: []value.Symbol{"a"}, DesiredCapabilities: []value.Symbol{"b"},
		Properties: value.Map{{Key: value.Symbol("com.microsoft:timeout"), Value: uint32(60000)}},
	},
	&Flow{
		NextIncomingID: value.Some[uint32](1), IncomingWindow: 2, NextOutgoingID: 3, OutgoingWindow: 4, Handle: value.Some[uint32](5),
		DeliveryCount: value.Some[uint32](6), LinkCredit: value.Some[uint32](7), Available: value.Some[uint32](8), Drain: true, Echo: true,
		Properties: unhex("c10100"),
	},
	&Transfer{
		Handle: 1, DeliveryID: value.Some[uint32](math.MaxUint32), DeliveryTag: make([]byte, 32), MessageFormat: value.Some[uint32](0),
		Settled: value.Some(true), More: true, RcvSettleMode: value.Some(ReceiverFirst), State: Received{1, 2},
		Resume: true, Aborted: true, Batchable: true,
	},
	&Disposition{
		Role: RoleReceiver, First: 1, Last: value.Some[uint32](2), Settled: true, Batchable: true,
		State: TransactionalState{
			TxnID:   make([]byte, 32),
			Outcome: Rejected{&Error{Condition: "c", Description: strings.Repeat("d", 300), Info: value.Map{}}},
		},
	},
}

func TestPerformativesHaveTheirBytes(t *testing.T) {
	t.Parallel()
	for _, c := range vectors {
		got, err := appendPerformative(nil, c.p)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if want := unhex(c.hex); !bytes.Equal(got, want) {
			t.Errorf("encode %s: got\n%x, want\n%x", c.name, got, want)
			continue
		}
		for _, encoded := range []string{c.hex, c.short} {
			if encoded == "" {
				continue
			}
			p, payload, err := new(Decoder).Decode(unhex(encoded))
			if err != nil || len(payload) != 0 || !reflect.DeepEqual(p, c.p) {
				t.Errorf("decode %s, %s: got %+v, %v, want %+v", c.name, encoded, p, err, c.p)
			}
		}
	}
}

func TestEveryFieldSurvivesARoundTrip(t *testing.T) {
	t.Parallel()
	for _, p := range full {
		b, err := appendPerformative(nil, p)
		if err != nil {
			t.Errorf("%T: %v", p, err)
			continue
		}
		got, _, err := new(Decoder).Decode(b)
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("got %+v, %v, want %+v", got, err, p)
		}
	}
}

func TestTransferHasAPayload(t *testing.T) {
	t.Parallel()
	p, payload, err := new(Decoder).Decode(append(unhex("00 5314 c0 03 01 5201"), "payload"...))
	if err != nil || string(payload) != "payload" {
		t.Fatalf("got payload %q, %v", payload, err)
	}
	if got, want := p.(*Transfer).Handle, uint32(1); got != want {
		t.Fatalf("got handle %d, want %d", got, want)
	}
}

func TestOtherSpellingsAreAccepted(t *testing.T) {
	t.Parallel()
	null := func(n int) string { return strings.Repeat("40", n) }
	for _, c := range []struct {
		name string
		hex  string
		want Performative
	}{
		{"wide descriptor", "00 80 0000000000000017 45", &End{}},
		{"symbolic descriptor", "00 a3 0d" + hex.EncodeToString([]byte("amqp:end:list")) + "45", &End{}},
		{"wide list", "00 5317 d0 00000004 00000000", &End{}},
		{"nulls at the end", "00 5316 c0 05 03 5203 40 40", &Detach{Handle: 3}},
		{"wide numbers", "00 5316 c0 08 02 7000000003 56 01", &Detach{Handle: 3, Closed: true}},
		{"fields of the future", "00 5317 c0 08 03 40 a10161 00 4040", &End{}},
		{"symbol for a string", "00 5310 c0 04 01 a30163", &Open{ContainerID: "c"}},
		{"string for a symbol", "00 5341 c0 04 01 a10141", &SASLInit{Mechanism: "A"}},
		{"symbol for an array", "00 5340 c0 04 01 a30141", &SASLMechanisms{[]value.Symbol{"A"}}},
		{"list for an array", "00 5340 c0 0a 01 c0 07 02 a30141 a30142", &SASLMechanisms{[]value.Symbol{"A", "B"}}},
		{
			"unsettled map is forgotten",
			"00 5312 c0 11 08 a1016c 43 42" + null(4) + "c1 05 02 a00101 40",
			&Attach{Name: "l"},
		},
		{"symbolic state", "00 5315 c0 1b 05 42 43 40 40 00 a3 12" + hex.EncodeToString([]byte("amqp:accepted:list")) + "45", &Disposition{State: Accepted{}}},
	} {
		got, _, err := new(Decoder).Decode(unhex(c.hex))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
}

// hostile are frame bodies that are refused, and the condition and text of the refusal.
var hostile = []struct {
	name string
	hex  string
	cond value.Symbol
	want string
}{
	{"not described", "45", CondDecodeError, "got list, want a described value"},
	{"descriptor cut short", "00 80 00", CondDecodeError, "is truncated"},
	{"descriptor alone", "00", CondDecodeError, "is truncated"},
	{"no list", "00 5310", CondDecodeError, "the data ends before a list"},
	{"map for a list", "00 5310 c1 01 00", CondDecodeError, "want list"},
	{"list cut short", "00 5310 c0 09 01 a1", CondDecodeError, "is truncated"},
	{"count beyond the list", "00 5310 c0 02 ff 40", CondDecodeError, "255 elements in 1 bytes"},
	{"huge count", "00 5310 d0 00000005 ffffffff 40", CondDecodeError, "4294967295 elements"},
	{"unknown number", "00 5399 45", CondNotImplemented, "descriptor 0x99"},
	{"unknown symbol", "00 a3 01 61 45", CondNotImplemented, "descriptor 0x0"},
	{"descriptor of another type", "00 41 45", CondNotImplemented, "descriptor 0x0"},
	{"state as performative", "00 5324 45", CondNotImplemented, "amqp:accepted:list is not a performative"},
	{"mandatory field absent", "00 5310 45", CondInvalidField, "amqp:open:list, field container-id is mandatory"},
	{"mandatory field null", "00 5310 c0 02 01 40", CondInvalidField, "container-id is mandatory"},
	{"later mandatory field absent", "00 5311 c0 04 03 40 43 43", CondInvalidField, "outgoing-window is mandatory"},
	{"attach without role", "00 5312 c0 05 02 a1016c 43", CondInvalidField, "role is mandatory"},
	{"wrong type", "00 5310 c0 02 01 43", CondDecodeError, "field container-id: value at byte 0: constructor 0x43 is uint"},
	{"long for an int", "00 5314 c0 03 01 5301", CondDecodeError, "is ulong, want uint"},
	{"field beyond the list", "00 5310 c0 04 01 a109 61", CondDecodeError, "is truncated"},
	{"bytes after the fields", "00 5317 c0 03 01 40 40", CondDecodeError, "1 bytes follow"},
	{"bytes after the performative", "00 5317 45 45", CondDecodeError, "1 bytes follow"},
	{"future field beyond the list", "00 5317 c0 05 02 40 a109 61", CondDecodeError, "is truncated"},
	{"bad utf-8", "00 5310 c0 04 01 a101ff", CondDecodeError, "UTF-8"},
	{"frame size too small", "00 5310 c0 0a 03 a10163 40 70000001ff", CondInvalidField, "max-frame-size is 511: it must be at least 512"},
	{"settle mode out of range", "00 5312 c0 08 04 a1016c 43 42 5003", CondInvalidField, "snd-settle-mode is 3: it must be at most 2"},
	{"receiver mode out of range", "00 5312 c0 09 05 a1016c 43 42 40 5002", CondInvalidField, "rcv-settle-mode is 2: it must be at most 1"},
	{"source is a target", "00 5312 c0 0c 06 a1016c 43 42 40 40 00 5329 45", CondInvalidField, "source is amqp:target:list"},
	{"target is a state", "00 5312 c0 0d 07 a1016c 43 42 40 40 40 00 5324 45", CondInvalidField, "target is amqp:accepted:list"},
	{"source is not described", "00 5312 c0 09 06 a1016c 43 42 40 40 45", CondDecodeError, "field source: got list, want a described value"},
	{"address is a number", "00 5312 c0 0f 06 a1016c 43 42 40 40 00 5328 c0 02 01 43", CondDecodeError, "field address"},
	{"filter is a list", "00 5312 c0 16 06 a1016c 43 42 40 40 00 5328 c0 09 08 40 40 40 40 40 40 40 45", CondInvalidField, "filter is not a map"},
	{"capabilities of numbers", "00 5312 c0 15 07 a1016c 43 42 40 40 40 00 5330 c0 07 01 e0 04 01 70 0000", CondDecodeError, "is truncated"},
	{"capabilities of strings", "00 5340 c0 07 01 e0 04 01 a1 0141", CondInvalidField, "not an array of symbols"},
	{"capabilities of numbers in a list", "00 5340 c0 05 01 c0 02 01 43", CondInvalidField, "not an array of symbols"},
	{"one number for capabilities", "00 5340 c0 02 01 43", CondInvalidField, "not an array of symbols"},
	{"no mechanisms", "00 5340 45", CondInvalidField, "is mandatory"},
	{"no outcome code", "00 5344 45", CondInvalidField, "code is mandatory"},
	{"unknown outcome code", "00 5344 c0 03 01 5005", CondInvalidField, "code is 5: it must be at most 4"},
	{"long tag", "00 5314 d0 0000010c 00000003 43 40 b0 00000101" + strings.Repeat("00", 257), CondInvalidField, "delivery-tag has 257 bytes"},
	{"long transaction id", "00 5315 c0 2e 05 42 43 40 40 00 5334 c0 24 01 a021" + strings.Repeat("00", 33), CondInvalidField, "txn-id has 33 bytes"},
	{"transaction without id", "00 5315 c0 09 05 42 43 40 40 00 5334 45", CondInvalidField, "txn-id is mandatory"},
	{"transaction in a transaction", "00 5315 c0 15 05 42 43 40 40 00 5334 c0 0b 02 a00101 00 5334 c0 02 01 40", CondInvalidField, "transactional state itself"},
	{"unknown state", "00 5315 c0 09 05 42 43 40 40 00 5350 45", CondInvalidField, "known delivery state"},
	{"state of unknown fields", "00 5315 c0 0a 05 42 43 40 40 00 5324 c0 00", CondDecodeError, "list has no count"},
	{"error is a state", "00 5317 c0 05 01 00 5324 45", CondInvalidField, "error is amqp:accepted:list"},
	{"error without condition", "00 5317 c0 05 01 00 531d 45", CondInvalidField, "condition is mandatory"},
	{"flow properties are a list", "00 5313 c0 0c 0b 40 43 43 43" + strings.Repeat("40", 6) + "45", CondInvalidField, "properties is a list"},
	{"annotations cut short", "00 5315 c0 0f 05 42 43 40 40 00 5327 c0 04 03 40 40 c1", CondDecodeError, "is truncated"},
	{"properties with a key twice", "00 5318 c0 16 01 00 531d c0 10 03 a30161 40 c1 09 04 a30162 40 a30162 40", CondDecodeError, "same key twice"},
}

func TestHostileBodiesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range hostile {
		p, _, err := new(Decoder).Decode(unhex(c.hex))
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Condition != c.cond || !strings.Contains(e.Description, c.want) {
			t.Errorf("%s: got %+v, %v, want %s: %s", c.name, p, err, c.cond, c.want)
		}
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range vectors {
		body := unhex(c.hex)
		for n := range body {
			if p, _, err := new(Decoder).Decode(body[:n:n]); err == nil {
				t.Errorf("%s cut to %d bytes: got %+v, want an error", c.name, n, p)
			}
		}
	}
}

func TestNestingInMapsIsLimited(t *testing.T) {
	t.Parallel()
	deep := any(value.List{"bottom"})
	for range 10 {
		deep = value.List{deep}
	}
	b, err := appendPerformative(nil, &Open{ContainerID: "c", Properties: value.Map{{Key: value.Symbol("k"), Value: deep}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&Decoder{Limits: value.Limits{Depth: 12}}).Decode(b); err != nil {
		t.Errorf("within the limit: %v", err)
	}
	_, _, err = (&Decoder{Limits: value.Limits{Depth: 11}}).Decode(b)
	if e, ok := errors.AsType[*Error](err); !ok || e.Condition != CondDecodeError {
		t.Errorf("beyond the limit: got %v, want %s", err, CondDecodeError)
	}
}

func TestADecoderReusesItsMemory(t *testing.T) {
	t.Parallel()
	var d Decoder
	first, _, err := d.Decode(unhex("00 5315 c0 0b 05 41 5201 5203 41 00 5324 45"))
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := d.Decode(unhex("00 5315 c0 04 02 42 5209"))
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Error("got two dispositions, want the same memory")
	}
	if want := (&Disposition{First: 9}); !reflect.DeepEqual(second, want) {
		t.Errorf("got %+v, want %+v: nothing of the first is left", second, want)
	}
}

func TestTransactionRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		hex  string
		want TransactionRequest
		cond value.Symbol
	}{
		{"declare", "00 5331 45", &Declare{}, ""},
		{"declare with a null", "00 5331 c0 02 01 40", &Declare{}, ""},
		{"declare with a global id", "00 5331 c0 04 01 a10161", &Declare{GlobalID: unhex("a10161")}, ""},
		{"commit", "00 5332 c0 05 02 a00101 42", &Discharge{TxnID: []byte{1}}, ""},
		{"rollback", "00 5332 c0 05 02 a00101 41", &Discharge{TxnID: []byte{1}, Fail: true}, ""},
		{"discharge without id", "00 5332 45", nil, CondInvalidField},
		{"something else", "00 5324 45", nil, CondNotImplemented},
		{"text", "a1 01 61", nil, CondDecodeError},
		{"more bytes", "00 5331 45 45", nil, CondDecodeError},
	} {
		got, err := DecodeTransactionRequest(unhex(c.hex), value.Limits{})
		if c.want != nil {
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
			}
		} else if e, ok := errors.AsType[*Error](err); !ok || e.Condition != c.cond {
			t.Errorf("%s: got %+v, %v, want %s", c.name, got, err, c.cond)
		}
	}
}

func TestEncodingRefusesForeignTypes(t *testing.T) {
	t.Parallel()
	bad := value.Map{{Key: value.Symbol("k"), Value: 1}}
	for _, p := range []Performative{
		&Open{Properties: bad},
		&Begin{Properties: bad},
		&Attach{Source: &Source{Filter: bad}},
		&Attach{Target: &Target{DynamicNodeProperties: bad}},
		&Disposition{State: TransactionalState{Outcome: Rejected{&Error{Info: bad}}}},
		&Close{&Error{Info: bad}},
		nil,
	} {
		got, err := AppendFrame([]byte("before"), 0, p, nil)
		if err == nil || string(got) != "before" {
			t.Errorf("%T: got %q, %v, want an error and nothing appended", p, got, err)
		}
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  Error
		want string
	}{
		{Error{Condition: CondNotFound}, "amqp:not-found"},
		{Error{Condition: CondNotFound, Description: "no q"}, "amqp:not-found: no q"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
