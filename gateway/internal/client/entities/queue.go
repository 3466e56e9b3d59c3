package entities

import (
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/messages"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// Queue is crosstown queue.
func Queue(environ []string) *cobra.Command {
	queue := command.Group(&cobra.Command{
		Use:   "queue",
		Short: "Create, list, show, update, delete and purge queues",
		Example: `  crosstown queue create orders --lock-duration 30s --max-delivery-count 5
  crosstown queue create replies --session-aware
  crosstown queue create intake --forward-to orders
  crosstown queue list`,
	})
	create := managing(environ, "create NAME", "Create a queue", createQueue)
	update := managing(environ, "update NAME", "Change the given settings of a queue", updateQueue)
	config.BindSettings[config.QueueSettings](create.Flags())
	config.BindSettings[config.QueueSettings](update.Flags())
	queue.AddCommand(
		create, update,
		managing(environ, "list", "List queues with their message counts", listQueues),
		managing(environ, "show NAME", "Show the settings and message counts of a queue", showQueue),
		managing(environ, "delete NAME", "Delete a queue with all its messages", deleteQueue),
		messages.Purge(environ, "NAME", "queue"),
	)
	return queue
}

func createQueue(m *manager) error {
	s, err := given[config.QueueSettings](m)
	if err != nil {
		return err
	}
	p := &admin.QueueProperties{}
	apply(s, p)
	made, err := m.CreateQueue(m.command.Context(), m.name(), &admin.CreateQueueOptions{Properties: p})
	if err != nil {
		return err
	}
	return m.say("created", "queue", made.QueueName)
}

func updateQueue(m *manager) error {
	s, err := given[config.QueueSettings](m)
	if err != nil {
		return err
	}
	if err := m.mustBe("queue"); err != nil {
		return err
	}
	held, err := m.GetQueue(m.command.Context(), m.name(), nil)
	if err != nil {
		return err
	}
	if held == nil {
		return missing("queue", m.name())
	}
	apply(s, &held.QueueProperties)
	if _, err := m.UpdateQueue(m.command.Context(), m.name(), held.QueueProperties, nil); err != nil {
		return err
	}
	return m.say("updated", "queue", m.name())
}

func deleteQueue(m *manager) error {
	if err := m.mustBe("queue"); err != nil {
		return err
	}
	if _, err := m.DeleteQueue(m.command.Context(), m.name(), nil); err != nil {
		return err
	}
	return m.say("deleted", "queue", m.name())
}

func showQueue(m *manager) error {
	if err := m.mustBe("queue"); err != nil {
		return err
	}
	settings, err := m.GetQueue(m.command.Context(), m.name(), nil)
	if err != nil {
		return err
	}
	held, err := m.GetQueueRuntimeProperties(m.command.Context(), m.name(), nil)
	if err != nil {
		return err
	}
	if settings == nil || held == nil {
		return missing("queue", m.name())
	}
	return m.show(queueCounts(settings.QueueName, &held.QueueRuntimeProperties), &settings.QueueProperties)
}

func listQueues(m *manager) error {
	l := m.list("queue", queueCounts("", &admin.QueueRuntimeProperties{}))
	for pages := m.NewListQueuesRuntimePropertiesPager(nil); pages.More(); {
		page, err := pages.NextPage(m.command.Context())
		if err != nil {
			return err
		}
		for _, q := range page.QueueRuntimeProperties {
			if err := l.add(queueCounts(q.QueueName, &q.QueueRuntimeProperties)); err != nil {
				return err
			}
		}
	}
	return l.table.Flush()
}

func queueCounts(name string, q *admin.QueueRuntimeProperties) counts {
	return counts{
		Name: name, Active: &q.ActiveMessageCount, Scheduled: &q.ScheduledMessageCount, DeadLetter: &q.DeadLetterMessageCount,
		Transfer: &q.TransferMessageCount, TransferDeadLetter: &q.TransferDeadLetterMessageCount, Bytes: &q.SizeInBytes,
	}
}
