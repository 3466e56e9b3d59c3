package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// everything is a message with all that a message can have.
func everything(t *testing.T) *core.Stored {
	t.Helper()
	properties, err := core.NewProperties(
		core.Property{Key: "int", Value: int32(1)}, core.Property{Key: "long", Value: int64(1)}, core.Property{Key: "ulong", Value: uint64(1 << 63)},
		core.Property{Key: "double", Value: 3.0}, core.Property{Key: "float", Value: float32(1.5)}, core.Property{Key: "symbol", Value: value.Symbol("s")},
		core.Property{Key: "binary", Value: []byte{0, 255}}, core.Property{Key: "decimal", Value: value.Decimal128{1, 2, 3}},
		core.Property{Key: "date", Value: value.Timestamp(1769860800123)}, core.Property{Key: "uuid", Value: value.UUID{1, 2}},
		core.Property{Key: "char", Value: value.Char('x')}, core.Property{Key: "null", Value: nil}, core.Property{Key: "text", Value: "<é>"},
	)
	if err != nil {
		t.Fatal(err)
	}
	return &core.Stored{
		Kind: core.StoredMessage, Subscription: "sub", Sub: core.DeadLetter, InSession: true,
		Delivery: core.Delivery{
			Message: &core.Message{
				MessageID: core.ULongID(1 << 60), CorrelationID: core.UUIDID([16]byte{1}), UserID: []byte{255}, To: "to", Subject: "subject", ReplyTo: "reply",
				ContentType: "text/plain", ContentEncoding: "gzip", SessionID: "S", ReplyToSessionID: "R", PartitionKey: "P", ViaPartitionKey: "V",
				GroupSequence: value.Some[uint32](7), CreationTime: at(1), AbsoluteExpiryTime: at(2), TimeToLive: 90 * time.Second, ScheduledEnqueueTime: at(3),
				WasScheduled: true, Durable: value.Some(false), FirstAcquirer: value.Some(true), Priority: value.Some[uint8](0), EmptyText: core.FieldSubject,
				Annotations: properties, DeliveryAnnotations: properties, Properties: properties,
				Body: core.Body{Kind: core.BodyValue, Bytes: []byte{0, 0x53, 0x77, 0xa1, 1, 'x'}}, Footer: []byte{1, 2},
				Transit: &core.Transit{EnqueuedSequenceNumber: 5, DeadLetterSource: "source", Hops: 2, Destination: "there"},
			},
			BrokerProperties: core.BrokerProperties{
				SequenceNumber: 1<<48 + 5, EnqueuedSequenceNumber: 5, EnqueuedTime: at(4), ExpiresAt: at(90004), DeliveryCount: 3,
				State: core.Scheduled, DeadLetterSource: "source",
			},
		},
	}
}

// A backup of any version is read by later ones, and programs read its lines.
func TestTheMembersOfALineStay(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	for _, x := range []*core.Stored{
		everything(t),
		{Kind: core.StoredState, Subscription: "sub", Session: "x", SessionState: []byte{255}, Time: at(5)},
		{Kind: core.StoredLast, Sub: core.Transfer, Last: 9},
		{Kind: core.StoredSeen, Key: "id", Time: at(6)},
	} {
		line := record.Of(x, "orders")
		if err := json.NewEncoder(&out).Encode(&line); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/lines.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", out.Bytes(), want)
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	t.Parallel()
	plain := func(b core.Body) *core.Stored {
		return &core.Stored{Kind: core.StoredMessage, Delivery: core.Delivery{
			Message: &core.Message{MessageID: core.BinaryID([]byte{9}), Body: b}, BrokerProperties: core.BrokerProperties{SequenceNumber: 1, EnqueuedSequenceNumber: 1},
		}}
	}
	things := []*core.Stored{
		{Kind: core.StoredLast, Sub: core.Transfer, Last: 9},
		{Kind: core.StoredState, Session: "", SessionState: []byte{255}, Time: at(5)},
		{Kind: core.StoredState, Session: "x", SessionState: []byte{}, Time: at(5)},
		everything(t),
		plain(core.Body{Bytes: []byte("text")}), plain(core.Body{Bytes: []byte{0xff}}), plain(core.Body{Bytes: []byte{}}), plain(core.Body{}),
		plain(core.Body{Kind: core.BodyNone}), plain(core.Body{Kind: core.BodySequence, Bytes: []byte{1}}), plain(core.Body{Kind: core.BodyDataSections, Bytes: []byte{1}}),
		{Kind: core.StoredSeen, Subscription: "sub", Key: "id\x00key", Time: at(6)},
		{Kind: core.StoredMove, Key: "\xff", Time: at(7)},
	}
	var out bytes.Buffer
	w, err := record.NewWriter(&out, record.Header{By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range things {
		l := record.Of(x, "orders")
		if err := w.Write(&l); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("no JSON: %s", line)
		}
	}
	if got := out.String(); !strings.Contains(got, `"entity":"orders/$DeadLetterQueue"`) || !strings.Contains(got, `"int":{"$int":1},"long":1`) || !strings.Contains(got, `"body":"text"`) {
		t.Errorf("the form has changed:\n%s", got)
	}
	r, _, err := record.NewReader(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range things {
		l, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Stored()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("thing %d: got %+v\nwant %+v", i, got, want)
			if want.Message != nil {
				t.Errorf("message: got %+v\nwant %+v", got.Message, want.Message)
			}
		}
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
	}
	refuse(t, out.String())
}

// refuse checks that a backup that is not whole is refused, whatever is missing.
func refuse(t *testing.T, whole string) {
	t.Helper()
	read := func(text string) error {
		r, _, err := record.NewReader(strings.NewReader(text))
		for err == nil {
			_, err = r.Next()
		}
		return err
	}
	lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
	for i := range len(whole) {
		if err := read(whole[:i]); err == nil || errors.Is(err, io.EOF) {
			t.Fatalf("the first %d of %d bytes were taken for a backup", i, len(whole))
		}
	}
	without := strings.Join(append(append([]string{}, lines[:4]...), lines[5:]...), "") + "\n"
	for what, c := range map[string]struct{ text, wanted string }{
		"a line is missing":  {without, "damaged"},
		"a byte has changed": {strings.Replace(whole, `"body":"text"`, `"body":"tExt"`, 1), "checksum"},
		"it goes on":         {whole + "\n", "more than one backup"},
		"twice":              {whole + whole, "more than one backup"},
		"no header":          {strings.Join(lines[1:], ""), "not a backup"},
		"nothing":            {"", "is empty"},
		"another version":    {strings.Replace(whole, `"version":1`, `"version":2`, 1), "format 2"},
		"an unknown member":  {strings.Replace(whole, `"body":"text"`, `"bodi":"text"`, 1), "bodi"},
		"something else":     {"hello\n", "line 1"},
	} {
		if err := read(c.text); err == nil || !strings.Contains(err.Error(), c.wanted) {
			t.Errorf("%s: got %v, want %q", what, err, c.wanted)
		}
	}
}
