package journal

import (
	"reflect"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/wal"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
	"github.com/crosstown-mq/crosstown/core/value"
)

// full is a message with every field set.
func full(t testing.TB) *core.Message {
	props, err := core.NewProperties(core.Property{Key: "k", Value: int64(7)})
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(1_700_000_000_123).UTC()
	return &core.Message{
		MessageID: core.ULongID(1 << 60), CorrelationID: core.BinaryID([]byte{0, 255}), UserID: []byte{1},
		To: "to", Subject: "s", ReplyTo: "r", ContentType: "c", ContentEncoding: "e", SessionID: "Ä", ReplyToSessionID: "rs",
		PartitionKey: "pk", ViaPartitionKey: "vpk", GroupSequence: value.Some(uint32(9)), CreationTime: at,
		AbsoluteExpiryTime: at.Add(time.Hour), TimeToLive: 1500 * time.Microsecond, ScheduledEnqueueTime: at.Add(time.Minute),
		WasScheduled: true, Durable: value.Some(true), FirstAcquirer: value.Some(false), Priority: value.Some(uint8(3)),
		EmptyText: core.FieldTo | core.FieldPartitionKey, Annotations: props, DeliveryAnnotations: props, Properties: props,
		Body: core.Body{Kind: core.BodyValue, Bytes: []byte("body")}, Footer: []byte{4},
		Transit: &core.Transit{EnqueuedSequenceNumber: -5, DeadLetterSource: "d", Hops: 3, Destination: "x"},
	}
}

func TestHeadKeepsEveryField(t *testing.T) {
	t.Parallel()
	m := full(t)
	for i, v := 0, reflect.ValueOf(*m); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the test does not set %s", v.Type().Field(i).Name)
		}
	}
	for _, m := range []*core.Message{m, {}, {UserID: []byte{}, Footer: []byte{}, Transit: &core.Transit{}}} {
		got, behind, length, err := decodeHead(appendHead(nil, m, 1234, 99))
		if err != nil || behind != 1234 || length != 99 {
			t.Fatalf("decode: %v, body %d bytes before, of %d", err, behind, length)
		}
		got.Body.Bytes = m.Body.Bytes
		if !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, want %+v", got, m)
		}
	}
}

// What is cut short or changed is refused, or read as something else, but never panics.
func FuzzDecodeHead(f *testing.F) {
	f.Add(appendHead(nil, full(f), 0, 0))
	f.Add(appendHead(nil, &core.Message{}, 8, 3))
	f.Fuzz(func(t *testing.T, head []byte) {
		m, behind, length, err := decodeHead(head)
		if err != nil {
			return
		}
		_ = m.Size()
		if again, b, l, err := decodeHead(appendHead(nil, m, behind, length)); err != nil || b != behind || behind > 0 && l != length || again == nil {
			t.Fatalf("encoded again: %v", err)
		}
	})
}

// FuzzApply applies arbitrary frames: they are refused or not, and never panic.
func FuzzApply(f *testing.F) {
	f.Add([]byte{byte(aboutCatalogue), byte(state.EffectNoEntity), 0, 0, 0})
	f.Add([]byte{byte(aboutPartition), 1, 'q', 0, 2, byte(state.EffectPut), 0, 1, 2, 2, 0, 0, 0, 1, 1})
	f.Add([]byte{byte(aboutPiece), 9, byte(state.PieceHome), 1, 'q', 0, 0, byte(state.EffectSeen), 1, 'x', 2})
	f.Fuzz(func(t *testing.T, frame []byte) {
		s := state.New(state.Options{})
		e := core.Entity{Namespace: "ns", Name: "q", ID: "q", Partitions: 1, Settings: core.DefaultSettings(core.Queue)}
		if _, err := s.CreateEntity(t.Context(), e, core.NamespaceQuotas{}); err != nil {
			t.Fatal(err)
		}
		_ = apply(s.Replay(), wal.Frame{At: 1, Effects: frame, Records: []wal.Ref{{Position: 1, Length: 1}}})
	})
}
