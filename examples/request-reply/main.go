// Request-reply sends a request to a worker and waits for its answer: in a reply queue of its own,
// and in a shared one with a session for each client. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/examples/internal/local"
)

const (
	requests      = "requests"
	replies       = "replies"
	sharedReplies = "shared-replies"
)

func main() { local.Main("request-reply", run) }

func run(ctx context.Context, binary string, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	g, err := local.Start(ctx, binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop()) }()
	manager, err := g.Admin()
	if err != nil {
		return err
	}
	for name, sessions := range map[string]bool{requests: false, replies: false, sharedReplies: true} {
		p := &admin.QueueProperties{RequiresSession: &sessions}
		if _, err := manager.CreateQueue(ctx, name, &admin.CreateQueueOptions{Properties: p}); err != nil {
			return err
		}
	}
	client, err := g.Client()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(context.WithoutCancel(ctx))) }()

	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- work(working, client) }()
	err = errors.Join(plain(ctx, client, out), multiplexed(ctx, client, out))
	stop()
	return errors.Join(err, <-worked)
}

func work(ctx context.Context, client *azservicebus.Client) error {
	receiver, err := client.NewReceiverForQueue(requests, nil)
	if err != nil {
		return err
	}
	senders := map[string]*azservicebus.Sender{} // by the queue for answers
	finish := context.WithoutCancel(ctx)         // for answers to received requests
	for {
		ms, err := receiver.ReceiveMessages(ctx, 10, nil)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, m := range ms {
			sender := senders[*m.ReplyTo]
			if sender == nil {
				if sender, err = client.NewSender(*m.ReplyTo, nil); err != nil {
					return err
				}
				senders[*m.ReplyTo] = sender
			}
			if err := sender.SendMessage(finish, replyTo(m), nil); err != nil {
				return err
			}
			if err := receiver.CompleteMessage(finish, m, nil); err != nil {
				return err
			}
		}
	}
}

func replyTo(request *azservicebus.ReceivedMessage) *azservicebus.Message {
	return &azservicebus.Message{
		Body:          []byte(strings.ToUpper(string(request.Body))),
		CorrelationID: &request.MessageID,
		SessionID:     request.ReplyToSessionID,
	}
}

// plain sends one question and waits for its answer in a reply queue that no other client uses.
func plain(ctx context.Context, client *azservicebus.Client, out io.Writer) error {
	sender, err := client.NewSender(requests, nil)
	if err != nil {
		return err
	}
	if err := sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("hello"), MessageID: new("1"), ReplyTo: new(replies)}, nil); err != nil {
		return err
	}
	receiver, err := client.NewReceiverForQueue(replies, nil)
	if err != nil {
		return err
	}
	ms, err := receiver.ReceiveMessages(ctx, 1, nil)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "plain: asked %q as message 1, was answered %q to message %s\n", "hello", ms[0].Body, *ms[0].CorrelationID)
	return errors.Join(receiver.CompleteMessage(ctx, ms[0], nil), receiver.Close(ctx), sender.Close(ctx))
}

// multiplexed makes several clients ask at the same time. They share a reply queue.
func multiplexed(ctx context.Context, client *azservicebus.Client, out io.Writer) error {
	var asking sync.WaitGroup
	names := []string{"ann", "bob", "cleo"}
	answers, errs := make([]string, len(names)), make([]error, len(names))
	for i, name := range names {
		asking.Go(func() { answers[i], errs[i] = ask(ctx, client, name, []string{"who am i? " + name, "thanks, bye"}) })
	}
	asking.Wait()
	for i, name := range names {
		_, _ = fmt.Fprintf(out, "multiplexed: %s was answered %s\n", name, answers[i])
	}
	return errors.Join(errs...)
}

// ask sends questions and returns the answers in order. The session with the client's name contains
// only this client's answers.
func ask(ctx context.Context, client *azservicebus.Client, name string, questions []string) (answers string, err error) {
	mine, err := client.AcceptSessionForQueue(ctx, sharedReplies, name, nil)
	if err != nil {
		return "", err
	}
	sender, err := client.NewSender(requests, nil)
	if err != nil {
		return "", err
	}
	var got []string
	for _, q := range questions {
		request := &azservicebus.Message{Body: []byte(q), ReplyTo: new(sharedReplies), ReplyToSessionID: &name}
		if err := sender.SendMessage(ctx, request, nil); err != nil {
			return "", err
		}
		ms, err := mine.ReceiveMessages(ctx, 1, nil)
		if err != nil {
			return "", err
		}
		got = append(got, fmt.Sprintf("%q", ms[0].Body))
		if err := mine.CompleteMessage(ctx, ms[0], nil); err != nil {
			return "", err
		}
	}
	return strings.Join(got, " and "), errors.Join(sender.Close(ctx), mine.Close(ctx))
}
