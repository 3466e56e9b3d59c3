package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
)

// accountOptions are the flags of crosstown explain.
type accountOptions struct {
	common
	entity string
	number int64
	here   bool
}

func accountCommand(environ []string) *cobra.Command {
	var o accountOptions
	c := &cobra.Command{
		Use:   "explain [MESSAGE-ID]",
		Short: "Tell what happened to a message",
		Long: `Tell what happened to a message: when it was accepted, from whom, which rules it
matched, to whom it was delivered, who settled it, where it was forwarded; and
then the same of where it went, as far as it can be followed by its id.

Only entities that the gateway's configuration names under explain remember. It
takes a policy with Manage.`,
		Example: `  crosstown explain order-17 --entity orders
  crosstown explain order-17 --entity events --json
  crosstown explain --entity events/Subscriptions/eu --number 42 --here`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.bind(c, environ)
	f := c.Flags()
	f.StringVar(&o.entity, "entity", "", "queue, topic or TOPIC/Subscriptions/NAME to begin at")
	f.Int64Var(&o.number, "number", 0, "find it by the sequence `number` that it has, or had, instead of its id")
	f.BoolVar(&o.here, "here", false, "do not follow the message to other entities")
	return c
}

// account is what a gateway tells of a message in one entity.
type account struct {
	Namespace string   `json:"namespace"`
	Entity    string   `json:"entity"`
	Kind      string   `json:"kind"`
	Events    []event  `json:"events"`
	Next      []string `json:"next,omitempty"`
	Missing   string   `json:"missing,omitempty"` // why nothing is told of this entity
}

// event is one thing that happened.
type event struct {
	Time           time.Time      `json:"time"`
	Event          core.EventKind `json:"event"`
	SubQueue       string         `json:"subQueue,omitempty"`
	SequenceNumber int64          `json:"sequenceNumber,omitempty"`
	Other          int64          `json:"otherSequenceNumber,omitempty"`
	MessageID      string         `json:"messageId,omitempty"`
	Failures       uint32         `json:"failedDeliveries,omitempty"`
	Until          *time.Time     `json:"until,omitempty"`
	Reason         string         `json:"reason,omitempty"`
	Policy         string         `json:"policy,omitempty"`
	Peer           string         `json:"peer,omitempty"`
	Entity         string         `json:"entity,omitempty"`
	Rule           string         `json:"rule,omitempty"`
	Plugin         string         `json:"plugin,omitempty"`
	Gateway        string         `json:"gateway,omitempty"`
}

// instantLayout writes times as they are compared in logs.
const instantLayout = "2006-01-02T15:04:05.000Z"

// maxFollowed is how many entities a message is followed through.
const maxFollowed = 100

func (o *accountOptions) run(c *cobra.Command, args []string) error {
	id := ""
	if len(args) > 0 {
		id = args[0]
	}
	if (id == "") == (o.number == 0) || o.number < 0 {
		return usagef("give the message's id, or its sequence number with --number")
	}
	t, err := o.target()
	if err != nil {
		return err
	}
	first, err := t.entity([]string{o.entity})
	if err != nil {
		return err
	}
	accounts, err := o.follow(c.Context(), first, id)
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(c.OutOrStdout()).Encode(accounts)
	}
	if len(accounts) == 1 && len(accounts[0].Events) == 0 {
		return fmt.Errorf("'%s' remembers nothing of it: it never came there, or too long ago", accounts[0].Entity)
	}
	return narrate(c.OutOrStdout(), accounts)
}

// isMissing reports whether the gateway has answered that there is no such thing.
func isMissing(err error) bool {
	refused, ok := errors.AsType[*refusal](err)
	return ok && refused.status == http.StatusNotFound
}

// follow asks for the accounts of an entity and of those that the message went to.
func (o *accountOptions) follow(ctx context.Context, first, id string) ([]account, error) {
	var accounts []account
	names := []string{first}
	for i := 0; i < len(names) && i < maxFollowed; i++ {
		q := inquiry{
			method: http.MethodGet, path: append([]string{"$crosstown", "explain"}, strings.Split(names[i], "/")...),
			query: url.Values{"message-id": {id}}, scope: names[i],
		}
		if topic, _, ok := core.SplitSubscription(q.scope); ok {
			q.scope = topic // which has the policies
		}
		if id == "" {
			q.query = url.Values{"sequence-number": {strconv.FormatInt(o.number, 10)}}
		}
		var a account
		err := o.ask(ctx, q, &a)
		switch {
		case err != nil && i > 0 && isMissing(err):
			a = account{Entity: names[i], Missing: err.Error()}
		case err != nil:
			return nil, err
		}
		accounts = append(accounts, a)
		for _, e := range a.Events {
			id = cmp.Or(id, e.MessageID)
		}
		if o.here || id == "" {
			break
		}
		for _, next := range a.Next {
			if !slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, next) }) {
				names = append(names, next)
			}
		}
	}
	return accounts, nil
}

// narrate prints accounts for a person to read.
func narrate(out io.Writer, accounts []account) error {
	var b strings.Builder
	through := "" // is said where it changes
	for i := range accounts {
		a := &accounts[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		switch {
		case a.Missing != "":
			fmt.Fprintf(&b, "%s\n  %s\n", a.Entity, a.Missing)
			continue
		case len(a.Events) == 0:
			fmt.Fprintf(&b, "%s (%s)\n  nothing is remembered of it\n", a.Entity, strings.ToLower(a.Kind))
			continue
		}
		fmt.Fprintf(&b, "%s (%s)\n", a.Entity, strings.ToLower(a.Kind))
		for j := range a.Events {
			e := &a.Events[j]
			fmt.Fprintf(&b, "  %s  %s", e.Time.UTC().Format(instantLayout), e.sentence())
			if e.Gateway != "" && e.Gateway != through {
				through = e.Gateway
				fmt.Fprintf(&b, " (through %s)", through)
			}
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// sentence tells an event in words.
func (e *event) sentence() string {
	var b strings.Builder
	b.WriteString(e.happened())
	if e.SubQueue != "" {
		fmt.Fprintf(&b, " in its %s", e.place())
	}
	by := "by"
	switch e.Event {
	case core.EventAccepted, core.EventScheduled, core.EventDuplicate:
		by = "from"
	case core.EventDelivered:
		by = "to"
	}
	switch {
	case e.Policy != "" && e.Peer != "":
		fmt.Fprintf(&b, ", %s %s at %s", by, e.Policy, e.Peer)
	case e.Policy != "" || e.Peer != "":
		fmt.Fprintf(&b, ", %s %s", by, e.Policy+e.Peer)
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, ": %s", e.Reason)
	}
	return b.String()
}

// place is the sub-queue in words.
func (e *event) place() string {
	switch e.SubQueue {
	case "$DeadLetterQueue":
		return "dead-letter queue"
	case "$Transfer":
		return "transfer queue"
	default:
		return "transfer dead-letter queue"
	}
}

func (e *event) until() string {
	if e.Until == nil {
		return "later"
	}
	return e.Until.UTC().Format(instantLayout)
}

// happened is what happened, without who and where.
func (e *event) happened() string {
	switch e.Event {
	case core.EventAccepted:
		if e.Entity != "" {
			return fmt.Sprintf("accepted as %d, forwarded from %s", e.SequenceNumber, e.Entity)
		}
		return fmt.Sprintf("accepted as %d", e.SequenceNumber)
	case core.EventScheduled:
		return fmt.Sprintf("accepted as %d, scheduled for %s", e.SequenceNumber, e.until())
	case core.EventDuplicate:
		return "dropped as a duplicate of what had the same id"
	case core.EventActivated:
		return fmt.Sprintf("became active as %d", e.Other)
	case core.EventPublished:
		return fmt.Sprintf("%d was published", e.SequenceNumber)
	case core.EventMatched:
		if e.Rule == "" {
			return "went to " + e.Entity
		}
		return fmt.Sprintf("matched %s of %s", e.Rule, e.Entity)
	case core.EventUnmatched:
		return "matched by no rule of any subscription"
	case core.EventDelivered:
		return fmt.Sprintf("%d was delivered (delivery %d)", e.SequenceNumber, e.Failures+1)
	case core.EventCompleted, core.EventReleased, core.EventDeferred, core.EventCancelled:
		return fmt.Sprintf("%d was %s", e.SequenceNumber, e.Event)
	case core.EventAbandoned:
		return fmt.Sprintf("%d was abandoned (failure %d)", e.SequenceNumber, e.Failures)
	case core.EventPostponed:
		return fmt.Sprintf("%d was abandoned, to be delivered again at %s", e.SequenceNumber, e.until())
	case core.EventReturned:
		return fmt.Sprintf("%d became available again (failure %d)", e.SequenceNumber, e.Failures)
	case core.EventLockExpired:
		return fmt.Sprintf("the lock of %d expired (failure %d)", e.SequenceNumber, e.Failures)
	case core.EventDeadLettered:
		return fmt.Sprintf("%d was dead-lettered as %d", e.SequenceNumber, e.Other)
	case core.EventExpired:
		return fmt.Sprintf("%d expired and was dropped", e.SequenceNumber)
	case core.EventForwarded:
		return fmt.Sprintf("%d was forwarded to %s", e.SequenceNumber, e.Entity)
	case core.EventDropped, core.EventBuried, core.EventRouted:
		did := map[core.EventKind]string{core.EventDropped: "dropped", core.EventBuried: "dead-lettered on its way in", core.EventRouted: "routed to " + e.Entity}
		return fmt.Sprintf("%s by the plugin %s", did[e.Event], e.Plugin)
	case core.EventParked:
		return "parked until its plugins are back"
	default:
		return string(e.Event)
	}
}
