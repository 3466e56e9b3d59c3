package entities

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// manager is a management command that is connected.
type manager struct {
	*command.Flags
	*admin.Client
	command *cobra.Command
	args    []string // as many as the command's use names
}

// managing makes a command that uses the management API.
func managing(environ []string, use, short string, run func(m *manager) error) *cobra.Command {
	var o command.Flags
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(len(strings.Fields(use)) - 1)}
	o.Bind(c, environ)
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := o.Target()
		if err != nil {
			return err
		}
		client, err := t.Admin()
		if err != nil {
			return err
		}
		return t.Explain(run(&manager{&o, client, c, args}))
	}
	return c
}

// given reads the settings among a command's flags.
func given[T config.EntitySettings](m *manager) (*T, error) {
	return config.Decode[T](m.command.Flags())
}

func (m *manager) out() io.Writer { return m.command.OutOrStdout() }

// name is what a command is about: a name, or a topic's and a subscription's.
func (m *manager) name() string {
	if len(m.args) > 1 {
		return core.SubscriptionPath(m.args[0], m.args[1])
	}
	return m.args[0]
}

// say tells what was done to a thing of some kind.
func (m *manager) say(did, kind, name string) error {
	if m.JSON {
		return json.NewEncoder(m.out()).Encode(map[string]string{did: name})
	}
	_, err := fmt.Fprintf(m.out(), "%s %s %s\n", did, kind, name)
	return err
}

// mustBe refuses a queue where the command is about topics, and the other way round: to the gateway both
// are entities of one path, so a command would change or delete it all the same.
func (m *manager) mustBe(kind string) error {
	if topic, subscription, ok := core.SplitSubscription(m.name()); ok {
		return command.Usagef("%q is a subscription: use crosstown subscription %s %s %s", m.name(), m.command.Name(), topic, subscription)
	}
	if strings.Contains(m.name(), "/$") {
		return command.Usagef("%q is a part of a queue or subscription: name the queue or subscription itself", m.name())
	}
	other, is := "topic", false
	if kind == "topic" {
		other = "queue"
		q, err := m.GetQueueRuntimeProperties(m.command.Context(), m.name(), nil)
		is = err == nil && q != nil
	} else {
		t, err := m.GetTopicRuntimeProperties(m.command.Context(), m.name(), nil)
		is = err == nil && t != nil
	}
	if !is {
		return nil
	}
	return fmt.Errorf("%q is a %s: use crosstown %s", m.name(), other, other)
}

func missing(kind, name string) error {
	return fmt.Errorf("there is no %s %q: %s", kind, name, command.ListHint)
}

// counts is what an entity holds, as --json prints it. What its kind does not
// have is left out.
type counts struct {
	Name               string `json:"name"`
	Subscriptions      *int32 `json:"subscriptions,omitempty"`
	SQLFilters         *int32 `json:"sqlFilters,omitempty"`
	CorrelationFilters *int32 `json:"correlationFilters,omitempty"`
	Active             *int32 `json:"active,omitempty"`
	Scheduled          *int32 `json:"scheduled,omitempty"`
	DeadLetter         *int32 `json:"deadLettered,omitempty"`
	Transfer           *int32 `json:"transfer,omitempty"`
	TransferDeadLetter *int32 `json:"transferDeadLettered,omitempty"`
	Damaged            *int32 `json:"damaged,omitempty"`
	Bytes              *int64 `json:"bytes,omitempty"`
}

// columns are the counts that there are, with their titles.
func (c *counts) columns() (titles, values []string) {
	for _, n := range []struct {
		title string
		v     *int32
	}{
		{"subscriptions", c.Subscriptions},
		{"SQL filters", c.SQLFilters},
		{"correlation filters", c.CorrelationFilters},
		{"active", c.Active},
		{"scheduled", c.Scheduled},
		{"dead-lettered", c.DeadLetter},
		{"transfer", c.Transfer},
		{"transfer dead-lettered", c.TransferDeadLetter},
		{"damaged", c.Damaged},
	} {
		if n.v != nil {
			titles, values = append(titles, n.title), append(values, fmt.Sprint(*n.v))
		}
	}
	if c.Bytes != nil {
		titles, values = append(titles, "bytes"), append(values, fmt.Sprint(*c.Bytes))
	}
	return titles, values
}

// listing prints counts, a line each.
type listing struct {
	m     *manager
	table *tabwriter.Writer
	lines *json.Encoder
}

// list begins a listing; model says which counts there are.
func (m *manager) list(kind string, model counts) *listing {
	l := &listing{m, tabwriter.NewWriter(m.out(), 0, 0, 2, ' ', 0), json.NewEncoder(m.out())}
	if !m.JSON {
		titles, _ := model.columns()
		_, _ = fmt.Fprintln(l.table, strings.ToUpper(strings.Join(append([]string{kind}, titles...), "\t")))
	}
	return l
}

func (l *listing) add(c counts) error {
	if l.m.JSON {
		return l.lines.Encode(c)
	}
	_, values := c.columns()
	_, err := fmt.Fprintln(l.table, strings.Join(append([]string{c.Name}, values...), "\t"))
	return err
}

// damaged is how many messages of an entity are damaged, if there are any: only a gateway tells.
func (m *manager) damaged() *int32 {
	var told struct{ Damaged int32 }
	q := command.Inquiry{Method: http.MethodGet, Path: api.CountersPath, Names: strings.Split(m.name(), "/"), Scope: command.PolicyHolder(m.name())}
	if err := m.Ask(m.command.Context(), q, &told); err != nil || told.Damaged == 0 {
		return nil
	}
	return &told.Damaged
}

// show prints an entity: what it holds, and its settings, a pointer to the SDK's.
func (m *manager) show(c counts, settings any) error {
	c.Damaged = m.damaged()
	if m.JSON {
		return json.NewEncoder(m.out()).Encode(struct {
			counts
			Settings map[string]any `json:"settings"`
		}{c, settingsOf(settings)})
	}
	table := tabwriter.NewWriter(m.out(), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "%s\t\n", c.Name)
	titles, values := c.columns()
	for i := range titles {
		_, _ = fmt.Fprintf(table, "%s\t%s\n", titles[i], values[i])
	}
	for name, v := range eachSetting(settings) {
		_, _ = fmt.Fprintf(table, "%s\t%v\n", name, v)
	}
	return table.Flush()
}
