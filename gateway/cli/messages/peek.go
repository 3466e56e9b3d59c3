package messages

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

var stateWords = []string{core.Active: "active", core.Deferred: "deferred", core.Scheduled: "scheduled"}

type peekOptions struct {
	chosen
	from    int64
	state   string
	dlq     bool
	damaged bool
	session sessionChoice
}

func Peek(environ []string) *cobra.Command {
	var o peekOptions
	c := &cobra.Command{
		Use:   "peek [ENTITY]",
		Short: "Print messages without locking or removing them",
		Long: `Print messages in every state, including those of sessions, without locking or removing them.
A message must match all flags that are given.

ENTITY is a queue, or a subscription written TOPIC/Subscriptions/NAME.

With --damaged the command lists the messages that the file store has put aside, because the
data on disk differ from the data that were written. For each it prints the known fields, and
the reason with the file and the position. Other stores have no such messages.

The exit code is 4 if there is no message, or if no message matches.`,
		Example: `  crosstown peek orders --count 3
  crosstown peek events/Subscriptions/eu --where "region = 'eu' AND sys.Label = 'order'"
  crosstown peek replies --session client-7
  crosstown peek orders --state deferred --count 0
  crosstown peek orders --dlq --json
  crosstown peek orders --damaged`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.bind(c, environ)
	o.bindReason(c.Flags())
	f := c.Flags()
	f.IntVar(&o.count, "count", 10, "messages to print; 0: all")
	f.Int64Var(&o.from, "from", 0, "sequence `number` to begin at")
	f.StringVar(&o.state, "state", "", "only messages in this `state`: "+strings.Join(stateWords, ", "))
	f.BoolVar(&o.dlq, "dlq", false, "read the dead-letter queue")
	f.BoolVar(&o.damaged, "damaged", false, "list damaged messages, which no receiver gets")
	o.session.bind(f)
	f.Lookup("session").Usage = "only messages of the session with this `id`"
	f.Lookup("next-session").Usage = "only messages of the session that the first message belongs to"
	return c
}

func (o *peekOptions) run(c *cobra.Command, args []string) error {
	if o.count < 0 || o.from < 0 {
		return command.Usagef("--count and --from cannot be negative")
	}
	if err := command.Usage(o.session.validate(o.dlq)); err != nil {
		return err
	}
	if o.damaged {
		if !o.isEmpty() || o.state != "" || o.session.named() || o.session.next {
			return command.Usagef("--damaged allows only --from, --count and --dlq, because the contents of damaged messages cannot be read")
		}
		return o.listDamaged(c, args)
	}
	var state *core.State
	if o.state != "" {
		i := slices.Index(stateWords, o.state)
		if i < 0 {
			return command.Usagef("--state: %q is unknown: write one of %s", o.state, strings.Join(stateWords, ", "))
		}
		state = new(core.State(i))
	}
	o.address = o.sub
	return o.browsing(func(c *cobra.Command, b *browser) error {
		b.from, b.state = o.from, state
		if o.session.named() || o.session.next {
			b.also = o.inSession()
		}
		found := 0
		_, err := b.find(c.Context(), func(a *amqp.Arrival) error {
			found++
			return printMessage(c.OutOrStdout(), o.JSON, b.entity, *a, false)
		})
		if err == nil && found == 0 {
			err = b.none(c.Context())
		}
		return err
	})(c, args)
}

func (o *peekOptions) sub(entity string) (holder, address string, err error) {
	if o.dlq {
		return entity, entity + core.DeadLetter.Suffix(), nil
	}
	return entity, entity, nil
}

const damagedPage = 1000

func (o *peekOptions) listDamaged(c *cobra.Command, args []string) error {
	_, entity, err := o.TargetEntity(args)
	if err != nil {
		return err
	}
	_, entity, _ = o.sub(entity)
	rows := o.Rows(c, "NUMBER", "ENQUEUED", "FAILED DELIVERIES", "SESSION", "REASON")
	from, listed, more := o.from, 0, true
	for more && (o.count == 0 || listed < o.count) {
		top := damagedPage
		if o.count > 0 {
			top = min(top, o.count-listed)
		}
		q := command.AboutEntity(http.MethodGet, api.DamagedPath, entity)
		q.Query = url.Values{"from": {strconv.FormatInt(from, 10)}, "top": {strconv.Itoa(top)}}
		var page api.DamagedList
		if err := o.Ask(c.Context(), q, &page); err != nil {
			return err
		}
		for _, d := range page.Damaged {
			listed, from = listed+1, d.SequenceNumber+1
			rows.Add(d, d.SequenceNumber, shownTime(d.Enqueued), d.Deliveries, cmp.Or(preview(d.Session, 36), "-"), d.Reason)
		}
		more = len(page.Damaged) == top
	}
	if listed == 0 {
		return command.Nothingf("%s: no damaged messages", entity)
	}
	return rows.Flush()
}

// inSession selects the messages of one session: that of --session, or of the first message.
func (o *peekOptions) inSession() func(*amqp.Arrival) bool {
	var key core.SessionKey
	known := false
	if o.session.named() {
		key, known = core.KeyOfSession(o.session.id), true
	}
	return func(a *amqp.Arrival) bool {
		if !a.HasSession() {
			return false
		}
		if !known {
			key, known = a.SessionKey(), true
		}
		return a.SessionKey() == key
	}
}
