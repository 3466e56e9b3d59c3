package remote

import (
	"context"
	"fmt"
	"strings"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core/value"
)

// ask sends a request to entity's $management node. Only one request is in flight at a time. An
// operation without a result has an empty response. A refusal is a *goamqp.Error.
func (c *Client) ask(ctx context.Context, entity, operation string, arguments map[string]any) (value.Map, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	n, err := c.node(ctx, entity)
	if err != nil {
		return nil, err
	}
	answer, err := n.ask(ctx, operation, arguments)
	if err != nil { // the links may be broken, or a late response would seem to belong to the next request
		delete(c.nodes, entity)
		n.close()
	}
	return answer, err
}

func (c *Client) node(ctx context.Context, entity string) (*node, error) {
	if n := c.nodes[entity]; n != nil {
		return n, nil
	}
	if err := c.connection.prove(ctx, entity); err != nil {
		return nil, err
	}
	n, err := c.connection.node(ctx, entity+"/$management", fmt.Sprintf("crosstown-management-%d", c.connection.tag.Add(1)), 1)
	if err != nil {
		return nil, err
	}
	c.nodes[entity] = n
	return n, nil
}

func (n *node) ask(ctx context.Context, operation string, arguments map[string]any) (value.Map, error) {
	answer, err := n.request(ctx, operation, map[string]any{"operation": operation}, arguments)
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
		return nil, fmt.Errorf("the body of the remote's response to %s is not a map", operation)
	}
	return fields, nil
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case value.Symbol:
		return string(v)
	}
	return ""
}

// node is a node of the remote, such as $management, with links for requests and answers.
type node struct {
	requests *goamqp.Sender
	answers  *goamqp.Receiver
	reply    string
}

// node opens links to the node at address. Responses go to reply, up to credit at a time.
func (l *connection) node(ctx context.Context, address, reply string, credit int32) (*node, error) {
	n := &node{reply: reply}
	var err error
	if n.answers, err = l.session.NewReceiver(ctx, address, &goamqp.ReceiverOptions{Credit: credit, TargetAddress: reply}); err != nil {
		return nil, err
	}
	n.requests, err = l.session.NewSender(ctx, address, &goamqp.SenderOptions{SourceAddress: reply})
	return n, err
}

func (n *node) request(ctx context.Context, id string, properties map[string]any, v any) (amqp.Arrival, error) {
	m := &goamqp.Message{Properties: &goamqp.MessageProperties{MessageID: id, ReplyTo: &n.reply}, ApplicationProperties: properties, Value: v}
	if err := send(ctx, n.requests, m); err != nil {
		return amqp.Arrival{}, err
	}
	answer, err := n.answers.Receive(ctx, nil)
	if err == nil {
		err = n.answers.AcceptMessage(ctx, answer)
	}
	if err != nil {
		return amqp.Arrival{}, err
	}
	return amqp.ReadMessage(encodedOf(answer))
}

func (n *node) close() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_ = n.requests.Close(ctx) // the links may be broken
	_ = n.answers.Close(ctx)
}
