package messages

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

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
		numbers, err := b.numbers(c.Context(), &o.selection)
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
