package client

import (
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/spf13/cobra"
)

// peekWait is how long a next session is waited for.
const peekWait = 5 * time.Second

type peekOptions struct {
	common
	count int
	from  int64
	dlq   bool

	session sessionChoice
}

func peekCommand(environ []string) *cobra.Command {
	var o peekOptions
	c := &cobra.Command{
		Use:   "peek [ENTITY]",
		Short: "Print messages without removing them",
		Long: `Print messages without removing them.

ENTITY is a queue, or a subscription written TOPIC/Subscriptions/NAME. In an
entity with sessions the command reads one session and locks it meanwhile.

The exit code is 4 if there is no message.`,
		Example: `  crosstown peek orders --count 3
  crosstown peek events/Subscriptions/eu
  crosstown peek replies --session client-7
  crosstown peek orders --dlq --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.bind(c, environ)
	f := c.Flags()
	f.IntVar(&o.count, "count", 10, "messages to print; 0: all")
	f.Int64Var(&o.from, "from", 0, "sequence `number` to begin at")
	f.BoolVar(&o.dlq, "dlq", false, "read the dead-letter queue")
	o.session.bind(f)
	return c
}

func (o *peekOptions) run(c *cobra.Command, args []string) error {
	if o.count < 0 || o.from < 0 {
		return usagef("--count and --from cannot be negative")
	}
	if err := usage(o.session.validate(o.dlq)); err != nil {
		return err
	}
	t, err := o.target()
	if err != nil {
		return err
	}
	options := &azservicebus.ReceiverOptions{}
	if o.dlq {
		options.SubQueue = azservicebus.SubQueueDeadLetter
	}
	receiver, done, err := t.receiver(c.Context(), args, options, o.session, peekWait)
	if errors.Is(err, errNoSession) {
		return nothingf("%v", err)
	}
	if err != nil {
		return t.explain(err)
	}
	defer done()
	progress := newProgress(c.ErrOrStderr(), "peeked at")
	shown := 0
	for from := o.from; o.count == 0 || shown < o.count; progress.at(shown) {
		most := maxReceived
		if o.count > 0 {
			most = min(most, o.count-shown)
		}
		ms, err := receiver.PeekMessages(c.Context(), most, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
		if err != nil && shown == 0 && !o.dlq {
			return t.sessionHint(c.Context(), args, o.session, err)
		}
		if err != nil {
			return t.explain(err)
		}
		if len(ms) == 0 {
			break
		}
		if err := o.print(c.OutOrStdout(), ms); err != nil {
			return err
		}
		shown += len(ms)
		from = show(ms[len(ms)-1]).SequenceNumber + 1
	}
	if shown == 0 {
		return nothingf("there is no message")
	}
	return nil
}
