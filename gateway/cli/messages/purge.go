package messages

import (
	"context"
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
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

const (
	// purgeWait is how long a purge at another broker waits for the next message. While peeking shows
	// messages that do not arrive, the wait doubles up to longestPurgeWait.
	purgeWait        = time.Second
	longestPurgeWait = 4 * time.Second
)

var PurgeStates = []string{"active", "deferred", "scheduled", "dead-letter", "transfer-dead-letter"}

type purgeOptions struct {
	command.Flags
	command.Confirmation
	states []string
	dlq    bool
}

func Purge(environ []string, names, kind string) *cobra.Command {
	var o purgeOptions
	entity := "orders"
	if kind == "subscription" {
		entity = "events eu"
	}
	c := &cobra.Command{
		Use:   "purge " + names,
		Short: "Remove the messages of a " + kind + " permanently, by default those that can be received now",
		Long: "Remove the messages of a " + kind + ` permanently: by default the active messages, which are
those that can be received now. --state selects other states; all is every state. Messages
that receivers have locked stay, and so do messages that arrive meanwhile.

The command asks first, or requires --yes if standard input is not a terminal. A Crosstown
gateway removes active messages and dead letters without sending them to the client, and
keeps messages that arrive during the purge. With other brokers the command receives and
deletes them until none has arrived for a second.`,
		Example: fmt.Sprintf(`  crosstown %[1]s purge %[2]s
  crosstown %[1]s purge %[2]s --state dead-letter --yes
  crosstown %[1]s purge %[2]s --state deferred,scheduled
  crosstown %[1]s purge %[2]s --state all --yes`, kind, entity),
		Args: cobra.ExactArgs(len(strings.Fields(names))),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.Flags.Bind(c, environ)
	o.Confirmation.Bind(c)
	f := c.Flags()
	f.StringSliceVar(&o.states, "state", []string{"active"}, "`states` of the messages to remove: "+strings.Join(PurgeStates, ", ")+", or all")
	f.Lookup("state").DefValue = "active" // pflag would show "[active]"
	f.BoolVar(&o.dlq, "dlq", false, "the same as --state dead-letter")
	c.MarkFlagsMutuallyExclusive("state", "dlq")
	return c
}

func (o *purgeOptions) run(c *cobra.Command, args []string) error {
	if o.dlq {
		o.states = []string{"dead-letter"}
	}
	for _, state := range o.states {
		switch {
		case state == "all":
			o.states = PurgeStates
		case !slices.Contains(PurgeStates, state):
			return command.Usagef("--state: %q is unknown: write one or more of %s, or all", state, strings.Join(PurgeStates, ", "))
		}
	}
	t, err := o.Target()
	if err != nil {
		return err
	}
	name := command.Named(args)
	if err := o.Confirm(c, fmt.Sprintf("remove all messages of %s that are %s", name, inWords(o.states))); err != nil {
		return err
	}
	total := 0
	removed := map[string]int{}
	for _, state := range PurgeStates { // a message that becomes active after the first round stays; left counts it
		if !slices.Contains(o.states, state) {
			continue
		}
		n, err := o.state(c, t, name, state)
		total, removed[state] = total+n, n
		if err != nil {
			err = fmt.Errorf("cannot purge the %s messages: %w", state, t.Explain(err))
			if total > 0 {
				err = fmt.Errorf("%w; already removed: %s", err, command.Messages(total))
			}
			return err
		}
	}
	detail := counts(removed)
	if len(removed) == 1 {
		detail = ""
	} else if detail != "" {
		detail = ": " + detail
	}
	return o.Print(c, map[string]any{"purged": total, "states": removed}, func(w io.Writer) error {
		return command.Line(w, "purged %s from %s%s%s", command.Messages(total), name, detail, o.left(c, name))
	})
}

// left describes how many messages remain. At another broker it returns "": it has no such API.
func (o *purgeOptions) left(c *cobra.Command, name string) string {
	var n api.Entity
	if o.Ask(c.Context(), command.AboutEntity(http.MethodGet, api.CountersPath, name), &n) != nil {
		return ""
	}
	stay := counts(map[string]int64{
		"active": n.Active - n.Locked - n.Deferred, "locked": n.Locked, "deferred": n.Deferred, "scheduled": n.Scheduled,
		"dead-letter": n.DeadLetter, "transfer-dead-letter": n.TransferDeadLetter,
	})
	if stay == "" {
		return ""
	}
	return "; messages that stay: " + stay + " (select states with --state)"
}

func counts[N int | int64](by map[string]N) string {
	var parts []string
	for _, state := range slices.Insert(slices.Clone(PurgeStates), 1, "locked") {
		if n := by[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
}

func inWords(states []string) string {
	if len(states) == 1 {
		return states[0]
	}
	return strings.Join(states[:len(states)-1], ", ") + " or " + states[len(states)-1]
}

func (o *purgeOptions) state(c *cobra.Command, t *command.Target, name, state string) (int, error) {
	switch state {
	case "active":
		return purgeActive(c, &o.Flags, t, name)
	case "dead-letter":
		return purgeActive(c, &o.Flags, t, name+core.DeadLetter.Suffix())
	case "transfer-dead-letter":
		return purgeActive(c, &o.Flags, t, name+core.TransferDeadLetter.Suffix())
	}
	link, err := t.Link(c.Context(), name)
	if err != nil {
		return 0, err
	}
	defer link.Close()
	b := &browser{target: t, link: link, entity: name, seen: command.NewProgress(c.ErrOrStderr(), "searched").At}
	if b.state = new(core.Deferred); state == "scheduled" {
		b.state = new(core.Scheduled)
	}
	found, err := b.held(c.Context())
	switch {
	case command.IsNothing(err):
		return 0, nil
	case err != nil:
		return 0, err
	case state == "scheduled":
		return b.cancel(c.Context(), found.all(), command.NewProgress(c.ErrOrStderr(), "cancelled"))
	}
	return b.receiveDeferred(c.Context(), found, remote.ReceiverOptions{Delete: true}, func(*remote.Receiver, []remote.Taken) error { return nil })
}

func purgeActive(c *cobra.Command, o *command.Flags, t *command.Target, name string) (int, error) {
	address, err := core.ParseAddress(name)
	if err != nil || address.Management {
		return 0, command.Usagef("%q is not a queue or subscription: write QUEUE, or TOPIC/Subscriptions/NAME", name)
	}
	var answer api.Purged
	err = o.Ask(c.Context(), command.AboutEntity(http.MethodPost, api.PurgePath, name), &answer)
	if _, refused := errors.AsType[*command.Refusal](err); !refused {
		return answer.Purged, err
	}
	// At another broker, or for an entity with sessions, the request is refused: receive the messages
	// instead. If the refusal has another cause, receiving fails, too, and its error explains why.
	session := sessionChoice{next: address.Sub == core.Main && hasSessions(c.Context(), t, address.Entity)}
	link, err := t.Link(c.Context(), name)
	if err != nil {
		return 0, err
	}
	defer link.Close()
	progress := command.NewProgress(c.ErrOrStderr(), "purged")
	for total, wait := 0, purgeWait; ; {
		n, err := empty(c.Context(), link, name, session, wait, progress)
		total += n
		if err != nil && !errors.Is(err, remote.ErrNoSession) {
			return total, err
		}
		left, err := link.HasActive(c.Context(), name, nil)
		if err != nil || !left {
			return total, err
		}
		if wait *= 2; n > 0 {
			wait = purgeWait
		} else if wait > longestPurgeWait { // other receivers have locked the remaining messages
			return total, nil
		}
	}
}

func empty(ctx context.Context, link *remote.Client, entity string, session sessionChoice, wait time.Duration, p *command.Progress) (int, error) {
	receiver, err := openReceiver(ctx, link, entity, remote.ReceiverOptions{Delete: true}, session, wait)
	if err != nil {
		return 0, err
	}
	defer receiver.Close()
	if session.next { // halve the wait, because it ends each session, of which there may be many
		wait /= 2
	}
	return drain(ctx, receiver, 0, wait, func([]remote.Taken) error { return nil }, p)
}
