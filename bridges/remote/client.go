package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

// Client is one connection to a remote, for a tool. It is not made anew when it breaks. Send may be
// called at any time, Peek from one goroutine.
type Client struct {
	remote     *Remote
	connection *connection
	nodes      map[string]*node // by entity
	stop       context.CancelFunc
	tasks      sync.WaitGroup
}

// Connect connects to a remote, once. Of the options Pulls and Logger have no meaning.
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

// Close ends the connection.
func (c *Client) Close() {
	c.stop()
	c.tasks.Wait()
	c.connection.close()
}

// Send is Send of core.Remote.
func (c *Client) Send(ctx context.Context, entity string, ms []*core.Message) []error {
	return c.remote.Send(ctx, entity, ms)
}

// Peek returns up to most messages of a queue, subscription or sub-queue from a sequence number on,
// without locking or removing one; none if there is none.
func (c *Client) Peek(ctx context.Context, entity string, from int64, most int) ([]amqp.Arrival, error) {
	return c.peek(ctx, entity, map[string]any{"from-sequence-number": from, "message-count": int32(most)})
}

// PeekState is Peek of the messages in one state. Another broker than Crosstown does not know states
// here: its answer has messages in any state, so the caller must look.
func (c *Client) PeekState(ctx context.Context, entity string, state core.State, from int64, most int) ([]amqp.Arrival, error) {
	return c.peek(ctx, entity, map[string]any{"from-sequence-number": from, "message-count": int32(most), amqp.ArgumentPeekState: int32(state)})
}

func (c *Client) peek(ctx context.Context, entity string, arguments map[string]any) ([]amqp.Arrival, error) {
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	n, err := c.node(ctx, entity)
	if err != nil {
		return nil, fmt.Errorf("peek at '%s': %w", entity, err)
	}
	answer, err := n.ask(ctx, "com.microsoft:peek-message", arguments)
	if err != nil {
		return nil, fmt.Errorf("peek at '%s': %w", entity, err)
	}
	list, _ := answer.Get("messages")
	entries, _ := list.(value.List)
	found := make([]amqp.Arrival, len(entries))
	for i, entry := range entries {
		fields, _ := entry.(value.Map)
		encoded, _ := fields.Get("message")
		payload, _ := encoded.([]byte)
		if found[i], err = amqp.ReadMessage(payload); err != nil {
			return nil, fmt.Errorf("peek at '%s': message %d of the answer: %w", entity, i, err)
		}
	}
	return found, nil
}

// node is the management node of an entity.
type node struct {
	requests *goamqp.Sender
	answers  *goamqp.Receiver
	reply    string // the address of answers
}

func (c *Client) node(ctx context.Context, entity string) (*node, error) {
	if n := c.nodes[entity]; n != nil {
		return n, nil
	}
	if err := c.connection.tokens.prove(ctx, c.connection, entity); err != nil {
		return nil, err
	}
	address := entity + "/$management"
	n := &node{reply: fmt.Sprintf("crosstown-management-%d", len(c.nodes))}
	var err error
	if n.answers, err = c.connection.session.NewReceiver(ctx, address, &goamqp.ReceiverOptions{Credit: 1, TargetAddress: n.reply}); err != nil {
		return nil, err
	}
	if n.requests, err = c.connection.session.NewSender(ctx, address, &goamqp.SenderOptions{SourceAddress: n.reply}); err != nil {
		return nil, err
	}
	c.nodes[entity] = n
	return n, nil
}

// ask asks for an operation and returns the answer; empty: there is nothing.
func (n *node) ask(ctx context.Context, operation string, arguments map[string]any) (value.Map, error) {
	err := n.requests.Send(ctx, &goamqp.Message{
		Properties:            &goamqp.MessageProperties{MessageID: operation, ReplyTo: &n.reply},
		ApplicationProperties: map[string]any{"operation": operation},
		Value:                 arguments,
	}, nil)
	if err != nil {
		return nil, err
	}
	m, err := n.answers.Receive(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := n.answers.AcceptMessage(ctx, m); err != nil {
		return nil, err
	}
	answer, err := amqp.ReadMessage(encodedOf(m))
	if err != nil {
		return nil, err
	}
	status, _ := answer.Properties.Get("statusCode")
	switch code, _ := value.Int(status); code {
	case 200:
	case 204:
		return nil, nil
	default:
		condition, _ := answer.Properties.Get("errorCondition")
		why, _ := answer.Properties.Get("statusDescription")
		return nil, &goamqp.Error{Condition: goamqp.ErrCond(textOf(condition)), Description: strings.TrimSpace(textOf(why))}
	}
	body, err := answer.Body.Value()
	if err != nil {
		return nil, err
	}
	fields, ok := body.(value.Map)
	if !ok {
		return nil, fmt.Errorf("the answer to %s is no map", operation)
	}
	return fields, nil
}

// textOf is a string or symbol of an answer.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case value.Symbol:
		return string(v)
	}
	return ""
}

// Refusal is what the remote says where err is its refusal of a policy, or of an entity that the
// policy is for.
func Refusal(err error) (status int, why string, ok bool) {
	refused, ok := errors.AsType[*refusedToken](err)
	if !ok {
		return 0, "", false
	}
	code, _ := value.Int(refused.status)
	return int(code), textOf(refused.why), true
}
