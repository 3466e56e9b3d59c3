package remote

import (
	"context"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
)

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
