package remote

import (
	"context"
	"errors"
	"fmt"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

var ErrTooLarge = errors.New("the message is larger than the entity accepts")

// Service Bus accepts no larger batch, even if it accepts larger messages.
const (
	mostBatched    = 1000
	mostBatchBytes = 1 << 20
)

// Sender sends messages to an entity in batches. Only one goroutine may call its methods.
type Sender struct {
	client *Client
	entity string
	link   *goamqp.Sender
	most   uint64

	envelope []byte // envelope of the batch: the keys of its first message, by which Service Bus chooses the partition
	batch    [][]byte
	size     uint64
	sent     int
}

func (c *Client) Sender(ctx context.Context, entity string) (*Sender, error) {
	if err := checkAddress(entity); err != nil {
		return nil, err
	}
	link, err := c.connection.sender(ctx, entity)
	if err != nil {
		return nil, err
	}
	most := uint64(mostBatchBytes)
	if limit := link.MaxMessageSize(); limit > 0 {
		most = min(most, limit)
	}
	return &Sender{client: c, entity: entity, link: link, most: most}, nil
}

func (s *Sender) Sent() int { return s.sent }

// Add adds m to the batch. If the batch would become too large with m, Add first sends the batch.
// If m alone is too large for the entity, Add also sends the batch, and then returns ErrTooLarge.
func (s *Sender) Add(ctx context.Context, m *core.Message) error {
	encoded := amqp.AppendMessage(nil, m)
	size, limit := uint64(len(encoded)), s.link.MaxMessageSize()
	if tooLarge := limit > 0 && size > limit; tooLarge || s.size+size+batchOverhead > s.most || len(s.batch) == mostBatched {
		if err := s.Flush(ctx); err != nil {
			return err
		}
		if tooLarge {
			return ErrTooLarge
		}
	}
	if len(s.batch) == 0 {
		s.envelope = amqp.AppendMessage(nil, &core.Message{
			SessionID: m.SessionID, PartitionKey: m.PartitionKey, EmptyText: m.EmptyText & (core.FieldSessionID | core.FieldPartitionKey),
			Body: core.Body{Kind: core.BodyNone},
		})
		s.size = uint64(len(s.envelope))
	}
	s.batch = append(s.batch, encoded)
	s.size += size + batchOverhead
	return nil
}

// Flush sends the batch. If the remote refuses the batch, the error is a *goamqp.Error.
func (s *Sender) Flush(ctx context.Context) error {
	if len(s.batch) == 0 {
		return nil
	}
	m := goamqp.Message{DeliveryTag: amqp.SpliceTag(s.client.connection.tag.Add(1)), Data: s.batch}
	if len(s.batch) > 1 {
		all := s.envelope
		for _, encoded := range s.batch {
			all = amqp.AppendBatched(all, encoded)
		}
		m.Format, m.Data = amqp.FormatBatch, [][]byte{all}
	}
	n := len(s.batch)
	s.batch, s.size = nil, 0
	if err := send(ctx, s.link, &m); err != nil {
		return err
	}
	s.sent += n
	return nil
}

// Schedule sends all messages, or none. The sequence numbers are for CancelScheduled.
func (s *Sender) Schedule(ctx context.Context, ms []*core.Message) (numbers []int64, err error) {
	entries := make([]any, len(ms))
	for i, m := range ms {
		entry := map[string]any{"message-id": m.MessageID.String(), "message": amqp.AppendMessage(nil, m)}
		if m.HasSession() {
			entry["session-id"] = m.SessionID
		}
		if m.PartitionKey != "" {
			entry["partition-key"] = m.PartitionKey
		}
		entries[i] = entry
	}
	answer, err := s.client.ask(ctx, s.entity, "com.microsoft:schedule-message", map[string]any{"messages": entries})
	if err != nil {
		return nil, fmt.Errorf("cannot schedule messages of '%s': %w", s.entity, err)
	}
	array, _ := answer.At("sequence-numbers").(value.Array)
	for _, v := range array.Values {
		n, _ := value.Int(v)
		numbers = append(numbers, n)
	}
	s.sent += len(ms)
	return numbers, nil
}

// Close ends the link, without sending the batch.
func (s *Sender) Close() { s.client.connection.drop(s.entity, s.link) }
