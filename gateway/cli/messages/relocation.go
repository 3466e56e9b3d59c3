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
	"time"

	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/cli/deposit"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/spf13/cobra"
)

const askedToMove = 200

// takeWait is how long to wait for a chosen message at another broker. If the message does not
// arrive, another receiver has probably locked it.
const takeWait = 5 * time.Second

// relocation moves or removes chosen messages. It uses the gateway's API. At another broker, it
// receives the messages, sends copies and completes the originals.
type relocation struct {
	flags       *command.Flags
	target      *command.Target
	link        *remote.Client
	from, to    string // to is "" if the messages are removed
	dropReasons bool
	newIDs      bool
	progress    *command.Progress
	notes       io.Writer

	moved   int
	absent  int // number of messages that were missing or locked
	refused int
	twice   []int64 // messages in source and target, because their locks expired before they were removed
}

// done is the verb in progress messages, such as "moved".
func newRelocation(c *cobra.Command, flags *command.Flags, b *browser, done string) *relocation {
	return &relocation{flags: flags, target: b.target, link: b.link, from: b.entity, progress: command.NewProgress(c.ErrOrStderr(), done), notes: c.ErrOrStderr()}
}

func (m *relocation) run(ctx context.Context, numbers []int64) error {
	for some := range slices.Chunk(numbers, askedToMove) {
		var answer api.Moved
		err := m.flags.Ask(ctx, command.Inquiry{
			Method: http.MethodPost, Path: api.MessagesPath, Names: []string{m.from}, Scope: m.scope(),
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
	from, to := command.PolicyHolder(m.from), command.PolicyHolder(m.to)
	if m.to == "" || core.FoldName(from) == core.FoldName(to) {
		return from
	}
	return ""
}

func (m *relocation) refuse(number int64, why string) {
	m.refused++
	_, _ = fmt.Fprintf(m.notes, "%s: message %d stays: %s\n", m.from, number, command.Trim(why))
}

func (m *relocation) outcome() error {
	var errs []error
	if m.absent > 0 {
		errs = append(errs, fmt.Errorf("could not lock %s of %s, because other receivers have locked or received them: run the command again later for those that become available", command.Messages(m.absent), m.from))
	}
	if len(m.twice) > 0 {
		errs = append(errs, fmt.Errorf("sent %s to %s after their locks in %[3]s had expired, so both entities have copies: remove one copy of each (sequence numbers in %[3]s: %v)", command.Messages(len(m.twice)), m.to, m.from, m.twice))
	}
	if m.refused > 0 {
		errs = append(errs, fmt.Errorf("could not move %s from %s, for the reasons given above", command.Messages(m.refused), m.from))
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
	r, err := m.link.Receiver(ctx, m.from, remote.ReceiverOptions{})
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
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d/%d", m.target.Host, m.from, t.SequenceNumber, t.EnqueuedTime.UnixMilli()))
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
