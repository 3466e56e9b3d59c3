package messages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	goamqp "github.com/Azure/go-amqp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

type receiveOptions struct {
	command.Flags
	outcome
	count   int
	wait    string
	mode    string
	dlq     bool
	follow  bool
	session sessionChoice
	raw     bool
	output  string
	whole   command.Output
}

type outcome struct {
	complete    bool
	abandon     bool
	deadLetter  bool
	reason      string
	description string
}

func (o *outcome) bind(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.complete, "complete", false, "remove each message once it is printed (the default)")
	f.BoolVar(&o.abandon, "abandon", false, "abandon each message: it can be received again")
	f.BoolVar(&o.deadLetter, "dead-letter", false, "move each message to the dead-letter queue")
	f.StringVar(&o.reason, "reason", "", "dead-letter reason, with --dead-letter")
	f.StringVar(&o.description, "description", "", "dead-letter description, with --dead-letter")
	c.MarkFlagsMutuallyExclusive("complete", "abandon", "dead-letter")
}

func (o *outcome) validate() error {
	if !o.deadLetter && (o.reason != "" || o.description != "") {
		return errors.New("--reason and --description require --dead-letter")
	}
	return nil
}

func Receive(environ []string) *cobra.Command {
	var o receiveOptions
	c := &cobra.Command{
		Use:   "receive [ENTITY]",
		Short: "Receive messages, print them and complete them",
		Long: `Receive messages, print them and complete them.

ENTITY is a queue, or a subscription written TOPIC/Subscriptions/NAME. From an entity with
sessions the command receives the messages of one session, which --session ID or --next-session
selects; with --follow --next-session it receives one session after the other.

With --raw the command prints only the bodies, byte for byte, one after the other. An AMQP
value or sequence is printed as text. With --output the command writes to a file, and
completes messages when the file is synced.

The exit code is 4 if no message arrived.`,
		Example: `  crosstown receive orders
  crosstown receive orders --raw --output order.bin
  crosstown receive events/Subscriptions/eu
  crosstown receive replies --next-session --count 0
  crosstown receive orders --count 0 --wait 1s --json > all.jsonl
  crosstown receive orders --follow
  crosstown receive orders --dlq --abandon`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.Flags.Bind(c, environ)
	f := c.Flags()
	f.IntVar(&o.count, "count", 1, "messages to receive; 0: all")
	f.StringVar(&o.wait, "wait", "5s", "how long to wait for a message: a `duration` such as 10s")
	f.StringVar(&o.mode, "mode", "peeklock", "peeklock: lock each message until it is settled; delete: remove each message when it is delivered")
	f.BoolVar(&o.dlq, "dlq", false, "receive from the dead-letter queue")
	o.session.bind(f)
	f.BoolVar(&o.follow, "follow", false, "continue until interrupted, or until --count messages are received")
	o.outcome.bind(c)
	f.BoolVar(&o.raw, "raw", false, "print only the bodies, byte for byte")
	f.StringVar(&o.output, "output", "-", "`file` to write; - is standard output")
	o.whole.Bind(c)
	c.MarkFlagsMutuallyExclusive("follow", "wait")
	c.MarkFlagsMutuallyExclusive("raw", "json")
	return c
}

func (o *receiveOptions) validate() (wait time.Duration, err error) {
	var errs []error
	if wait, err = config.ParseDuration(o.wait); err != nil || wait <= 0 {
		errs = append(errs, fmt.Errorf("--wait is %q: write a duration above 0, such as 5s", o.wait))
	}
	if o.count < 0 {
		errs = append(errs, fmt.Errorf("--count is %d: use a positive number, or 0 for all messages", o.count))
	}
	errs = append(errs, o.session.validate(o.dlq), o.outcome.validate())
	if o.follow && o.abandon {
		errs = append(errs, errors.New("--follow with --abandon would receive the same messages repeatedly: use crosstown tail, which leaves messages in the entity"))
	}
	switch {
	case o.mode != "peeklock" && o.mode != "delete":
		errs = append(errs, fmt.Errorf("--mode is %q: use peeklock or delete", o.mode))
	case o.mode == "delete" && (o.complete || o.abandon || o.deadLetter):
		errs = append(errs, errors.New("--mode delete cannot be combined with --complete, --abandon or --dead-letter, because received messages are already deleted"))
	}
	return wait, errors.Join(command.Usage(errors.Join(errs...)), o.whole.Check(o.output))
}

const always = 100 * 365 * 24 * time.Hour

// sessionIdle is how long receive --follow --next-session waits for messages of one session.
const sessionIdle = 500 * time.Millisecond

func (o *receiveOptions) run(c *cobra.Command, args []string) (err error) {
	wait, err := o.validate()
	if err != nil {
		return err
	}
	t, entity, err := o.TargetEntity(args)
	if err != nil {
		return err
	}
	if o.follow {
		wait = always
		if !c.Flags().Changed("count") {
			o.count = 0
		}
	}
	if o.output != "-" {
		file, err := os.OpenFile(o.output, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		c.SetOut(file)
	}
	link, err := t.Link(c.Context(), entity)
	if err != nil {
		return t.Explain(err)
	}
	defer link.Close()
	if o.dlq {
		entity += core.DeadLetter.Suffix()
	}
	received := 0
	for {
		n, err := o.receive(c, link, entity, received, wait)
		received += n
		switch {
		case o.follow && c.Context().Err() != nil:
			return nil // the user has interrupted the command
		case o.follow && errors.Is(err, remote.ErrNoSession):
			continue
		case errors.Is(err, remote.ErrNoSession):
			return command.Nothingf("%v", err)
		case err != nil && received == 0 && !o.dlq:
			return sessionHint(c.Context(), t, entity, o.session, err)
		case err != nil:
			return t.Explain(err)
		case o.follow && o.session.next && (o.count == 0 || received < o.count):
			continue
		case received == 0:
			return command.Nothingf("no message arrived within %v%s", wait, o.others(c.Context(), link, entity))
		}
		return nil
	}
}

func (o *receiveOptions) others(ctx context.Context, link *remote.Client, entity string) string {
	if o.session.named() || o.session.next {
		return ""
	}
	page, err := link.Peek(ctx, entity, new(core.Active), 0, core.MaxPeek)
	page = slices.DeleteFunc(page, func(a amqp.Arrival) bool { return a.State != core.Active })
	if err != nil || len(page) == 0 {
		return ""
	}
	return fmt.Sprintf("; other receivers have locked active messages, such as %d: see crosstown peek", page[0].SequenceNumber)
}

func (o *receiveOptions) receive(c *cobra.Command, link *remote.Client, entity string, before int, wait time.Duration) (int, error) {
	receiver, err := openReceiver(c.Context(), link, entity, remote.ReceiverOptions{Delete: o.mode == "delete"}, o.session, wait)
	if err != nil {
		return 0, err
	}
	defer receiver.Close()
	if o.follow && o.session.next {
		wait = sessionIdle
	}
	count := o.count
	if count > 0 {
		count -= before
	}
	told := c.ErrOrStderr()
	if o.follow {
		told = io.Discard // the printed messages already show progress
	}
	return drain(c.Context(), receiver, count, wait, func(ts []remote.Taken) error {
		if err := o.print(c.OutOrStdout(), ts); err != nil {
			return err
		}
		if o.mode == "delete" {
			return nil
		}
		return o.settle(context.WithoutCancel(c.Context()), receiver, ts) // settle even if ctx has ended, because the messages are printed
	}, command.NewProgress(told, "received"))
}

// print prints messages. If it fails, receive does not settle them, so that none is lost.
func (o *receiveOptions) print(out io.Writer, ts []remote.Taken) error {
	var err error
	if o.raw {
		for i := range ts {
			_, failed := out.Write(contentOf(&ts[i].Arrival))
			err = cmp.Or(err, failed)
		}
	} else {
		err = printReceived(out, o.JSON, ts)
	}
	if file, ok := out.(*os.File); ok && o.output != "-" && err == nil {
		err = file.Sync()
	}
	return err
}

func (o *outcome) settle(ctx context.Context, r *remote.Receiver, ts []remote.Taken) error {
	var errs []error
	switch {
	case o.abandon:
		errs = r.Abandon(ctx, ts)
	case o.deadLetter:
		errs = r.DeadLetter(ctx, ts, o.reason, o.description)
	default:
		errs = r.Complete(ctx, ts)
	}
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("cannot settle the message with sequence number %d: %w", ts[i].SequenceNumber, err)
		}
	}
	return errors.Join(errs...)
}

// drain passes up to count messages (0: all) to use. It returns if none arrives within wait.
func drain(ctx context.Context, r *remote.Receiver, count int, wait time.Duration, use func([]remote.Taken) error, p *command.Progress) (received int, err error) {
	hand := func(ts []remote.Taken) error {
		received += len(ts)
		if len(ts) == 0 {
			return nil
		}
		defer func() { p.At(received) }()
		return use(ts)
	}
	for count == 0 || received < count {
		ts, err := r.Take(ctx, count-received, wait)
		if len(ts) == 0 { // use messages in flight, too: the remote may have deleted them at delivery
			rest, failed := r.Rest(context.WithoutCancel(ctx))
			return received, cmp.Or(errors.Join(hand(rest), err), failed)
		}
		if err := hand(ts); err != nil {
			return received, err
		}
	}
	return received, nil
}

// hintPatience is the timeout of requests that only add a hint to an error.
const hintPatience = 5 * time.Second

type sessionChoice struct {
	id    string // named tells whether the flag is set, because "" is also a valid session id
	next  bool
	flags *pflag.FlagSet
}

func (s *sessionChoice) named() bool { return s.flags != nil && s.flags.Changed("session") }

func (s *sessionChoice) bind(f *pflag.FlagSet) {
	s.flags = f
	f.StringVar(&s.id, "session", "", "receive from the session with this `id`")
	f.BoolVar(&s.next, "next-session", false, "receive from the next free session that has messages")
}

func (s *sessionChoice) validate(dlq bool) error {
	switch {
	case s.named() && s.next:
		return errors.New("use --session or --next-session, not both")
	case dlq && (s.named() || s.next):
		return errors.New("--dlq cannot be combined with --session or --next-session, because a dead-letter queue has no sessions")
	}
	return nil
}

func openReceiver(ctx context.Context, link *remote.Client, entity string, o remote.ReceiverOptions, session sessionChoice, wait time.Duration) (*remote.Receiver, error) {
	switch {
	case session.named():
		o.Session = &session.id
	case session.next:
		o.Next = wait
	}
	r, err := link.Receiver(ctx, entity, o)
	if errors.Is(err, remote.ErrNoSession) {
		return nil, fmt.Errorf("%s: %w within %v", entity, err, wait)
	}
	return r, err
}

// told gets entity from the management API, for a hint in an error. ok is false after an error.
func told(ctx context.Context, t *command.Target, entity string) (e core.Entity, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, hintPatience)
	defer cancel()
	client := t.Management(nil)
	client.Attempts = 1
	e, _, err := client.Entity(ctx, command.AnyIdentity, entity)
	return e, err == nil
}

func hasSessions(ctx context.Context, t *command.Target, entity string) bool {
	e, ok := told(ctx, t, entity)
	return ok && e.Settings.RequiresSession
}

func isTopic(ctx context.Context, t *command.Target, entity string) bool {
	e, ok := told(ctx, t, entity)
	return ok && e.Kind == core.Topic
}

func sessionHint(ctx context.Context, t *command.Target, entity string, session sessionChoice, err error) error {
	if err == nil || command.IsNothing(err) || ctx.Err() != nil || session.named() || session.next || !hasSessions(ctx, t, entity) {
		return t.Explain(err)
	}
	return fmt.Errorf("the entity '%s' requires sessions: specify a session with --session ID, or accept the next session with --next-session", entity)
}

func isGone(err error) bool {
	if status, _, ok := remote.Refusal(err); ok {
		return status == http.StatusNotFound
	}
	refused, ok := errors.AsType[*goamqp.Error](err)
	return ok && (refused.Condition == goamqp.ErrCondNotFound || refused.Condition == "com.microsoft:message-not-found")
}
