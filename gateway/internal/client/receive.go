package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// maxReceived is how many messages are asked for at once.
const maxReceived = 500

type receiveOptions struct {
	common
	count       int
	wait        string
	mode        string
	complete    bool
	abandon     bool
	deadLetter  bool
	reason      string
	description string
	dlq         bool
	session     sessionChoice
}

func receiveCommand(environ []string) *cobra.Command {
	var o receiveOptions
	c := &cobra.Command{
		Use:   "receive [ENTITY]",
		Short: "Receive messages, print them and complete them",
		Long: `Receive messages, print them and complete them.

ENTITY is a queue, or a subscription written TOPIC/Subscriptions/NAME. From an
entity with sessions the command receives one session: --session ID, or --next-session.`,
		Example: `  crosstown receive orders
  crosstown receive events/Subscriptions/eu
  crosstown receive replies --next-session --count 0
  crosstown receive orders --count 0 --wait 1s --json > all.jsonl
  crosstown receive orders --dlq --abandon`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.bind(c, environ)
	f := c.Flags()
	f.IntVar(&o.count, "count", 1, "messages to receive; 0: all")
	f.StringVar(&o.wait, "wait", "5s", "how long to wait for a message, a `duration`")
	f.StringVar(&o.mode, "mode", "peeklock", "peeklock, or delete to remove messages as they are delivered")
	f.BoolVar(&o.complete, "complete", false, "remove each message once it is printed (the default)")
	f.BoolVar(&o.abandon, "abandon", false, "abandon each message: it can be received again")
	f.BoolVar(&o.deadLetter, "dead-letter", false, "move each message to the dead-letter queue")
	f.StringVar(&o.reason, "reason", "", "dead-letter reason, with --dead-letter")
	f.StringVar(&o.description, "description", "", "dead-letter description, with --dead-letter")
	f.BoolVar(&o.dlq, "dlq", false, "receive from the dead-letter queue")
	o.session.bind(f)
	c.MarkFlagsMutuallyExclusive("complete", "abandon", "dead-letter")
	return c
}

func (o *receiveOptions) validate() (wait time.Duration, err error) {
	var errs []error
	if wait, err = config.ParseDuration(o.wait); err != nil || wait <= 0 {
		errs = append(errs, fmt.Errorf("--wait: %q: write a duration such as 5s", o.wait))
	}
	if o.count < 0 {
		errs = append(errs, fmt.Errorf("--count: %d: receive some, or 0 for all", o.count))
	}
	if err := o.session.validate(o.dlq); err != nil {
		errs = append(errs, err)
	}
	switch {
	case o.mode != "peeklock" && o.mode != "delete":
		errs = append(errs, fmt.Errorf("--mode: %q: use peeklock or delete", o.mode))
	case o.mode == "delete" && (o.complete || o.abandon || o.deadLetter):
		errs = append(errs, errors.New("--mode: delete leaves nothing to settle: drop --complete, --abandon and --dead-letter"))
	}
	return wait, usage(errors.Join(errs...))
}

func (o *receiveOptions) run(c *cobra.Command, args []string) error {
	wait, err := o.validate()
	if err != nil {
		return err
	}
	t, err := o.target()
	if err != nil {
		return err
	}
	options := &azservicebus.ReceiverOptions{}
	if o.mode == "delete" {
		options.ReceiveMode = azservicebus.ReceiveModeReceiveAndDelete
	}
	if o.dlq {
		options.SubQueue = azservicebus.SubQueueDeadLetter
	}
	receiver, done, err := t.receiver(c.Context(), args, options, o.session, wait)
	if err != nil {
		return t.explain(err)
	}
	defer done()
	progress := newProgress(c.ErrOrStderr(), "received")
	received, err := drain(c.Context(), receiver, o.count, wait, func(ms []*azservicebus.ReceivedMessage) error {
		if err := o.print(c.OutOrStdout(), ms); err != nil {
			return err
		}
		if o.mode == "delete" {
			return nil
		}
		return o.settle(c.Context(), receiver, ms)
	}, progress)
	if err == nil && !o.json && received == 0 {
		_, err = fmt.Fprintf(c.ErrOrStderr(), "no message arrived within %v\n", wait)
	}
	return t.explain(err)
}

// settle ends the locks, to the last one even if some are lost.
func (o *receiveOptions) settle(ctx context.Context, r source, ms []*azservicebus.ReceivedMessage) error {
	var errs []error
	for _, m := range ms {
		var err error
		switch {
		case o.abandon:
			err = r.AbandonMessage(ctx, m, nil)
		case o.deadLetter:
			err = r.DeadLetterMessage(ctx, m, &azservicebus.DeadLetterOptions{
				Reason: optional(o.reason), ErrorDescription: optional(o.description),
			})
		default:
			err = r.CompleteMessage(ctx, m, nil)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("settle %d: %w", show(m).SequenceNumber, err))
		}
	}
	return errors.Join(errs...)
}

// drain receives up to count messages (0: all), until none comes within wait,
// hands them to use, and returns how many there were.
func drain(ctx context.Context, r source, count int, wait time.Duration, use func([]*azservicebus.ReceivedMessage) error, p *progress) (int, error) {
	received := 0
	for count == 0 || received < count {
		most := maxReceived
		if count > 0 {
			most = min(most, count-received)
		}
		waiting, cancel := context.WithTimeout(ctx, wait)
		ms, err := r.ReceiveMessages(waiting, most, nil)
		cancel()
		if err != nil {
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				return received, nil
			}
			return received, err
		}
		received += len(ms)
		if err := use(ms); err != nil {
			return received, err
		}
		p.at(received)
	}
	return received, nil
}
