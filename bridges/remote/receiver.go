package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
)

const (
	sessionFilter     = "com.microsoft:session-filter"
	sessionFilterCode = uint64(0x000000137000000c)
	// sessionWait is a link property: for how many ms the remote waits for a next session.
	sessionWait = "com.microsoft:timeout"
)

// ErrNoSession says that no session that is free has messages.
var ErrNoSession = errors.New("no free session has messages")

// Receiver receives with peek-lock, from one goroutine.
type Receiver struct {
	link   *goamqp.Receiver
	credit uint32 // to issue
}

// receiverWindow is how many messages of a Receiver are under way.
const receiverWindow = 100

// Taken is a message under lock.
type Taken struct {
	amqp.Arrival
	m *goamqp.Message
}

// Receiver opens a link from a queue, a subscription or a sub-queue.
func (c *Client) Receiver(ctx context.Context, entity string) (*Receiver, error) {
	link, err := c.connection.receiver(ctx, entity)
	if err != nil {
		return nil, fmt.Errorf("receive from '%s': %w", entity, err)
	}
	return &Receiver{link, receiverWindow}, nil
}

// NextSession opens a link from the next free session that has messages, for which the remote waits for
// a while.
func (c *Client) NextSession(ctx context.Context, entity string, wait time.Duration) (*Receiver, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+linkTimeout)
	defer cancel()
	if err := c.connection.tokens.prove(ctx, c.connection, entity); err != nil {
		return nil, err
	}
	link, err := c.connection.session.NewReceiver(ctx, entity, &goamqp.ReceiverOptions{
		Credit:                    -1,
		RequestedSenderSettleMode: goamqp.SenderSettleModeUnsettled.Ptr(),
		SettlementMode:            goamqp.ReceiverSettleModeFirst.Ptr(),
		Filters:                   []goamqp.LinkFilter{goamqp.NewLinkFilter(sessionFilter, sessionFilterCode, nil)},
		Properties:                map[string]any{sessionWait: uint32(wait.Milliseconds())},
	})
	if refused, ok := errors.AsType[*goamqp.Error](err); ok && refused.Condition == "com.microsoft:timeout" {
		return nil, ErrNoSession
	}
	if err != nil {
		return nil, fmt.Errorf("receive from a session of '%s': %w", entity, err)
	}
	return &Receiver{link, receiverWindow}, nil
}

// Session is the id of the session that the link holds, "" where it holds none.
func (r *Receiver) Session() string {
	id, _ := r.link.LinkSourceFilterValue(sessionFilter).(string)
	return id
}

// Take returns messages that are locked, none if none comes within a while. Up to receiverWindow
// are under way.
func (r *Receiver) Take(ctx context.Context, wait time.Duration) ([]Taken, error) {
	if err := r.link.IssueCredit(r.credit); err != nil {
		return nil, err
	}
	r.credit = 0
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	first, err := next(waiting, r.link)
	if err != nil {
		if waiting.Err() != nil && ctx.Err() == nil {
			err = nil
		}
		return nil, err
	}
	r.credit = uint32(len(first))
	all := make([]Taken, len(first))
	for i, m := range first {
		a, err := amqp.ReadMessage(encodedOf(m))
		if err != nil {
			return nil, fmt.Errorf("a message cannot be read: %w", err)
		}
		all[i] = Taken{a, m}
	}
	return all, nil
}

// Complete removes a message from the remote.
func (r *Receiver) Complete(ctx context.Context, t *Taken) error {
	return r.link.AcceptMessage(ctx, t.m)
}

// Release unlocks a message without counting a delivery.
func (r *Receiver) Release(ctx context.Context, t *Taken) error {
	return r.link.ReleaseMessage(ctx, t.m)
}

// Return takes the credit back and releases what is under way. No Take may follow.
func (r *Receiver) Return(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	if err := r.link.DrainCredit(ctx, nil); err != nil {
		return err
	}
	var errs []error
	for m := r.link.Prefetched(); m != nil; m = r.link.Prefetched() {
		errs = append(errs, r.link.ReleaseMessage(ctx, m))
	}
	return errors.Join(errs...)
}

// Close ends the link. What was not completed becomes available when its lock ends.
func (r *Receiver) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_ = r.link.Close(ctx) // it may be broken
}

// CancelScheduled removes scheduled messages of an entity.
func (c *Client) CancelScheduled(ctx context.Context, entity string, numbers []int64) error {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	n, err := c.node(ctx, entity)
	if err == nil {
		_, err = n.ask(ctx, "com.microsoft:cancel-scheduled-message", map[string]any{"sequence-numbers": numbers})
	}
	if err != nil {
		return fmt.Errorf("cancel scheduled messages of '%s': %w", entity, err)
	}
	return nil
}
