package messages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/cli/deposit"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

const deadLetterHelp = `ENTITY is a queue, or a subscription written TOPIC/Subscriptions/NAME. The command finds dead
letters by peeking, so that receivers still get the messages that do not match. A message must
match all flags that are given. --where takes a SQL condition as in rules: write user properties
by name, such as DeadLetterReason, and broker properties as sys.Label, sys.MessageId or
sys.EnqueuedTimeUtc. The exit code is 4 if no message matches.`

func DeadLetter(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use:     "deadletter",
		Aliases: []string{"dlq"},
		Short:   "List, resubmit, move and purge dead letters",
		Example: `  crosstown deadletter list orders --reason MaxDeliveryCountExceeded
  crosstown deadletter resubmit orders --where "region = 'eu' AND sys.Label = 'order'"
  crosstown deadletter resubmit events/Subscriptions/eu --to events/Subscriptions/eu
  crosstown deadletter move orders --older-than 7d --to orders-archive
  crosstown deadletter purge orders --reason TTLExpiredException --yes`,
	})
	c.AddCommand(deadLetterListCommand(environ), deadLetterMoveCommand(environ, true), deadLetterMoveCommand(environ, false), deadLetterPurgeCommand(environ))
	return c
}

type deadLetters struct {
	chosen
	transfer bool
	dryRun   bool
	origin   string
}

func (o *deadLetters) bind(c *cobra.Command, environ []string) {
	o.chosen.bind(c, environ)
	o.bindReason(c.Flags())
	c.Flags().BoolVar(&o.transfer, "transfer", false, "use the transfer dead letters of ENTITY: messages that could not be forwarded")
	o.address = o.dead
}

func (o *deadLetters) bindAction(c *cobra.Command, environ []string) {
	o.bind(c, environ)
	c.Flags().IntVar(&o.count, "count", 0, "maximum number of messages; 0: all that match")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "list the messages, and change nothing")
}

func (o *deadLetters) dead(name string) (holder, source string, err error) {
	address, err := core.ParseAddress(name)
	if err != nil || address.Management {
		return "", "", command.Usagef("%q is not a queue or subscription: write QUEUE, or TOPIC/Subscriptions/NAME", name)
	}
	sub := core.DeadLetter
	if o.transfer || address.Sub == core.TransferDeadLetter || address.Sub == core.Transfer {
		sub = core.TransferDeadLetter
	}
	o.origin = address.Entity
	return address.Entity, address.Entity + sub.Suffix(), nil
}

func (o *deadLetters) list(c *cobra.Command, b *browser) error {
	return o.chosen.list(c, b, numberColumn, idColumn, reasonColumn, enqueuedColumn, bodyColumn)
}

const listedAtMost = 100

func deadLetterListCommand(environ []string) *cobra.Command {
	var o deadLetters
	c := &cobra.Command{
		Use:   "list [ENTITY]",
		Short: "List dead letters with their reasons",
		Long:  "List dead letters with their reasons, without locking or removing them.\n\n" + deadLetterHelp + "\n\n--json prints one message per line, as crosstown record does.",
		Example: `  crosstown deadletter list orders
  crosstown deadletter list orders --where "DeadLetterErrorDescription LIKE '%timeout%'" --count 0
  crosstown deadletter list events/Subscriptions/eu --json`,
	}
	o.bind(c, environ)
	c.Flags().IntVar(&o.count, "count", listedAtMost, "messages to list; 0: all")
	c.RunE = o.browsing(o.list)
	return c
}

func (b *browser) none(ctx context.Context) error {
	switch name, _, _ := strings.Cut(b.entity, "/$"); {
	case (b.state == nil || *b.state != core.Scheduled) && isTopic(ctx, b.target, name):
		return command.Usagef("%s is a topic, whose messages are in its subscriptions: write %[1]s/Subscriptions/NAME", name)
	case b.isEmpty():
		hint := ""
		if e, ok := told(ctx, b.target, name); ok && strings.EqualFold(b.entity, name+core.DeadLetter.Suffix()) && e.Settings.ForwardDeadLetteredMessagesTo != "" {
			hint = fmt.Sprintf(": %s forwards its dead letters: see crosstown peek %s", name, core.ResourcePath(e.Settings.ForwardDeadLetteredMessagesTo))
		}
		return command.Nothingf("%s: there is no message%s", b.entity, hint)
	default:
		return command.Nothingf("%s: no message matches", b.entity)
	}
}

type deadMove struct {
	deadLetters
	resubmit bool
	to       string
	newIDs   bool
}

func deadLetterMoveCommand(environ []string, resubmit bool) *cobra.Command {
	o := deadMove{resubmit: resubmit}
	const once = `

Each message is locked, copied to the target, and then removed. A Crosstown gateway does this
itself, and moves each message exactly once: if the gateway or the command stops before the end,
run the command again within a day. With another broker the command works like any client, and
after an interruption the last few messages may be duplicated. A target with duplicate detection
would drop a copy whose message id it has stored before: for such a target, --new-message-id is
required.

Properties keep their AMQP types; body, ids, session and time to live stay the same. Sequence
numbers, enqueued times and delivery counts are new. With a Crosstown gateway, the command needs
Manage on the target and Listen on ENTITY.`
	c := &cobra.Command{
		Use:   "move [ENTITY] --to TARGET",
		Short: "Move dead letters to another queue or topic, with their reasons",
		Long:  "Move dead letters to another queue or topic. They keep their reasons.\n\n" + deadLetterHelp + once,
		Example: `  crosstown deadletter move orders --to orders-archive
  crosstown deadletter move orders --older-than 7d --to 'archive/$DeadLetterQueue'`,
	}
	if resubmit {
		c.Use, c.Short = "resubmit [ENTITY]", "Send dead letters back to their queue or topic"
		c.Long = `Send dead letters back: those of a queue to the queue, those of a subscription to its topic,
which evaluates the rules of all subscriptions again. --to names another target. With a
Crosstown gateway, --to events/Subscriptions/eu puts messages back into only this subscription.
The command removes the properties DeadLetterReason and DeadLetterErrorDescription.

` + deadLetterHelp + once
		c.Example = `  crosstown deadletter resubmit orders
  crosstown deadletter resubmit orders --sequence-number 17,18
  crosstown deadletter resubmit orders --property region=eu --count 100 --dry-run
  crosstown deadletter resubmit intake --transfer`
	}
	o.bindAction(c, environ)
	f := c.Flags()
	f.BoolVar(&o.newIDs, "new-message-id", false, "give each copy a new message id; if the command is repeated after an interruption, it gives the copy of a message the same new id")
	f.StringVar(&o.to, "to", "", "queue or topic that gets the messages; with a Crosstown gateway also a subscription or a dead-letter queue (default: the queue or topic of ENTITY)")
	if !resubmit {
		f.Lookup("to").Usage = "queue or topic that gets the messages; with a Crosstown gateway also a subscription or a dead-letter queue"
		_ = c.MarkFlagRequired("to") // the flag exists
	}
	c.RunE = o.browsing(o.run)
	return c
}

func (o *deadMove) run(c *cobra.Command, b *browser) error {
	if o.to == "" {
		o.to = o.origin
		if topic, _, ok := core.SplitSubscription(o.origin); ok {
			o.to = topic
		}
	}
	if strings.EqualFold(o.to, b.entity) {
		return command.Usagef("--to: the messages are already in %s: specify another target", o.to)
	}
	if o.dryRun {
		if err := o.list(c, b); err != nil {
			return err
		}
		return command.Line(c.ErrOrStderr(), "the command would move these messages from %s to %s; nothing was changed", b.entity, o.to)
	}
	numbers, err := b.found(c.Context())
	if err != nil {
		return err
	}
	done := "moved"
	if o.resubmit {
		done = "resubmitted"
	}
	m := relocation{browser: b, notes: c.ErrOrStderr(), flags: &o.Flags, to: o.to, dropReasons: o.resubmit, newIDs: o.newIDs, progress: command.NewProgress(c.ErrOrStderr(), done)}
	err = m.run(c.Context(), numbers)
	return o.report(c, m.moved, err, map[string]any{done: m.moved, "from": b.entity, "to": o.to}, "%s %s from %s to %s", done, command.Messages(m.moved), b.entity, o.to)
}

func (b *browser) found(ctx context.Context) (numbers []int64, err error) {
	found, err := b.held(ctx)
	return found.all(), err
}

type deadPurge struct {
	deadLetters
	command.Confirmation
}

func deadLetterPurgeCommand(environ []string) *cobra.Command {
	var o deadPurge
	c := &cobra.Command{
		Use:   "purge [ENTITY]",
		Short: "Remove dead letters permanently",
		Long:  "Remove dead letters permanently. Dead letters that receivers have locked stay.\n\n" + deadLetterHelp,
		Example: `  crosstown deadletter purge orders --yes
  crosstown deadletter purge orders --reason TTLExpiredException --older-than 1d --dry-run`,
	}
	o.bindAction(c, environ)
	o.Confirmation.Bind(c)
	c.RunE = o.browsing(o.run)
	return c
}

func (o *deadPurge) run(c *cobra.Command, b *browser) error {
	if o.dryRun {
		return o.list(c, b)
	}
	purged := func(n int, failed error) error {
		return o.report(c, n, failed, map[string]any{"purged": n, "from": b.entity}, "purged %s from %s", command.Messages(n), b.entity)
	}
	if o.isEmpty() && o.count == 0 {
		if err := o.Confirm(c, "remove all dead letters of "+b.entity); err != nil {
			return err
		}
		n, err := purgeActive(c, &o.Flags, b.target, b.entity)
		switch {
		case err != nil:
			return err
		case n == 0:
			return command.Nothingf("%s: nothing to remove: there are no dead letters, or receivers have locked all of them", b.entity)
		}
		return purged(n, nil)
	}
	numbers, err := b.found(c.Context())
	if err != nil {
		return err
	}
	if err := o.Confirm(c, fmt.Sprintf("remove %s of %s", command.Messages(len(numbers)), b.entity)); err != nil {
		return err
	}
	m := relocation{browser: b, notes: c.ErrOrStderr(), flags: &o.Flags, progress: command.NewProgress(c.ErrOrStderr(), "purged")}
	err = m.run(c.Context(), numbers)
	return purged(m.moved, err)
}

const askedToMove = 200

// takeWait is how long to wait for a chosen message at another broker. If the message does not
// arrive, another receiver has probably locked it.
const takeWait = 5 * time.Second

// relocation moves or removes chosen messages. It uses the gateway's API. At another broker, it
// receives the messages, sends copies and completes the originals.
type relocation struct {
	*browser
	flags       *command.Flags
	to          string // "" if the messages are removed
	dropReasons bool
	newIDs      bool
	progress    *command.Progress
	notes       io.Writer

	moved   int
	absent  int // number of messages that were missing or locked
	refused int
	twice   []int64 // messages in source and target, because their locks expired before they were removed
}

func (m *relocation) run(ctx context.Context, numbers []int64) error {
	for some := range slices.Chunk(numbers, askedToMove) {
		var answer api.Moved
		err := m.flags.Ask(ctx, command.Inquiry{
			Method: http.MethodPost, Path: api.MessagesPath, Names: []string{m.entity}, Scope: m.scope(),
			Body: api.MoveRequest{Numbers: some, To: m.to, DropReasons: m.dropReasons, NewMessageIDs: m.newIDs},
		}, &answer)
		if refused, ok := errors.AsType[*command.Refusal](err); ok && !refused.Told && m.moved == 0 {
			return errors.Join(m.receive(ctx, numbers), m.outcome())
		}
		if err != nil {
			return err
		}
		m.moved += answer.Moved
		m.absent += len(answer.Absent)
		for _, r := range answer.Refused {
			m.refuse(r.Number, r.Error)
		}
		m.progress.At(m.moved)
	}
	return m.outcome()
}

// scope returns the queue or topic that contains both source and target, because a token for it is
// sufficient. If they are in different ones, it returns "", which means the namespace.
func (m *relocation) scope() string {
	from, to := command.PolicyHolder(m.entity), command.PolicyHolder(m.to)
	if m.to == "" || core.FoldName(from) == core.FoldName(to) {
		return from
	}
	return ""
}

func (m *relocation) refuse(number int64, why string) {
	m.refused++
	_, _ = fmt.Fprintf(m.notes, "%s: message %d stays: %s\n", m.entity, number, command.Trim(why))
}

func (m *relocation) outcome() error {
	var errs []error
	if m.absent > 0 {
		errs = append(errs, fmt.Errorf("could not lock %s of %s, because other receivers have locked or received them: run the command again later for those that become available", command.Messages(m.absent), m.entity))
	}
	if len(m.twice) > 0 {
		errs = append(errs, fmt.Errorf("sent %s to %s after their locks in %[3]s had expired, so both entities have copies: remove one copy of each (sequence numbers in %[3]s: %v)", command.Messages(len(m.twice)), m.to, m.entity, m.twice))
	}
	if m.refused > 0 {
		errs = append(errs, fmt.Errorf("could not move %s from %s, for the reasons given above", command.Messages(m.refused), m.entity))
	}
	return errors.Join(errs...)
}

// receive moves messages at another broker. To reach the chosen messages, it must also lock the
// messages before them. It unlocks these at the end.
func (m *relocation) receive(ctx context.Context, numbers []int64) error {
	wanted := map[int64]bool{}
	for _, n := range numbers {
		wanted[n] = true
	}
	if err := m.checkDuplicates(ctx); err != nil {
		return err
	}
	to := &deposit.Storer{Flags: *m.flags, To: m.target, Foreign: true, Link: m.link}
	if m.to != "" {
		if err := to.Check(ctx, m.to); err != nil {
			return err
		}
	}
	r, err := m.link.Receiver(ctx, m.entity, remote.ReceiverOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	var others []remote.Taken
	for err == nil && len(wanted) > 0 && ctx.Err() == nil {
		var taken []remote.Taken
		if taken, err = r.Take(ctx, 0, takeWait); err != nil || len(taken) == 0 {
			break
		}
		var mine []remote.Taken
		for _, x := range taken {
			if wanted[x.SequenceNumber] {
				delete(wanted, x.SequenceNumber)
				mine = append(mine, x)
			} else {
				others = append(others, x)
			}
		}
		err = m.store(ctx, to, r, mine)
	}
	end := context.WithoutCancel(ctx)
	m.absent += len(wanted)
	return errors.Join(err, ctx.Err(), r.Release(end, others), r.Return(end))
}

func (m *relocation) store(ctx context.Context, to *deposit.Storer, r *remote.Receiver, mine []remote.Taken) error {
	if len(mine) == 0 {
		return nil
	}
	done, kept := mine, []remote.Taken(nil)
	var failed error
	if m.to != "" {
		copies := make([]*core.Message, len(mine))
		for i := range mine {
			copies[i] = m.copied(&mine[i])
		}
		var stored []int
		stored, failed = to.Move(ctx, m.to, copies, func(i int, why error) { m.refuse(mine[i].SequenceNumber, why.Error()) })
		done = nil
		for i, t := range mine {
			if slices.Contains(stored, i) {
				done = append(done, t)
			} else {
				kept = append(kept, t)
			}
		}
	}
	n, late, err := deposit.Remove(ctx, r, done)
	if m.moved += n; m.to == "" {
		m.absent += len(late)
	} else {
		m.twice = append(m.twice, late...)
	}
	m.progress.At(m.moved)
	return errors.Join(failed, err, r.Release(context.WithoutCancel(ctx), kept))
}

func (m *relocation) copied(t *remote.Taken) *core.Message {
	x := *t.Message
	if x.TimeToLive > 0 { // the broker computed these two times from TimeToLive; the sender did not set them
		x.CreationTime, x.AbsoluteExpiryTime = time.Time{}, time.Time{}
	}
	if m.dropReasons {
		x.Properties = x.Properties.Without(core.PropertyDeadLetterReason, core.PropertyDeadLetterDescription)
	}
	if m.newIDs {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d/%d", m.target.Host, m.entity, t.SequenceNumber, t.EnqueuedTime.UnixMilli()))
		x.MessageID = core.StringID(hex.EncodeToString(sum[:16]))
	}
	return &x
}

func (m *relocation) checkDuplicates(ctx context.Context) error {
	if m.newIDs || m.to == "" {
		return nil
	}
	e, _, err := m.target.Management(nil).Entity(ctx, command.AnyIdentity, m.to)
	if err != nil {
		return fmt.Errorf("cannot find out whether %s detects duplicates and would drop messages with ids that it has received before: use --new-message-id, or a connection string with Manage", m.to)
	}
	if e.Settings.RequiresDuplicateDetection {
		return fmt.Errorf("%s detects duplicates, and drops messages with ids that it has received before: use --new-message-id", m.to)
	}
	return nil
}
