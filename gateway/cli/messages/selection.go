package messages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/plugins/builtin"
)

// selection contains flags that choose messages. A message must match all of them.
type selection struct {
	where      string
	ids        []string
	numbers    []int64
	properties []string
	reason     string
	older      string
	newer      string
	count      int
}

func (o *selection) bind(f *pflag.FlagSet) {
	f.StringVar(&o.where, "where", "", "only messages that fulfil this SQL `condition`, with names as in rules: sys.Label, region, body.total")
	f.StringSliceVar(&o.ids, "message-id", nil, "only messages with this message `id`; repeatable")
	f.Int64SliceVar(&o.numbers, "sequence-number", nil, "only the message with this sequence `number`; repeatable")
	f.Lookup("sequence-number").DefValue = "" // pflag would show "[]"
	f.StringArrayVar(&o.properties, "property", nil, "only messages with this user property, `NAME=VALUE`, or NAME alone for any value; repeatable")
	f.StringVar(&o.older, "older-than", "", "only messages enqueued more than this `duration` ago, such as 1h")
	f.StringVar(&o.newer, "newer-than", "", "only messages enqueued less than this `duration` ago, such as 1h")
}

func (o *selection) bindReason(f *pflag.FlagSet) {
	f.StringVar(&o.reason, "reason", "", "only dead letters with this `reason`, such as MaxDeliveryCountExceeded")
}

func (o *selection) isEmpty() bool {
	return o.where == "" && o.reason == "" && o.older == "" && o.newer == "" && len(o.ids)+len(o.numbers)+len(o.properties) == 0
}

func (o *selection) fits() (func(*amqp.Arrival) (bool, error), error) {
	var errs []error
	var all []func(*amqp.Arrival) bool
	add := func(f func(*amqp.Arrival) bool) { all = append(all, f) }
	where := func(*amqp.Arrival) (bool, error) { return true, nil }
	if len(o.numbers) > 0 {
		add(func(a *amqp.Arrival) bool { return slices.Contains(o.numbers, a.SequenceNumber) })
	}
	if len(o.ids) > 0 {
		add(func(a *amqp.Arrival) bool { return slices.Contains(o.ids, a.MessageID.String()) })
	}
	if o.reason != "" {
		add(func(a *amqp.Arrival) bool { return strings.EqualFold(reasonOf(a), o.reason) })
	}
	for _, text := range o.properties {
		name, want, valued := strings.Cut(text, "=")
		if name == "" {
			errs = append(errs, fmt.Errorf("--property is %q: write NAME=VALUE, or NAME", text))
		}
		want = strings.Trim(want, `"`)
		add(func(a *amqp.Arrival) bool {
			for key, v := range a.Properties.All() {
				if strings.EqualFold(key, name) {
					return !valued || propertyText(v) == want
				}
			}
			return false
		})
	}
	for _, age := range []struct {
		flag, text string
		fits       func(d, limit time.Duration) bool
	}{
		{"--older-than", o.older, func(d, limit time.Duration) bool { return d > limit }},
		{"--newer-than", o.newer, func(d, limit time.Duration) bool { return d < limit }},
	} {
		if age.text == "" {
			continue
		}
		limit, err := config.ParseDuration(age.text)
		if err != nil || limit < 0 {
			errs = append(errs, fmt.Errorf("%s is %q: write a duration of 0 or more, such as 1h", age.flag, age.text))
		}
		now := time.Now()
		add(func(a *amqp.Arrival) bool { return age.fits(now.Sub(a.EnqueuedTime), limit) })
	}
	if o.where != "" {
		var err error
		where, err = whereOf(o.where)
		errs = append(errs, err)
	}
	if o.count < 0 {
		errs = append(errs, fmt.Errorf("--count is %d: use a positive number, or 0 for all messages", o.count))
	}
	return func(a *amqp.Arrival) (bool, error) {
		if slices.ContainsFunc(all, func(fits func(*amqp.Arrival) bool) bool { return !fits(a) }) {
			return false, nil
		}
		return where(a)
	}, command.Usage(errors.Join(errs...))
}

func whereOf(condition string) (func(*amqp.Arrival) (bool, error), error) {
	rule, err := rules.Compile(core.Rule{Name: "where", Filter: core.Filter{Kind: core.SQLFilter, SQL: condition}})
	if err != nil {
		text := core.TextOf(err)
		if _, rest, ok := strings.Cut(text, "SQL filter, "); ok {
			text = rest
		}
		return nil, fmt.Errorf("--where: %s", text)
	}
	if len(rule.Calls()) > 0 {
		return nil, errors.New("--where cannot call plugin(…), which works only in rules of subscriptions: remove the call")
	}
	return func(a *amqp.Arrival) (bool, error) {
		truth, err := rule.Matches(a.Message, rules.Facts{
			EnqueuedTime: a.EnqueuedTime, SequenceNumber: a.SequenceNumber, EnqueuedSequenceNumber: a.EnqueuedSequenceNumber,
			DeliveryCount: a.DeliveryCount, State: a.State, Body: BodyFields,
		})
		if err != nil {
			return false, fmt.Errorf("cannot evaluate --where for the message with sequence number %d: %s", a.SequenceNumber, core.TextOf(err))
		}
		return truth == rules.True, nil
	}, nil
}

// BodyFields decodes a body for SQL conditions. The body must be JSON or an AMQP value.
func BodyFields(m *core.Message) (any, error) {
	if m.Body.Kind == core.BodyValue {
		return m.Body.Value()
	}
	return builtin.Named(builtin.JSON).Decode(context.Background(), "application/json", m.Body.Bytes)
}

func propertyText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case value.Timestamp:
		return time.UnixMilli(int64(v)).UTC().Format(time.RFC3339Nano)
	case value.Described, value.Char:
		return value.Text(v)
	}
	return fmt.Sprint(v)
}

func reasonOf(a *amqp.Arrival) string { return propertyOf(a, core.PropertyDeadLetterReason) }

func propertyOf(a *amqp.Arrival, name string) string {
	v, _ := a.Properties.Get(name)
	return propertyText(v)
}

// browser finds the messages of entity that its selection chooses, up to selection.count (0: all).
type browser struct {
	selection
	target *command.Target
	link   *remote.Client
	entity string
	state  *core.State // state of the messages to find; nil means any
	from   int64       // sequence number at which the search begins
	also   func(*amqp.Arrival) bool
	seen   func(n int)
}

type chosen struct {
	command.Flags
	selection
	// If address is not nil, it returns the address of the messages, such as a dead-letter queue.
	// holder is the entity whose policies allow clients to read them.
	address func(entity string) (holder, address string, err error)
}

func (o *chosen) bind(c *cobra.Command, environ []string) {
	o.Flags.Bind(c, environ)
	o.selection.bind(c.Flags())
	c.Args = cobra.MaximumNArgs(1)
}

func (o *chosen) browsing(use func(c *cobra.Command, b *browser) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if _, err := o.fits(); err != nil {
			return err
		}
		t, holder, err := o.TargetEntity(args)
		if err != nil {
			return err
		}
		address := holder
		if o.address != nil {
			if holder, address, err = o.address(holder); err != nil {
				return err
			}
		}
		link, err := t.Link(c.Context(), holder)
		if err != nil {
			return t.Explain(err)
		}
		defer link.Close()
		return t.Explain(use(c, &browser{selection: o.selection, target: t, link: link, entity: address, seen: command.NewProgress(c.ErrOrStderr(), "searched").At}))
	}
}

// report prints what the command did to n messages, and returns the error failed. If the command
// failed before the first message, report prints nothing.
func (o *chosen) report(c *cobra.Command, n int, failed error, done map[string]any, format string, args ...any) error {
	if n == 0 && failed != nil {
		return failed
	}
	return errors.Join(o.Tell(c, done, format, args...), failed)
}

// find calls use for each selected message. more is true if another message matches.
func (b *browser) find(ctx context.Context, use func(*amqp.Arrival) error) (more bool, err error) {
	fits, err := b.fits()
	if err != nil {
		return false, err
	}
	looked, found := 0, 0
	look := func(page []amqp.Arrival) error {
		for i := range page {
			a := &page[i]
			looked++
			if b.state != nil && a.State != *b.state || b.also != nil && !b.also(a) {
				continue
			}
			ok, err := fits(a)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if b.count > 0 && found == b.count {
				more = true
				return nil
			}
			found++
			if err := use(a); err != nil {
				return err
			}
		}
		if b.seen != nil {
			b.seen(looked)
		}
		return nil
	}
	if len(b.numbers) > 0 {
		for _, n := range slices.Sorted(slices.Values(b.numbers)) {
			page, err := b.link.Peek(ctx, b.entity, b.state, n, 1)
			if err == nil && len(page) > 0 && page[0].SequenceNumber == n {
				err = look(page)
			}
			if err != nil || more {
				return more, err
			}
		}
		return false, nil
	}
	for page, err := range b.link.Pages(ctx, b.entity, b.state, b.from) {
		if err == nil {
			err = look(page)
		}
		if err != nil || more {
			return more, err
		}
	}
	return false, nil
}
