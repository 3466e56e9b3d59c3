package messages

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
)

type tailOptions struct {
	command.Flags
	last  int
	count int
	dlq   bool
}

func Tail(environ []string) *cobra.Command {
	var o tailOptions
	c := &cobra.Command{
		Use:   "tail [ENTITY…]",
		Short: "Print the last messages and those that arrive, without removing them",
		Long: `Print the last messages and those that arrive, without removing or locking them, until
interrupted. The messages of all sessions are printed.

ENTITY is a queue, a subscription written TOPIC/Subscriptions/NAME, or the dead-letter
queue of either, with /$DeadLetterQueue at its end. The command peeks five times a second: it
misses a message that a receiver completes before the next peek. To receive messages, use
crosstown receive --follow; to replay them later, use crosstown record.`,
		Example: `  crosstown tail orders
  crosstown tail events/Subscriptions/eu --last 0 --json
  crosstown tail orders --dlq --last 50`,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.Bind(c, environ)
	f := c.Flags()
	f.IntVar(&o.last, "last", 10, "number of existing messages to print")
	f.IntVar(&o.count, "count", 0, "end after this number of messages; 0: do not end")
	f.BoolVar(&o.dlq, "dlq", false, "follow the dead-letter queue")
	return c
}

func (o *tailOptions) run(c *cobra.Command, args []string) error {
	if o.last < 0 || o.count < 0 {
		return command.Usagef("--last and --count cannot be negative")
	}
	t, entities, err := watched(&o.Flags, args)
	if err != nil {
		return err
	}
	if o.dlq {
		for i := range entities {
			entities[i] += core.DeadLetter.Suffix()
		}
	}
	f := &follower{out: c.OutOrStdout(), json: o.JSON, last: o.last, count: o.count, named: len(entities) > 1}
	r := &recorder{progress: command.NewProgress(io.Discard, ""), use: f.use, began: f.begin, idle: func() error { return nil }}
	if err := r.watch(c.Context(), t, entities, "tail %s/Subscriptions/NAME"); !errors.Is(err, errFollowed) {
		return err
	}
	return nil
}

var errFollowed = errors.New("printed the requested number of messages")

type follower struct {
	json  bool
	out   io.Writer
	last  int
	count int
	named bool

	begun   bool
	held    []func() error // functions that print the last existing messages
	printed int
}

func (f *follower) use(entity string, a amqp.Arrival) error {
	if f.begun {
		return f.print(entity, a)
	}
	if f.held = append(f.held, func() error { return f.print(entity, a) }); len(f.held) > f.last {
		f.held = f.held[1:]
	}
	return nil
}

func (f *follower) begin() error {
	f.begun = true
	for _, show := range f.held {
		if err := show(); err != nil {
			return err
		}
	}
	f.held = nil
	return nil
}

func (f *follower) print(entity string, a amqp.Arrival) error {
	var err error
	if f.named && !f.json {
		_, err = io.WriteString(f.out, entity+" ")
	}
	if err == nil {
		err = printMessage(f.out, f.json, entity, a, false)
	}
	if f.printed++; err == nil && f.printed == f.count {
		err = errFollowed
	}
	return err
}
