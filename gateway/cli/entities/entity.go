package entities

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/cli/messages"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

type kind struct {
	core.Kind
	names string // names of the command's arguments, as in the help
}

var (
	queues        = kind{core.Queue, "NAME"}
	topics        = kind{core.Topic, "NAME"}
	subscriptions = kind{core.Subscription, "TOPIC NAME"}
)

func Queue(environ []string) *cobra.Command {
	queue := command.Group(&cobra.Command{
		Use:   "queue",
		Short: "Create, list, show, update, delete and purge queues",
		Example: `  crosstown queue create orders --lock-duration 30s --max-delivery-count 5
  crosstown queue create replies --session-aware
  crosstown queue create intake --forward-to orders
  crosstown queue list`,
	})
	queue.AddCommand(
		queues.create(environ, "Create a queue", new(ruleOptions)),
		queues.update(environ),
		queues.list(environ, "list", "List queues with their message counts"),
		queues.show(environ, "Show the settings and message counts of a queue"),
		queues.delete(environ, "Delete a queue with all its messages"),
		messages.Purge(environ, queues.names, queues.Word()),
	)
	return queue
}

func Topic(environ []string) *cobra.Command {
	topic := command.Group(&cobra.Command{
		Use:   "topic",
		Short: "Create, list, show, update and delete topics",
		Example: `  crosstown topic create events --default-message-time-to-live 1h
  crosstown subscription create events eu --sql "region = 'eu'"
  crosstown topic list`,
	})
	topic.AddCommand(
		topics.create(environ, "Create a topic", new(ruleOptions)),
		topics.update(environ),
		topics.list(environ, "list", "List topics with their counts and sizes"),
		topics.show(environ, "Show the settings, counts and size of a topic"),
		topics.delete(environ, "Delete a topic with its subscriptions and all their messages"),
	)
	return topic
}

func Subscription(environ []string) *cobra.Command {
	subscription := command.Group(&cobra.Command{
		Use:   "subscription",
		Short: "Create, list, show, update, delete and purge the subscriptions of topics",
		Example: `  crosstown subscription create events all
  crosstown subscription create events eu --sql "region = 'eu' AND amount > 100" --forward-to eu-orders
  crosstown subscription list events
  crosstown receive events/Subscriptions/all`,
	})
	var first ruleOptions
	create := subscriptions.create(environ, "Create a subscription with the rule that the flags describe (default: a rule that matches all messages)", &first)
	first.bind(create.Flags())
	create.Flags().StringVar(&first.name, "rule", core.DefaultRuleName, "name of the first rule")
	subscription.AddCommand(
		create,
		subscriptions.update(environ),
		subscriptions.list(environ, "list TOPIC", "List the subscriptions of a topic with their message counts"),
		subscriptions.show(environ, "Show the settings and message counts of a subscription"),
		subscriptions.delete(environ, "Delete a subscription with all its messages"),
		messages.Purge(environ, subscriptions.names, subscriptions.Word()),
	)
	return subscription
}

func (k *kind) create(environ []string, short string, first *ruleOptions) *cobra.Command {
	c := managing(environ, "create "+k.names, short, func(ctx context.Context, m *manager) error {
		given, err := config.Decode(m.command.Flags(), k.Kind)
		if err != nil {
			return err
		}
		rule, err := first.rule()
		if err != nil {
			return err
		}
		s := core.DefaultSettings(k.Kind)
		if given.Apply(&s); s.EnablePartitioning {
			s.SupportOrdering = false // messages in different partitions have no order
		}
		_, err = m.CreateEntity(ctx, command.AnyIdentity, k.Kind, m.name(), s, rule)
		return m.done(err, "created", k.Word(), m.name())
	})
	config.BindSettings(c.Flags(), k.Kind)
	return c
}

func (k *kind) update(environ []string) *cobra.Command {
	c := managing(environ, "update "+k.names, "Change the given settings of a "+k.Word(), func(ctx context.Context, m *manager) error {
		given, err := config.Decode(m.command.Flags(), k.Kind)
		if err != nil {
			return err
		}
		e, _, err := k.held(ctx, m)
		if err != nil {
			return err
		}
		given.Apply(&e.Settings)
		_, err = m.UpdateEntity(ctx, command.AnyIdentity, m.name(), e.Settings)
		return m.done(err, "updated", k.Word(), m.name())
	})
	config.BindSettings(c.Flags(), k.Kind)
	return c
}

func (k *kind) delete(environ []string, short string) *cobra.Command {
	var sure command.Confirmation
	c := managing(environ, "delete "+k.names, short, func(ctx context.Context, m *manager) error {
		if err := k.check(ctx, m); err != nil {
			return err
		}
		if err := sure.ConfirmDelete(m.command, fmt.Sprintf("delete the %s %s", k.Word(), m.name()), func() (int64, error) { return k.holds(ctx, m) }); err != nil {
			return err
		}
		return m.done(m.DeleteEntity(ctx, command.AnyIdentity, m.name()), "deleted", k.Word(), m.name())
	})
	sure.Bind(c)
	return c
}

func (k *kind) holds(ctx context.Context, m *manager) (n int64, err error) {
	_, rt, err := m.Entity(ctx, command.AnyIdentity, m.name())
	all := []core.Runtime{rt}
	if err == nil && k.Kind == core.Topic {
		var below []core.Runtime
		_, below, err = m.Entities(ctx, command.AnyIdentity, core.Listing{Kind: core.Subscription, Topic: m.name()}, 0, math.MaxInt32)
		all = append(all, below...)
	}
	for _, rt := range all {
		n += rt.Messages()
	}
	if errors.Is(err, core.NotFound) {
		return 0, nil
	}
	return n, err
}

func (k *kind) show(environ []string, short string) *cobra.Command {
	return managing(environ, "show "+k.names, short, func(ctx context.Context, m *manager) error {
		e, rt, err := k.held(ctx, m)
		if err != nil {
			return err
		}
		return m.show(&e, &rt)
	})
}

func (k *kind) list(environ []string, use, short string) *cobra.Command {
	return managing(environ, use, short, func(ctx context.Context, m *manager) error {
		l := core.Listing{Kind: k.Kind}
		if len(m.args) > 0 {
			l.Topic = m.args[0]
		}
		all, counts, err := m.Entities(ctx, command.AnyIdentity, l, 0, math.MaxInt32)
		if err != nil {
			return err
		}
		return m.list(k, all, counts)
	})
}

func (k *kind) held(ctx context.Context, m *manager) (e core.Entity, rt core.Runtime, err error) {
	if err := k.check(ctx, m); err != nil {
		return e, rt, err
	}
	e, rt, err = m.Entity(ctx, command.AnyIdentity, m.name())
	return e, rt, missing(err, k.Word(), m.name())
}

// check refuses an entity of another kind, such as a queue for a topic command. All kinds have the
// same paths in the API, so the command could otherwise change or delete the wrong entity.
func (k *kind) check(ctx context.Context, m *manager) error {
	if k.Kind == core.Subscription {
		return nil
	}
	if topic, subscription, ok := core.SplitSubscription(m.name()); ok {
		return command.Usagef("%q is a subscription: use: crosstown subscription %s %s %s", m.name(), m.command.Name(), topic, subscription)
	}
	if strings.Contains(m.name(), "/$") {
		return command.Usagef("%q is a sub-queue: specify the queue or subscription that it belongs to", m.name())
	}
	if e, _, err := m.Entity(ctx, command.AnyIdentity, m.name()); err == nil && e.Kind != k.Kind {
		return fmt.Errorf("%q is a %s: use the command crosstown %[2]s", m.name(), e.Kind.Word())
	}
	return nil
}
