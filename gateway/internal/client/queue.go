package client

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// purgeWait is how long a queue must stay empty to count as purged.
const purgeWait = time.Second

// queueRun is a command of `crosstown queue` that is connected. name is "" for list.
type queueRun func(c *cobra.Command, o *common, client *admin.Client, name string) error

func queueCommand(environ []string) *cobra.Command {
	queue := &cobra.Command{
		Use:   "queue",
		Short: "Create, list, show, update, delete and purge queues",
		Example: `  crosstown queue create orders --lock-duration 30s --max-delivery-count 5
  crosstown queue list`,
		Args: cobra.NoArgs, // only a command that runs is told of a word that names no command below it
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	create := managing(environ, "create NAME", "Create a queue", createQueue)
	update := managing(environ, "update NAME", "Change settings of a queue, leaving the others", updateQueue)
	config.BindQueue(create.Flags())
	config.BindQueue(update.Flags())
	queue.AddCommand(
		create, update,
		managing(environ, "list", "List the queues and what they hold", listQueues),
		managing(environ, "show NAME", "Show a queue's settings and what it holds", showQueue),
		managing(environ, "delete NAME", "Delete a queue with all its messages", deleteQueue),
		purgeCommand(environ),
	)
	return queue
}

// managing makes a command that uses the management API.
func managing(environ []string, use, short string, run queueRun) *cobra.Command {
	var o common
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(1)}
	if use == "list" {
		c.Args = cobra.NoArgs
	}
	o.bind(c, environ)
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := o.target()
		if err != nil {
			return err
		}
		client, err := t.admin()
		if err != nil {
			return err
		}
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		return t.explain(run(c, &o, client, name))
	}
	return c
}

func createQueue(c *cobra.Command, o *common, client *admin.Client, name string) error {
	var s config.QueueSettings
	if err := s.Decode(c.Flags()); err != nil {
		return err
	}
	p := &admin.QueueProperties{}
	apply(&s, p)
	made, err := client.CreateQueue(c.Context(), name, &admin.CreateQueueOptions{Properties: p})
	if err != nil {
		return err
	}
	return o.say(c.OutOrStdout(), "created", made.QueueName)
}

func updateQueue(c *cobra.Command, o *common, client *admin.Client, name string) error {
	var s config.QueueSettings
	if err := s.Decode(c.Flags()); err != nil {
		return err
	}
	held, err := client.GetQueue(c.Context(), name, nil)
	if err != nil {
		return err
	}
	if held == nil {
		return notFound(name)
	}
	apply(&s, &held.QueueProperties)
	if _, err := client.UpdateQueue(c.Context(), name, held.QueueProperties, nil); err != nil {
		return err
	}
	return o.say(c.OutOrStdout(), "updated", name)
}

func deleteQueue(c *cobra.Command, o *common, client *admin.Client, name string) error {
	if _, err := client.DeleteQueue(c.Context(), name, nil); err != nil {
		return err
	}
	return o.say(c.OutOrStdout(), "deleted", name)
}

func showQueue(c *cobra.Command, o *common, client *admin.Client, name string) error {
	settings, err := client.GetQueue(c.Context(), name, nil)
	if err != nil {
		return err
	}
	counts, err := client.GetQueueRuntimeProperties(c.Context(), name, nil)
	if err != nil {
		return err
	}
	if settings == nil || counts == nil {
		return notFound(name)
	}
	return o.printQueue(c.OutOrStdout(), settings, counts)
}

func listQueues(c *cobra.Command, o *common, client *admin.Client, _ string) error {
	table := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	lines := json.NewEncoder(c.OutOrStdout())
	if !o.json {
		_, _ = fmt.Fprintln(table, "QUEUE\tACTIVE\tSCHEDULED\tDEAD-LETTERED\tBYTES")
	}
	for pages := client.NewListQueuesRuntimePropertiesPager(nil); pages.More(); {
		page, err := pages.NextPage(c.Context())
		if err != nil {
			return err
		}
		for _, q := range page.QueueRuntimeProperties {
			if !o.json {
				_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", q.QueueName, q.ActiveMessageCount, q.ScheduledMessageCount, q.DeadLetterMessageCount, q.SizeInBytes)
			} else if err := lines.Encode(countsOf(q.QueueName, &q.QueueRuntimeProperties)); err != nil {
				return err
			}
		}
	}
	return table.Flush()
}

// counts is what a queue holds, as --json prints it.
type counts struct {
	Name       string `json:"name"`
	Active     int32  `json:"active"`
	Scheduled  int32  `json:"scheduled"`
	DeadLetter int32  `json:"deadLettered"`
	Bytes      int64  `json:"bytes"`
}

func countsOf(name string, q *admin.QueueRuntimeProperties) counts {
	return counts{name, q.ActiveMessageCount, q.ScheduledMessageCount, q.DeadLetterMessageCount, q.SizeInBytes}
}

func (o *common) printQueue(w io.Writer, q *admin.GetQueueResponse, held *admin.GetQueueRuntimePropertiesResponse) error {
	n := countsOf(q.QueueName, &held.QueueRuntimeProperties)
	if o.json {
		return json.NewEncoder(w).Encode(struct {
			counts
			Settings map[string]any `json:"settings"`
		}{n, settingsOf(&q.QueueProperties)})
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "%s\t\nactive\t%d\nscheduled\t%d\ndead-lettered\t%d\nbytes\t%d\n", n.Name, n.Active, n.Scheduled, n.DeadLetter, n.Bytes)
	for name, v := range eachSetting(&q.QueueProperties) {
		_, _ = fmt.Fprintf(table, "%s\t%v\n", name, v)
	}
	return table.Flush()
}

func (o *common) say(w io.Writer, did, name string) error {
	if o.json {
		return json.NewEncoder(w).Encode(map[string]string{did: name})
	}
	_, err := fmt.Fprintf(w, "%s queue %s\n", did, name)
	return err
}

func notFound(name string) error {
	return fmt.Errorf("there is no queue %q: %s", name, listHint)
}

func purgeCommand(environ []string) *cobra.Command {
	var o common
	var dlq bool
	c := &cobra.Command{
		Use:   "purge NAME",
		Short: "Remove all messages of a queue that can be received now",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := o.target()
			if err != nil {
				return err
			}
			options := &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}
			if dlq {
				options.SubQueue = azservicebus.SubQueueDeadLetter
			}
			receiver, done, err := t.receiver(c.Context(), args, options)
			if err != nil {
				return t.explain(err)
			}
			defer done()
			forget := func([]*azservicebus.ReceivedMessage) error { return nil }
			n, err := drain(c.Context(), receiver, 0, purgeWait, forget, newProgress(c.ErrOrStderr(), "purged"))
			if err != nil {
				return t.explain(err)
			}
			if o.json {
				return json.NewEncoder(c.OutOrStdout()).Encode(map[string]int{"purged": n})
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "purged %s from %s\n", messages(n), args[0])
			return err
		},
	}
	o.bind(c, environ)
	c.Flags().BoolVar(&dlq, "dlq", false, "purge the dead-letter queue")
	return c
}
