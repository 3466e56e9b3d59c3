package entities

import (
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// Topic is crosstown topic.
func Topic(environ []string) *cobra.Command {
	topic := command.Group(&cobra.Command{
		Use:   "topic",
		Short: "Create, list, show, update and delete topics",
		Example: `  crosstown topic create events --default-message-time-to-live 1h
  crosstown subscription create events eu --sql "region = 'eu'"
  crosstown topic list`,
	})
	create := managing(environ, "create NAME", "Create a topic", createTopic)
	update := managing(environ, "update NAME", "Change the given settings of a topic", updateTopic)
	config.BindSettings[config.TopicSettings](create.Flags())
	config.BindSettings[config.TopicSettings](update.Flags())
	topic.AddCommand(
		create, update,
		managing(environ, "list", "List topics with their counts and sizes", listTopics),
		managing(environ, "show NAME", "Show the settings, counts and size of a topic", showTopic),
		managing(environ, "delete NAME", "Delete a topic with its subscriptions and all their messages", deleteTopic),
	)
	return topic
}

func createTopic(m *manager) error {
	s, err := given[config.TopicSettings](m)
	if err != nil {
		return err
	}
	p := &admin.TopicProperties{}
	apply(s, p)
	made, err := m.CreateTopic(m.command.Context(), m.name(), &admin.CreateTopicOptions{Properties: p})
	if err != nil {
		return err
	}
	return m.say("created", "topic", made.TopicName)
}

func updateTopic(m *manager) error {
	s, err := given[config.TopicSettings](m)
	if err != nil {
		return err
	}
	if err := m.mustBe("topic"); err != nil {
		return err
	}
	held, err := m.GetTopic(m.command.Context(), m.name(), nil)
	if err != nil {
		return err
	}
	if held == nil {
		return missing("topic", m.name())
	}
	apply(s, &held.TopicProperties)
	if _, err := m.UpdateTopic(m.command.Context(), m.name(), held.TopicProperties, nil); err != nil {
		return err
	}
	return m.say("updated", "topic", m.name())
}

func deleteTopic(m *manager) error {
	if err := m.mustBe("topic"); err != nil {
		return err
	}
	if _, err := m.DeleteTopic(m.command.Context(), m.name(), nil); err != nil {
		return err
	}
	return m.say("deleted", "topic", m.name())
}

func showTopic(m *manager) error {
	if err := m.mustBe("topic"); err != nil {
		return err
	}
	settings, err := m.GetTopic(m.command.Context(), m.name(), nil)
	if err != nil {
		return err
	}
	held, err := m.GetTopicRuntimeProperties(m.command.Context(), m.name(), nil)
	if err != nil {
		return err
	}
	if settings == nil || held == nil {
		return missing("topic", m.name())
	}
	return m.show(topicCounts(settings.TopicName, &held.TopicRuntimeProperties), &settings.TopicProperties)
}

func listTopics(m *manager) error {
	l := m.list("topic", topicCounts("", &admin.TopicRuntimeProperties{}))
	for pages := m.NewListTopicsRuntimePropertiesPager(nil); pages.More(); {
		page, err := pages.NextPage(m.command.Context())
		if err != nil {
			return err
		}
		for _, t := range page.TopicRuntimeProperties {
			if err := l.add(topicCounts(t.TopicName, &t.TopicRuntimeProperties)); err != nil {
				return err
			}
		}
	}
	return l.table.Flush()
}

func topicCounts(name string, t *admin.TopicRuntimeProperties) counts {
	return counts{
		Name: name, Subscriptions: &t.SubscriptionCount, SQLFilters: &t.SQLFilterCount, CorrelationFilters: &t.CorrelationFilterCount,
		Scheduled: &t.ScheduledMessageCount, Bytes: &t.SizeInBytes,
	}
}
