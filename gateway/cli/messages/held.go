package messages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func heldListCommand(environ []string, state core.State, word string, columns ...column) *cobra.Command {
	var o chosen
	c := &cobra.Command{
		Use:   "list [ENTITY]",
		Short: "List " + word + " messages",
		Long: "List the " + word + ` messages of all sessions, without locking or removing them.

A gateway finds these messages in its store, however many other messages there are. From
another broker the command reads all messages. --json prints one message per line, as
crosstown record does.`,
		Example: fmt.Sprintf(`  crosstown %[1]s list orders
  crosstown %[1]s list orders --property region=eu --count 0 --json`, word),
	}
	o.bind(c, environ)
	c.Flags().IntVar(&o.count, "count", listedAtMost, "messages to list; 0: all")
	c.RunE = o.browsing(func(c *cobra.Command, b *browser) error {
		b.state = &state
		return o.list(c, b, columns...)
	})
	return c
}

func Scheduled(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use:   "scheduled",
		Short: "List, activate, reschedule and cancel scheduled messages",
		Example: `  crosstown scheduled list orders
  crosstown scheduled activate orders --sequence-number 17
  crosstown scheduled activate orders --sequence-number 17 --at 2026-12-24T18:00:00Z
  crosstown scheduled cancel orders --sequence-number 17
  crosstown scheduled cancel orders --where "region = 'eu'"`,
	})
	c.AddCommand(heldListCommand(environ, core.Scheduled, "scheduled", numberColumn, idColumn, dueColumn, bodyColumn), activateCommand(environ, core.Scheduled), cancelCommand(environ))
	return c
}

func cancelCommand(environ []string) *cobra.Command {
	var o chosen
	var sure command.Confirmation
	var all bool
	c := &cobra.Command{
		Use:   "cancel [ENTITY]",
		Short: "Cancel scheduled messages, so that they are never delivered",
		Long: `Cancel scheduled messages, which are then never delivered. A message must match all flags that
are given. The command needs Send, and Listen to find messages.`,
		Example: `  crosstown scheduled cancel orders --sequence-number 17
  crosstown scheduled cancel orders --where "region = 'eu'"
  crosstown scheduled cancel orders --all --yes`,
	}
	o.bind(c, environ)
	sure.Bind(c)
	c.Flags().IntVar(&o.count, "count", 0, "maximum number of messages; 0: all that match")
	c.Flags().BoolVar(&all, "all", false, "cancel all scheduled messages")
	run := o.browsing(func(c *cobra.Command, b *browser) error {
		b.state = new(core.Scheduled)
		numbers, err := b.found(c.Context())
		if err != nil {
			return err
		}
		if len(o.numbers) == 0 { // the user need not confirm messages that the command line lists
			if err := sure.Confirm(c, fmt.Sprintf("cancel %s of %s", command.Messages(len(numbers)), b.entity)); err != nil {
				return err
			}
		}
		n, err := b.cancel(c.Context(), numbers, command.NewProgress(c.ErrOrStderr(), "cancelled"))
		return o.report(c, n, err, map[string]any{"cancelled": n, "from": b.entity}, "cancelled %s of %s", command.Messages(n), b.entity)
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.isEmpty() != all {
			return command.Usagef("specify the messages to cancel with --sequence-number, --where or another filter, or use --all")
		}
		return run(c, args)
	}
	return c
}

const cancelledAtOnce = 250

// cancel cancels scheduled messages. If some are no longer scheduled, the error says how many.
func (b *browser) cancel(ctx context.Context, numbers []int64, p *command.Progress) (n int, err error) {
	gone, err := inParts(numbers, cancelledAtOnce, func(some []int64) error {
		err := b.link.CancelScheduled(ctx, b.entity, some)
		if err == nil {
			n += len(some)
			p.At(n)
		}
		return err
	})
	if err == nil && gone > 0 {
		err = fmt.Errorf("cannot cancel %s of %s: they are already active or cancelled", command.Messages(gone), b.entity)
	}
	return n, err
}

// inParts calls do with up to atOnce numbers at a time. If a message is missing, the broker does
// nothing for its partition. inParts then calls do with each number separately. gone is the number
// of missing messages.
func inParts(numbers []int64, atOnce int, do func(some []int64) error) (gone int, err error) {
	for some := range slices.Chunk(numbers, atOnce) {
		err := do(some)
		switch {
		case err == nil:
		case !isGone(err):
			return gone, err
		case len(some) == 1:
			gone++
		default:
			more, err := inParts(some, 1, do)
			if gone += more; err != nil {
				return gone, err
			}
		}
	}
	return gone, nil
}

func Deferred(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use:   "deferred",
		Short: "List, receive and activate deferred messages",
		Example: `  crosstown deferred list orders
  crosstown deferred activate orders --sequence-number 17
  crosstown deferred receive orders --sequence-number 17
  crosstown deferred receive orders --where "region = 'eu'" --dead-letter --reason stuck`,
	})
	c.AddCommand(heldListCommand(environ, core.Deferred, "deferred", numberColumn, idColumn, sessionColumn, enqueuedColumn, bodyColumn), activateCommand(environ, core.Deferred), deferredReceiveCommand(environ))
	return c
}

func deferredReceiveCommand(environ []string) *cobra.Command {
	var o chosen
	var how outcome
	c := &cobra.Command{
		Use:   "receive [ENTITY]",
		Short: "Receive deferred messages, print them and complete them",
		Long: `Receive deferred messages, print them and complete them: those that match all flags that are
given, or without flags all deferred messages. An abandoned message stays deferred. In an
entity with sessions the command locks each session in turn.

The exit code is 4 if no message matches.`,
		Example: `  crosstown deferred receive orders --sequence-number 17
  crosstown deferred receive orders --older-than 1d --dead-letter --reason forgotten
  crosstown deferred receive orders --count 1 --abandon`,
	}
	o.bind(c, environ)
	how.bind(c)
	c.Flags().IntVar(&o.count, "count", 0, "maximum number of messages; 0: all that match")
	run := o.browsing(func(c *cobra.Command, b *browser) error {
		b.state = new(core.Deferred)
		found, err := b.held(c.Context())
		if err != nil {
			return err
		}
		_, err = b.receiveDeferred(c.Context(), found, remote.ReceiverOptions{}, func(r *remote.Receiver, ts []remote.Taken) error {
			if err := printReceived(c.OutOrStdout(), o.JSON, ts); err != nil {
				return err
			}
			return how.settle(context.WithoutCancel(c.Context()), r, ts)
		})
		return err
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := command.Usage(how.validate()); err != nil {
			return err
		}
		return run(c, args)
	}
	return c
}

// heldNumbers contains the sequence numbers of messages, by session id.
type heldNumbers map[string][]int64

func (h heldNumbers) all() (numbers []int64) {
	for _, some := range h {
		numbers = append(numbers, some...)
	}
	slices.Sort(numbers)
	return numbers
}

func (b *browser) held(ctx context.Context) (heldNumbers, error) {
	found := heldNumbers{}
	_, err := b.find(ctx, func(a *amqp.Arrival) error {
		found[a.SessionID] = append(found[a.SessionID], a.SequenceNumber)
		return nil
	})
	if err == nil && len(found) == 0 {
		err = b.none(ctx)
	}
	return found, err
}

const deferredAtOnce = 100

func (b *browser) receiveDeferred(ctx context.Context, numbers heldNumbers, o remote.ReceiverOptions, use func(*remote.Receiver, []remote.Taken) error) (n int, err error) {
	sessions := hasSessions(ctx, b.target, b.entity)
	if !sessions { // messages may have session ids even if the entity has no sessions
		numbers = heldNumbers{"": numbers.all()}
	}
	gone := 0
	for session, some := range numbers {
		if sessions {
			o.Session = &session
		}
		r, err := b.link.Receiver(ctx, b.entity, o)
		if err != nil {
			return n, err
		}
		var failed error
		missed, err := inParts(some, deferredAtOnce, func(some []int64) error {
			if failed != nil {
				return nil
			}
			ts, err := r.TakeDeferred(ctx, some)
			if err == nil {
				n += len(ts)
				failed = use(r, ts)
			}
			return err
		})
		r.Close()
		gone += missed
		if err = cmp.Or(failed, err); err != nil {
			return n, err
		}
	}
	if gone > 0 {
		return n, fmt.Errorf("cannot receive %s of %s: they are no longer deferred, or another receiver has locked them", command.Messages(gone), b.entity)
	}
	return n, nil
}

func Unlock(environ []string) *cobra.Command {
	c := activateCommand(environ, core.Active)
	c.Use, c.Short = "unlock [ENTITY]", "End the locks of messages whose receivers are stuck"
	c.Long = `End the locks of messages whose receivers are stuck, and end delays before a retry. Other
receivers get the messages at once, with unchanged delivery counts. The former receivers can no
longer settle the messages. In an entity with sessions, use crosstown session unlock.

A message must match all flags that are given. The command needs Manage, and Listen to find
messages.`
	c.Example = `  crosstown unlock orders --sequence-number 17
  crosstown unlock orders --older-than 2h
  crosstown unlock 'orders/$DeadLetterQueue' --message-id order-17`
	return c
}

func activateCommand(environ []string, state core.State) *cobra.Command {
	var o chosen
	var all bool
	var at string
	word := map[core.State]string{core.Active: "unlocked", core.Deferred: "activated", core.Scheduled: "activated"}[state]
	c := &cobra.Command{
		Use:   "activate [ENTITY]",
		Short: "Put deferred messages back into their queue or subscription",
		Long: `Put deferred messages back into their queue or subscription, at their former positions. The
messages keep their message ids, properties and delivery counts. A message must match all flags
that are given. The command needs Manage, and Listen to find messages.`,
		Example: `  crosstown deferred activate orders --sequence-number 17
  crosstown deferred activate orders --older-than 1d
  crosstown deferred activate orders --all`,
	}
	o.bind(c, environ)
	c.Flags().BoolVar(&all, "all", false, "select all messages that the command can change")
	c.Flags().IntVar(&o.count, "count", 0, "maximum number of messages; 0: all that match")
	if state == core.Scheduled {
		c.Short = "Deliver scheduled messages now, or at another time"
		c.Long = `Deliver scheduled messages now, or at another time. They keep their message ids and
properties. A message must match all flags that are given. The command needs Manage, and
Listen to find messages.`
		c.Example = `  crosstown scheduled activate orders --sequence-number 17
  crosstown scheduled activate orders --where "region = 'eu'" --at 2026-12-24T18:00:00Z
  crosstown scheduled activate orders --all`
		c.Flags().StringVar(&at, "at", "", "`time` at which the messages become active, such as 2026-12-24T18:00:00Z (default: now)")
	}
	var due time.Time
	run := o.browsing(func(c *cobra.Command, b *browser) error {
		b.state = &state
		numbers, err := b.found(c.Context())
		if err != nil {
			return err
		}
		var sum api.Moved
		for some := range slices.Chunk(numbers, askedToMove) {
			var answer api.Moved
			q := command.AboutEntity(http.MethodPost, api.MessagesPath, b.entity)
			q.Body = api.MoveRequest{Numbers: some, Activate: true, At: due}
			if err := o.Ask(c.Context(), q, &answer); err != nil {
				return err
			}
			sum.Moved += answer.Moved
			if sum.Absent = append(sum.Absent, answer.Absent...); state == core.Active && len(o.numbers) == 0 {
				sum.Absent = nil // these messages were not locked, which is not an error
			}
			for _, r := range answer.Refused {
				err = errors.Join(err, fmt.Errorf("the gateway refused the message with sequence number %d of %s: %s", r.Number, b.entity, r.Error))
			}
		}
		if len(sum.Absent) > 0 {
			err = errors.Join(err, fmt.Errorf("%s of %s could not be %s: the state has changed, or the messages were removed (sequence numbers %v)", command.Messages(len(sum.Absent)), b.entity, word, sum.Absent))
		}
		if err == nil && sum.Moved == 0 {
			return command.Nothingf("%s: no message is locked", b.entity)
		}
		return o.report(c, sum.Moved, err, map[string]any{word: sum.Moved, "entity": b.entity}, word+" %s of %s", command.Messages(sum.Moved), b.entity)
	})
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if o.isEmpty() != all {
			return command.Usagef("specify the messages with --sequence-number, --where or another filter, or use --all")
		}
		if at != "" {
			if due, err = time.Parse(time.RFC3339, at); err != nil {
				return command.Usagef("--at: %q is not a time: write it as in 2026-12-24T18:00:00Z", at)
			}
			word = "rescheduled"
		}
		return run(c, args)
	}
	return c
}
