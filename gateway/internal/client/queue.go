package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// purgeWait is how long a queue of another broker must stay empty to count as purged.
const purgeWait = time.Second

func queueCommand(environ []string) *cobra.Command {
	queue := group(&cobra.Command{
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
		purgeCommand(environ),
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

func purgeCommand(environ []string) *cobra.Command {
	var o common
	var dlq bool
	c := &cobra.Command{
		Use:   "purge NAME",
		Short: "Remove all messages of a queue that can be received now",
		Long: `Remove all messages of a queue that can be received now, or with --dlq all of its
dead letters. Messages that are locked, deferred or scheduled stay.

A Crosstown gateway removes them without sending them to the client, and keeps
messages that arrive during the purge. With other brokers the command receives and
deletes messages until none has arrived for a second.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := o.target()
			if err != nil {
				return err
			}
			say := func(n int) error {
				if o.json {
					return json.NewEncoder(c.OutOrStdout()).Encode(api.Purged{Purged: n})
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "purged %s from %s\n", messages(n), args[0])
				return err
			}
			name, err := t.entity(args)
			if err != nil {
				return err
			}
			q := inquiry{method: http.MethodPost, path: api.PurgePath, names: strings.Split(name, "/"), scope: name}
			if dlq {
				q.names = append(q.names, "$DeadLetterQueue")
			}
			var answer api.Purged
			err = o.ask(c.Context(), q, &answer)
			if _, refused := errors.AsType[*refusal](err); !refused {
				if err != nil {
					return err
				}
				return say(answer.Purged)
			}
			// Another broker, or an entity whose refusal a receiver explains.
			options := &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}
			if dlq {
				options.SubQueue = azservicebus.SubQueueDeadLetter
			}
			receiver, done, err := t.receiver(c.Context(), args, options, sessionChoice{}, 0)
			if err != nil {
				return t.explain(err)
			}
			defer done()
			forget := func([]*azservicebus.ReceivedMessage) error { return nil }
			n, err := drain(c.Context(), receiver, 0, purgeWait, forget, newProgress(c.ErrOrStderr(), "purged"))
			if err != nil {
				return t.explain(err)
			}
			return say(n)
		},
	}
	o.bind(c, environ)
	c.Flags().BoolVar(&dlq, "dlq", false, "purge the dead-letter queue")
	return c
}
