package messages

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Scripts read what --json prints, member by member, and a backup has the same form.
func TestTheMembersOfAPrintedMessageStay(t *testing.T) {
	t.Parallel()
	at := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	properties, err := core.NewProperties(
		core.Property{Key: "int", Value: int32(1)}, core.Property{Key: "text", Value: "<é>"}, core.Property{Key: core.PropertyDeadLetterReason, Value: "Wrong"},
		core.Property{Key: core.PropertyDeadLetterDescription, Value: "why"}, core.Property{Key: "date", Value: value.Timestamp(1769860800123)},
	)
	if err != nil {
		t.Fatal(err)
	}
	whole := amqp.Arrival{
		Message: &core.Message{
			MessageID: core.ULongID(1 << 60), CorrelationID: core.UUIDID([16]byte{1}), UserID: []byte{255}, To: "to", Subject: "subject", ReplyTo: "reply",
			ContentType: "text/plain", ContentEncoding: "gzip", SessionID: "S", ReplyToSessionID: "R", PartitionKey: "P", ViaPartitionKey: "V",
			GroupSequence: value.Some[uint32](7), CreationTime: at(1), AbsoluteExpiryTime: at(2), TimeToLive: 90 * time.Second, ScheduledEnqueueTime: at(3),
			Durable: value.Some(false), Priority: value.Some[uint8](0), EmptyText: core.FieldSubject, Annotations: properties, Properties: properties,
			Body: core.Body{Kind: core.BodyValue, Bytes: []byte{0, 0x53, 0x77, 0xa1, 1, 'x'}}, Footer: []byte{1, 2},
		},
		BrokerProperties: core.BrokerProperties{
			SequenceNumber: 1<<48 + 5, EnqueuedSequenceNumber: 5, EnqueuedTime: at(4), DeliveryCount: 3, State: core.Deferred, DeadLetterSource: "source",
		},
	}
	plain := amqp.Arrival{
		Message:          &core.Message{MessageID: core.StringID("m"), Body: core.Body{Bytes: []byte("text")}, TimeToLive: time.Hour, CreationTime: at(4), AbsoluteExpiryTime: at(5)},
		BrokerProperties: core.BrokerProperties{SequenceNumber: 1, EnqueuedSequenceNumber: 1, EnqueuedTime: at(4)},
	}
	var out bytes.Buffer
	for _, a := range []amqp.Arrival{whole, plain, {Message: &core.Message{Body: core.Body{Kind: core.BodyNone}}}} {
		for _, received := range []bool{false, true} {
			if err := printMessage(&out, true, map[bool]string{false: "orders"}[received], a, received); err != nil {
				t.Fatal(err)
			}
		}
	}
	want, err := os.ReadFile("testdata/printed.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", out.Bytes(), want)
	}
}

// What is not text is shown in part on a terminal, which may take it for commands.
func TestATerminalShowsTheBeginningOfBinaryBodies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body, file, terminal string
	}{
		{"text\tof\r\nlines ü", "text\tof\r\nlines ü", "text\tof\r\nlines ü"},
		{"a\x1b[2J", "a\x1b[2J", "61 1b 5b 32 4a"},
		{strings.Repeat("\xff", 5000), strings.Repeat("////", 1666), "(5000 bytes, not text; --json prints all)"},
	} {
		a := &amqp.Arrival{Message: &core.Message{MessageID: core.StringID("m"), Body: core.Body{Bytes: []byte(c.body)}}}
		if got := textOf(a, "", false); !strings.Contains(got, c.file) {
			t.Errorf("%.20q in a file: got %.200q", c.body, got)
		}
		if got := textOf(a, "", true); !strings.Contains(got, c.terminal) || len(got) > 1600 {
			t.Errorf("%.20q on a terminal: got %.200q", c.body, got)
		}
	}
}
