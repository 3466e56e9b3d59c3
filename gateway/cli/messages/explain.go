package messages

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

type explainOptions struct {
	command.Flags
	entity string
	number int64
	here   bool
}

func Explain(environ []string) *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:   "explain [MESSAGE-ID]",
		Short: "Print the history of a message",
		Long: `Print the history of a message: when it was accepted and from which client, which
rules it matched, which receivers got it and how they settled it, and where it was
forwarded. The command follows the message by its id to the entities that it was
forwarded to.

The gateway records the history of the entities that its configuration lists under
explain. The command needs a policy with Manage.`,
		Example: `  crosstown explain order-17 --entity orders
  crosstown explain order-17 --entity events --json
  crosstown explain --entity events/Subscriptions/eu --number 42 --here`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.Bind(c, environ)
	f := c.Flags()
	f.StringVar(&o.entity, "entity", "", "queue, topic or TOPIC/Subscriptions/NAME to start from")
	f.Int64Var(&o.number, "number", 0, "find the message by this current or former sequence `number` instead of its id")
	f.BoolVar(&o.here, "here", false, "do not follow the message to other entities")
	return c
}

const maxFollowed = 100

func (o *explainOptions) run(c *cobra.Command, args []string) error {
	id := strings.Join(args, "")
	if (id == "") == (o.number == 0) || o.number < 0 {
		return command.Usagef("specify a message by its id (crosstown explain MESSAGE-ID --entity ENTITY) or by its sequence number (--number)")
	}
	if t, err := o.Target(); err == nil && o.entity == "" && t.EntityPath == "" {
		return command.Usagef("specify the entity that the message was sent to: crosstown explain MESSAGE-ID --entity ENTITY")
	}
	_, first, err := o.TargetEntity([]string{o.entity})
	if err != nil {
		return err
	}
	accounts, err := o.follow(c.Context(), first, id)
	if err != nil {
		return err
	}
	if o.JSON {
		return command.NewEncoder(c.OutOrStdout()).Encode(accounts)
	}
	if len(accounts) == 1 && len(accounts[0].Events) == 0 {
		return fmt.Errorf("'%s' has no history of the message: the message never arrived there, or its history has been removed", accounts[0].Entity)
	}
	return narrate(c.OutOrStdout(), accounts)
}

func (o *explainOptions) follow(ctx context.Context, first, id string) ([]api.Account, error) {
	var accounts []api.Account
	names := []string{first}
	for i := 0; i < len(names) && i < maxFollowed; i++ {
		q := command.AboutEntity(http.MethodGet, api.ExplainPath, names[i])
		q.Query = url.Values{"message-id": {id}}
		if id == "" {
			q.Query = url.Values{"sequence-number": {strconv.FormatInt(o.number, 10)}}
		}
		var a api.Account
		err := o.Ask(ctx, q, &a)
		switch {
		case err != nil && i > 0 && command.IsMissing(err):
			a = api.Account{Entity: names[i], Missing: err.Error()}
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

func narrate(out io.Writer, accounts []api.Account) error {
	var b strings.Builder
	through := "" // printed only where it changes
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
			fmt.Fprintf(&b, "%s (%s)\n  the history has no event of this message\n", a.Entity, kindOf(a))
			continue
		}
		fmt.Fprintf(&b, "%s (%s)\n", a.Entity, kindOf(a))
		for j := range a.Events {
			e := &a.Events[j]
			fmt.Fprintf(&b, "  %s  %s", e.Time.UTC().Format(api.InstantLayout), e.Sentence())
			if e.Gateway != "" && e.Gateway != through {
				through = e.Gateway
				fmt.Fprintf(&b, " (through %s)", through)
			}
			b.WriteByte('\n')
		}
		for _, u := range a.Unmatched {
			fmt.Fprintf(&b, "  did not match %s\n", u.Subscription)
			for _, why := range u.Why {
				fmt.Fprintf(&b, "    %s\n", why)
			}
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func kindOf(a *api.Account) string {
	kind := strings.ToLower(a.Kind)
	if a.RateLimit != "" {
		kind += ", at most " + a.RateLimit
	}
	if a.CircuitBreaker != "" && a.CircuitBreaker != "closed" {
		kind += ", circuit breaker " + a.CircuitBreaker
	}
	return kind
}
