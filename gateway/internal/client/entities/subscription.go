package entities

import (
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/messages"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// Subscription is crosstown subscription.
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
	create := managing(environ, "create TOPIC NAME", "Create a subscription with the rule that the flags describe (default: a rule that matches all messages)", func(m *manager) error {
		return createSubscription(m, &first)
	})
	update := managing(environ, "update TOPIC NAME", "Change the given settings of a subscription", updateSubscription)
	config.BindSettings[config.SubscriptionSettings](create.Flags())
	config.BindSettings[config.SubscriptionSettings](update.Flags())
	first.bind(create.Flags())
	create.Flags().StringVar(&first.name, "rule", core.DefaultRuleName, "name of the first rule")
	subscription.AddCommand(
		create, update,
		managing(environ, "list TOPIC", "List the subscriptions of a topic with their message counts", listSubscriptions),
		managing(environ, "show TOPIC NAME", "Show the settings and message counts of a subscription", showSubscription),
		managing(environ, "delete TOPIC NAME", "Delete a subscription with all its messages", deleteSubscription),
		messages.Purge(environ, "TOPIC NAME", "subscription"),
	)
	return subscription
}

func createSubscription(m *manager, first *ruleOptions) error {
	s, err := given[config.SubscriptionSettings](m)
	if err != nil {
		return err
	}
	rule, err := first.rule()
	if err != nil {
		return err
	}
	p := &admin.SubscriptionProperties{DefaultRule: rule}
	apply(s, p)
	if _, err := m.CreateSubscription(m.command.Context(), m.args[0], m.args[1], &admin.CreateSubscriptionOptions{Properties: p}); err != nil {
		return err
	}
	return m.say("created", "subscription", m.name())
}

func updateSubscription(m *manager) error {
	s, err := given[config.SubscriptionSettings](m)
	if err != nil {
		return err
	}
	held, err := m.GetSubscription(m.command.Context(), m.args[0], m.args[1], nil)
	if err != nil {
		return err
	}
	if held == nil {
		return missing("subscription", m.name())
	}
	apply(s, &held.SubscriptionProperties)
	if _, err := m.UpdateSubscription(m.command.Context(), m.args[0], m.args[1], held.SubscriptionProperties, nil); err != nil {
		return err
	}
	return m.say("updated", "subscription", m.name())
}

func deleteSubscription(m *manager) error {
	if _, err := m.DeleteSubscription(m.command.Context(), m.args[0], m.args[1], nil); err != nil {
		return err
	}
	return m.say("deleted", "subscription", m.name())
}

func showSubscription(m *manager) error {
	settings, err := m.GetSubscription(m.command.Context(), m.args[0], m.args[1], nil)
	if err != nil {
		return err
	}
	held, err := m.GetSubscriptionRuntimeProperties(m.command.Context(), m.args[0], m.args[1], nil)
	if err != nil {
		return err
	}
	if settings == nil || held == nil {
		return missing("subscription", m.name())
	}
	return m.show(subscriptionCounts(m.name(), &held.SubscriptionRuntimeProperties), &settings.SubscriptionProperties)
}

func listSubscriptions(m *manager) error {
	l := m.list("subscription", subscriptionCounts("", &admin.SubscriptionRuntimeProperties{}))
	for pages := m.NewListSubscriptionsRuntimePropertiesPager(m.args[0], nil); pages.More(); {
		page, err := pages.NextPage(m.command.Context())
		if err != nil {
			return err
		}
		for _, s := range page.SubscriptionRuntimeProperties {
			if err := l.add(subscriptionCounts(s.SubscriptionName, &s.SubscriptionRuntimeProperties)); err != nil {
				return err
			}
		}
	}
	return l.table.Flush()
}

func subscriptionCounts(name string, s *admin.SubscriptionRuntimeProperties) counts {
	return counts{
		Name: name, Active: &s.ActiveMessageCount, DeadLetter: &s.DeadLetterMessageCount,
		Transfer: &s.TransferMessageCount, TransferDeadLetter: &s.TransferDeadLetterMessageCount,
	}
}
