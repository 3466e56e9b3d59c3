package remote

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Client is a tool's connection to a remote. It does not reconnect. It is safe for concurrent use.
type Client struct {
	remote     *Remote
	connection *connection
	stop       context.CancelFunc
	tasks      sync.WaitGroup

	mu    sync.Mutex       // held during a request to a node
	nodes map[string]*node // $management nodes, by entity
}

// Connect tries only once, and ignores the options Pulls and Logger.
func Connect(ctx context.Context, o Options) (*Client, error) {
	r := New(o)
	l, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	r.connection = l
	c := &Client{remote: r, connection: l, nodes: map[string]*node{}}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.tasks.Go(func() { l.renewTokens(ctx) })
	return c, nil
}

func (c *Client) Close() {
	c.stop()
	c.tasks.Wait()
	c.connection.close()
}

func (c *Client) Send(ctx context.Context, entity string, ms []*core.Message) []error {
	return c.remote.Send(ctx, entity, ms)
}

// Peek returns up to most messages of a queue, subscription or sub-queue, from a sequence number
// on, without locking them. state selects messages in one state; nil means all. Brokers other than
// Crosstown ignore it, so the caller must check the state of each message.
func (c *Client) Peek(ctx context.Context, entity string, state *core.State, from int64, most int) ([]amqp.Arrival, error) {
	arguments := map[string]any{"from-sequence-number": from, "message-count": int32(most)}
	if state != nil {
		arguments[amqp.ArgumentPeekState] = int32(*state)
	}
	answer, err := c.ask(ctx, entity, "com.microsoft:peek-message", arguments)
	if err != nil {
		return nil, fmt.Errorf("cannot peek at '%s': %w", entity, err)
	}
	var found []amqp.Arrival
	if err := eachMessage(answer, func(a amqp.Arrival, _ value.Map) { found = append(found, a) }); err != nil {
		return nil, fmt.Errorf("cannot peek at '%s': %w", entity, err)
	}
	return found, nil
}

func (c *Client) Pages(ctx context.Context, entity string, state *core.State, from int64) iter.Seq2[[]amqp.Arrival, error] {
	return func(yield func([]amqp.Arrival, error) bool) {
		for from >= 0 { // negative after the last partition
			page, err := c.Peek(ctx, entity, state, from, core.MaxPeek)
			if err == nil && len(page) == 0 || !yield(page, err) || err != nil {
				return
			}
			from = page[len(page)-1].SequenceNumber + 1
		}
	}
}

// HasActive reports whether entity has active messages, locked or not, with other numbers.
func (c *Client) HasActive(ctx context.Context, entity string, besides map[int64]bool) (bool, error) {
	for page, err := range c.Pages(ctx, entity, nil, 0) {
		if err != nil {
			return false, err
		}
		for _, a := range page {
			if a.State == core.Active && !besides[a.SequenceNumber] {
				return true, nil
			}
		}
	}
	return false, nil
}

// checkAddress refuses the address of a management node, which takes requests, not messages.
func checkAddress(entity string) error {
	if a, err := core.ParseAddress(entity); err == nil && a.Management {
		return &goamqp.Error{Condition: goamqp.ErrCondNotFound, Description: fmt.Sprintf("The messaging entity '%s' could not be found.", entity)}
	}
	return nil
}

func eachMessage(answer value.Map, use func(a amqp.Arrival, entry value.Map)) error {
	entries, _ := answer.At("messages").(value.List)
	for i, e := range entries {
		entry, _ := e.(value.Map)
		payload, _ := entry.At("message").([]byte)
		a, err := amqp.ReadMessage(payload)
		if err != nil {
			return fmt.Errorf("cannot read message %d of the remote's response: %w", i, err)
		}
		use(a, entry)
	}
	return nil
}

func (c *Client) CancelScheduled(ctx context.Context, entity string, numbers []int64) error {
	_, err := c.ask(ctx, entity, "com.microsoft:cancel-scheduled-message", map[string]any{"sequence-numbers": numbers})
	if err != nil {
		return fmt.Errorf("cannot cancel scheduled messages of '%s': %w", entity, err)
	}
	return nil
}

func Refusal(err error) (status int, why string, ok bool) {
	refused, ok := errors.AsType[*refusedToken](err)
	if !ok {
		return 0, "", false
	}
	code, _ := value.Int(refused.status)
	return int(code), textOf(refused.why), true
}
