package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/cli/deposit"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/declaration"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	// If no message arrives for the time idle, migrate regards the entity or session as empty.
	idle = time.Second
	// arrived is the wait for messages that the client has already received from an open session.
	arrived         = time.Millisecond
	nextSessionWait = 2 * time.Second
	lockedPause     = 500 * time.Millisecond
	// migrate moves no scheduled message that is due within soon, as it could become active meanwhile.
	soon         = 30 * time.Second
	mostSessions = 1000
)

type migrateOptions struct {
	command.Flags
	from     string
	into     []string
	deadInto string
	patience string
}

func Migrate(environ []string) *cobra.Command {
	var o migrateOptions
	c := &cobra.Command{
		Use:   "migrate --from CONNECTION-STRING [ENTITY…]",
		Short: "Move messages from one namespace to another, Azure's or a gateway's",
		Long: `Move messages from the namespace of --from to that of --connection-string (also --to).

ENTITY is a queue, a subscription written TOPIC/Subscriptions/NAME, or a topic for all of
its subscriptions; without ENTITY the command moves the messages of all entities. Create the
entities first with crosstown import. Each message is received under lock, stored in the
target, and then removed from the source. The command ends when the source has no messages
left, and prints what it has moved; run it again after an interruption.

A moved message keeps its body, properties with their AMQP types, annotations that clients may
set, session id, partition key, scheduled time and the time at which it expires; dead letters
keep their reasons. Messages keep their order, also in each session. Sequence numbers, enqueued
times and delivery counts are new. The command does not move session states, deferred messages,
and messages that are scheduled in a topic; it counts these messages.

If the target is a Crosstown gateway and the policy for it has Manage, the gateway stores each
message once, even if the command is killed: run the command again within a day. Messages of
subscriptions and dead letters go directly to the same subscription and dead-letter queue. To
any other target the command sends messages like a client: after an interruption the last few
may be stored twice, unless the target queue has duplicate detection. Clients cannot send to
subscriptions and dead-letter queues, so choose queues for these messages with --into and
--dead-letters-into.`,
		Example: `  crosstown migrate --from "$AZURE_CONNECTION_STRING"
  crosstown migrate --from old --context new
  crosstown migrate --from "$OLD" --to "$NEW" orders events/Subscriptions/eu
  crosstown migrate --from "$GATEWAY" --to "$AZURE_CONNECTION_STRING" orders --dead-letters-into orders-dead`,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	bindTarget(&o.Flags, c, environ)
	f := c.Flags()
	f.StringVar(&o.from, "from", "", "namespace of Azure or of a gateway to move from: a connection `string` whose policy has Manage, or the name of a context")
	f.StringArrayVar(&o.into, "into", nil, "move the messages of one entity to another, `ENTITY=ENTITY`, such as orders=orders-new; repeatable")
	f.StringVar(&o.deadInto, "dead-letters-into", "", "queue or topic that gets the dead letters (default: the dead-letter queue of the same `entity`)")
	f.StringVar(&o.patience, "patience", "6m", "how long to wait for messages that other receivers have locked: a `duration` such as 6m")
	_ = c.MarkFlagRequired("from") // the flag exists
	return c
}

func (o *migrateOptions) run(c *cobra.Command, args []string) error {
	patience, err := config.ParseDuration(o.patience)
	if err != nil || patience < 0 {
		return command.Usagef("--patience is %q: write a duration such as 6m, or 0s", o.patience)
	}
	source, err := o.Other(o.from)
	if err != nil {
		return err
	}
	to, err := o.Target()
	if err != nil {
		return err
	}
	same, err := o.sameNamespace(c.Context(), source, to)
	if err != nil {
		return err
	}
	if same {
		return command.Usagef("--from and --to are the same namespace: specify another target")
	}
	m := &mover{
		from: source, patience: patience, deadInto: o.deadInto, into: map[string]string{}, progress: command.NewProgress(c.ErrOrStderr(), "moved"), notes: c.ErrOrStderr(),
	}
	for _, text := range o.into {
		from, into, ok := strings.Cut(text, "=")
		if !ok || from == "" || into == "" {
			return command.Usagef("--into is %q: write ENTITY=ENTITY, such as orders=orders-new", text)
		}
		m.into[core.FoldName(from)] = into
	}
	all, err := declaration.Entities(c.Context(), source.Management(nil), command.AnyIdentity, args...)
	if err != nil {
		return source.Explain(err)
	}
	if len(all) == 0 {
		return command.Line(c.OutOrStdout(), "the source has no queues and no subscriptions")
	}
	if m.source, err = source.Link(c.Context(), source.EntityPath); err != nil {
		return source.Explain(err)
	}
	defer m.source.Close()
	m.to = &deposit.Storer{Flags: o.Flags, To: to}
	defer m.to.Close()
	for i := range all {
		moved, err := m.entity(c.Context(), &all[i])
		_, told := fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", all[i].Name, moved)
		if err = errors.Join(err, told); err != nil {
			return fmt.Errorf("%s: %w: the messages that were moved stay in the target; run the command again to move the others", all[i].Name, source.Explain(err))
		}
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "moved %s from %s to %s\n", command.Messages(m.total), source.Host, to.Host)
	if m.refused > 0 {
		return fmt.Errorf("the target refused %s: refused messages stay at the source", command.Messages(m.refused))
	}
	return nil
}

// sameNamespace reports whether a and b are the same namespace. If both have the same address, it
// asks the gateway for their names, because a gateway may have several namespaces.
func (o *migrateOptions) sameNamespace(ctx context.Context, a, b *command.Target) (bool, error) {
	if a.Text == b.Text || endpointOf(a) != endpointOf(b) {
		return a.Text == b.Text, nil
	}
	names := [2]string{}
	for i, t := range []*command.Target{a, b} {
		var status api.Status
		c := o.Flags
		c.ConnectionString = t.Text
		err := c.Ask(ctx, command.Inquiry{Path: api.StatusPath}, &status)
		if _, refused := errors.AsType[*command.Refusal](err); err != nil && !refused {
			return false, err
		}
		names[i] = status.Namespace
	}
	return names[0] == names[1], nil
}

// endpointOf returns a target's host and port. For this machine, the host is always localhost.
func endpointOf(t *command.Target) string {
	_, port, _ := net.SplitHostPort(t.Host) // port is "" if Host has none
	host := t.TLS.ServerName
	if t.IsLocal() {
		host = "localhost"
	}
	return net.JoinHostPort(core.FoldHost(host), port)
}

type mover struct {
	from     *command.Target
	source   *remote.Client
	to       *deposit.Storer
	into     map[string]string // target entity, by the source entity's name in folded case
	deadInto string
	patience time.Duration
	progress *command.Progress
	notes    io.Writer
	total    int
	refused  int
	sessions []*remote.Receiver // open sessions with messages that could not be moved
}

type moved struct{ messages, dead, scheduled int }

func (n moved) String() string {
	text := "moved " + command.Messages(n.messages)
	if n.dead > 0 {
		text += fmt.Sprintf(", %s", command.Plural(n.dead, "dead letter"))
	}
	if n.scheduled > 0 {
		text += fmt.Sprintf(", %d scheduled", n.scheduled)
	}
	return text
}

func (m *mover) note(format string, args ...any) {
	_, _ = fmt.Fprintf(m.notes, format+"\n", args...)
}

func (m *mover) entity(ctx context.Context, e *core.Entity) (n moved, err error) {
	if e.Kind == core.Topic {
		_, counts, err := m.from.Management(nil).Entity(ctx, command.AnyIdentity, e.Name)
		if counts.Scheduled > 0 {
			m.note("%s: %d scheduled messages are not moved, because clients cannot read the scheduled messages of a topic: run the command again after they have become active", e.Name, counts.Scheduled)
		}
		return n, err
	}
	to := cmp.Or(m.into[core.FoldName(e.Name)], e.Name)
	var due time.Time
	if e.Settings.ForwardTo != "" {
		m.note("%s forwards its messages to %s: only its dead letters are moved", e.Name, core.ResourcePath(e.Settings.ForwardTo))
	} else {
		if due, n.scheduled, err = m.scheduled(ctx, e.Name, to); err != nil {
			return n, err
		}
		if n.messages, err = m.drain(ctx, e, e.Name, to); err != nil {
			return n, err
		}
		if wait := time.Until(due); wait > 0 {
			if !wake.After(ctx, wait+lockedPause) {
				return n, ctx.Err()
			}
			more, err := m.drain(ctx, e, e.Name, to)
			if n.messages += more; err != nil {
				return n, err
			}
		}
	}
	n.dead, err = m.drain(ctx, e, e.Name+core.DeadLetter.Suffix(), cmp.Or(m.deadInto, to+core.DeadLetter.Suffix()))
	return n, err
}

// drain moves messages until only those remain that the target refuses. It fails if other receivers
// lock messages for longer than m.patience.
func (m *mover) drain(ctx context.Context, e *core.Entity, from, to string) (n int, err error) {
	refused := map[int64]bool{}
	defer m.release()
	until := time.Now().Add(m.patience)
	for told := false; ; {
		left, err := m.source.HasActive(ctx, from, refused)
		if err != nil || !left {
			return n, err
		}
		if err := m.to.Check(ctx, to); err != nil {
			return n, err
		}
		got, err := m.pass(ctx, e, from, to, refused)
		if n += got; err != nil {
			return n, err
		}
		if got > 0 {
			until = time.Now().Add(m.patience)
			continue
		}
		if time.Now().After(until) {
			return n, fmt.Errorf("gave up after %v (--patience), because other receivers have locked messages of %s: stop these receivers", m.patience, from)
		}
		if !told {
			m.note("%s: waiting for messages that other receivers have locked", from)
			told = true
		}
		if !wake.After(ctx, lockedPause) {
			return n, ctx.Err()
		}
	}
}

func (m *mover) release() {
	for _, r := range m.sessions {
		r.Close()
	}
	m.sessions = nil
}

// pass moves the available messages, in one pass over all free sessions. If a message of a session
// remains, pass keeps the session open, so that the broker offers other sessions next.
func (m *mover) pass(ctx context.Context, e *core.Entity, from, to string, refused map[int64]bool) (n int, err error) {
	if !e.Settings.RequiresSession || from != e.Name {
		r, err := m.source.Receiver(ctx, from, remote.ReceiverOptions{Largest: e.Settings.MaxMessageSizeInKilobytes << 10})
		if err != nil {
			return 0, err
		}
		defer r.Close()
		if n, _, err = m.receive(ctx, r, from, to, refused, idle); err == nil {
			_ = r.Return(ctx) // release late messages; after an error, they stay locked until their locks expire
		}
		return n, err
	}
	if n, err = m.late(ctx, from, to, refused); err != nil {
		return n, err
	}
	for seen := map[string]bool{}; ; {
		r, err := m.source.Receiver(ctx, from, remote.ReceiverOptions{Next: nextSessionWait, Largest: e.Settings.MaxMessageSizeInKilobytes << 10})
		if errors.Is(err, remote.ErrNoSession) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if seen[r.Session()] || len(m.sessions) >= mostSessions {
			r.Close()
			return n, nil
		}
		seen[r.Session()] = true
		got, stay, err := m.receive(ctx, r, from, to, refused, idle)
		if stay > 0 {
			m.sessions = append(m.sessions, r)
		} else {
			r.Close()
		}
		if n += got; err != nil && !errors.Is(err, remote.ErrLockLost) {
			return n, err
		}
	}
}

// late moves messages of open sessions that arrived after idle, because the connection is slow.
func (m *mover) late(ctx context.Context, from, to string, refused map[int64]bool) (n int, err error) {
	var lost []*remote.Receiver
	for _, r := range m.sessions {
		got, _, err := m.receive(ctx, r, from, to, refused, arrived)
		n += got
		if errors.Is(err, remote.ErrLockLost) {
			r.Close()
			lost = append(lost, r)
		} else if err != nil {
			return n, err
		}
	}
	m.sessions = slices.DeleteFunc(m.sessions, func(r *remote.Receiver) bool { return slices.Contains(lost, r) })
	return n, nil
}

func (m *mover) receive(ctx context.Context, r *remote.Receiver, from, to string, refused map[int64]bool, while time.Duration) (n, stay int, err error) {
	for ctx.Err() == nil {
		taken, err := r.Take(ctx, 0, while)
		if err != nil || len(taken) == 0 {
			return n, stay, err
		}
		all := len(taken)
		taken = slices.DeleteFunc(taken, func(t remote.Taken) bool { return refused[t.SequenceNumber] }) // omit refused messages, which the source delivers again
		arrivals := make([]amqp.Arrival, len(taken))
		for i := range taken {
			arrivals[i] = taken[i].Arrival
		}
		stored, err := m.store(ctx, from, to, arrivals, refused)
		done := make([]remote.Taken, len(stored))
		for i, at := range stored {
			done[i] = taken[at]
		}
		moved, late, failed := deposit.Remove(ctx, r, done)
		m.count(moved)
		if len(late) > 0 {
			again := "the target drops them as duplicates"
			if m.to.Foreign {
				again = "the target then has them twice"
			}
			m.note("%s: %s were stored after their locks had expired, so the command receives them again, and %s", from, command.Messages(len(late)), again)
		}
		n, stay = n+moved, stay+all-moved
		if err = cmp.Or(err, failed); err != nil {
			return n, stay, err
		}
	}
	return n, stay, ctx.Err()
}

func (m *mover) count(n int) {
	m.total += n
	m.progress.At(m.total)
}

func (m *mover) store(ctx context.Context, from, to string, all []amqp.Arrival, refused map[int64]bool) (stored []int, err error) {
	ms := make([]*core.Message, len(all))
	for i := range all {
		ms[i] = m.prepared(from, &all[i])
	}
	return m.to.Move(ctx, to, ms, func(i int, why error) {
		refused[all[i].SequenceNumber] = true
		m.refused++
		m.note("%s: message %d stays: %v", from, all[i].SequenceNumber, why)
	})
}

// prepared copies a. It sets the remaining time to live, and a key for detecting duplicates.
func (m *mover) prepared(from string, a *amqp.Arrival) *core.Message {
	x := *a.Message
	if x.TimeToLive > 0 && x.TimeToLive < core.Forever && !a.EnqueuedTime.IsZero() {
		if x.CreationTime.Equal(a.EnqueuedTime) { // the source's broker computed both times; the sender did not set them
			x.CreationTime, x.AbsoluteExpiryTime = time.Time{}, time.Time{}
		}
		if !strings.HasSuffix(from, core.DeadLetter.Suffix()) && a.State != core.Scheduled {
			x.TimeToLive = max(time.Millisecond, x.TimeToLive-time.Since(a.EnqueuedTime))
		}
	}
	x.Transit = &core.Transit{
		Key:              fmt.Sprintf("migrate/%s/%s/%d/%d/%s", core.FoldHost(m.from.Host), core.FoldName(from), a.SequenceNumber, a.EnqueuedTime.UnixMilli(), a.MessageID),
		DeadLetterSource: a.DeadLetterSource,
	}
	return &x
}

// scheduled moves scheduled messages that are not due soon. The last of the others is due at due.
func (m *mover) scheduled(ctx context.Context, from, to string) (due time.Time, n int, err error) {
	deferred := 0
	refused := map[int64]bool{}
	for page, err := range m.source.Pages(ctx, from, nil, 0) {
		if err != nil {
			return due, n, err
		}
		var later []amqp.Arrival
		for _, a := range page {
			switch {
			case a.State == core.Deferred:
				deferred++
			case a.State == core.Scheduled && time.Until(a.ScheduledEnqueueTime) > soon:
				later = append(later, a)
			case a.State == core.Scheduled && a.ScheduledEnqueueTime.After(due):
				due = a.ScheduledEnqueueTime
			}
		}
		if len(later) == 0 {
			continue
		}
		if err := m.to.Check(ctx, to); err != nil {
			return due, n, err
		}
		stored, err := m.store(ctx, from, to, later, refused)
		if len(stored) > 0 {
			numbers := make([]int64, len(stored))
			for i, at := range stored {
				numbers[i] = later[at].SequenceNumber
			}
			err = errors.Join(err, m.source.CancelScheduled(context.WithoutCancel(ctx), from, numbers))
			n += len(stored)
			m.count(len(stored))
		}
		if err != nil {
			return due, n, err
		}
	}
	if deferred > 0 {
		m.note("%s: %d deferred messages stay, because a deferred message can only be received by its sequence number, which moving would change", from, deferred)
	}
	return due, n, err
}
