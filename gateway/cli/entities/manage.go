package entities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/https"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

type manager struct {
	*command.Flags
	*https.AdminClient
	command *cobra.Command
	args    []string
}

func managing(environ []string, use, short string, run func(ctx context.Context, m *manager) error) *cobra.Command {
	var o command.Flags
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(len(strings.Fields(use)) - 1)}
	o.Bind(c, environ)
	c.RunE = func(c *cobra.Command, args []string) error {
		if slices.Contains(args, "") {
			return command.Usagef("a name is empty: write crosstown %s %s", c.Parent().Name(), use)
		}
		t, err := o.Target()
		if err != nil {
			return err
		}
		client := t.Management(nil)
		client.Attempts = 1 // do not retry: on a terminal, an error is better than a wait
		return t.Explain(run(c.Context(), &manager{&o, client, c, args}))
	}
	return c
}

func (m *manager) name() string { return command.Named(m.args) }

func (m *manager) done(err error, did, kind, name string) error {
	if err != nil {
		return err
	}
	return m.Tell(m.command, map[string]string{did: name}, "%s %s %s", did, kind, name)
}

func missing(err error, kind, name string) error {
	if errors.Is(err, core.NotFound) {
		args := map[string]string{"subscription": " TOPIC", "rule": " TOPIC SUBSCRIPTION"}
		return fmt.Errorf("%s %q does not exist: list the names with: crosstown %[1]s list%[3]s", kind, name, args[kind])
	}
	return err
}

// counts are the columns of a table. The tag title is the title of the column.
type counts struct {
	Name               string `json:"name"`
	Subscriptions      *int64 `json:"subscriptions,omitempty" title:"subscriptions"`
	SQLFilters         *int64 `json:"sqlFilters,omitempty" title:"SQL filters"`
	CorrelationFilters *int64 `json:"correlationFilters,omitempty" title:"correlation filters"`
	Active             *int64 `json:"active,omitempty" title:"active"`
	Scheduled          *int64 `json:"scheduled,omitempty" title:"scheduled"`
	DeadLetter         *int64 `json:"deadLettered,omitempty" title:"dead-lettered"`
	Transfer           *int64 `json:"transfer,omitempty" title:"transfer"`
	TransferDeadLetter *int64 `json:"transferDeadLettered,omitempty" title:"transfer dead-lettered"`
	Damaged            *int64 `json:"damaged,omitempty" title:"damaged"`
	Bytes              *int64 `json:"bytes,omitempty" title:"bytes"`
}

func countsOf(kind core.Kind, name string, rt *core.Runtime) counts {
	c := counts{Name: name}
	if kind == core.Topic {
		c.Subscriptions, c.SQLFilters, c.CorrelationFilters = new(int64(rt.Subscriptions)), new(int64(rt.SQLFilters)), new(int64(rt.CorrelationFilters))
	} else {
		c.Active, c.DeadLetter, c.Transfer, c.TransferDeadLetter = &rt.Active, &rt.DeadLetter, &rt.Transfer, &rt.TransferDeadLetter
	}
	if kind != core.Subscription {
		c.Scheduled, c.Bytes = &rt.Scheduled, &rt.Bytes
	}
	return c
}

func (c *counts) columns() (titles []string, values []any) {
	for f, v := range reflect.ValueOf(c).Elem().Fields() {
		if n, ok := v.Interface().(*int64); ok && n != nil {
			titles, values = append(titles, f.Tag.Get("title")), append(values, *n)
		}
	}
	return titles, values
}

func (m *manager) list(k *kind, all []core.Entity, runtimes []core.Runtime) error {
	model := countsOf(k.Kind, "", new(core.Runtime))
	titles, _ := model.columns()
	rows := m.Rows(m.command, strings.ToUpper(k.Word()+"\t"+strings.Join(titles, "\t")))
	for i := range all {
		name := all[i].Name
		if _, own, ok := core.SplitSubscription(name); ok {
			name = own
		}
		c := countsOf(k.Kind, name, &runtimes[i])
		_, values := c.columns()
		rows.Add(c, append([]any{name}, values...)...)
	}
	return rows.Flush()
}

func (m *manager) show(e *core.Entity, rt *core.Runtime) error {
	c := countsOf(e.Kind, e.Name, rt)
	var of struct {
		Damaged int64
		core.Applied
	}
	_ = m.Ask(m.command.Context(), command.AboutEntity(http.MethodGet, api.CountersPath, m.name()), &of) // ignore errors: other brokers do not have this API
	if of.Damaged > 0 {
		c.Damaged = &of.Damaged
	}
	shown := struct {
		counts
		core.Applied
		Settings map[string]any `json:"settings"`
	}{c, of.Applied, maps.Collect(eachSetting(e))}
	return m.Print(m.command, shown, func(w io.Writer) error {
		table := command.NewTable(w)
		table.Row(c.Name, "")
		titles, values := c.columns()
		for i := range titles {
			table.Row(titles[i], values[i])
		}
		for _, a := range [][2]string{{"rate limit", of.RateLimit}, {"circuit breaker", of.CircuitBreaker}, {"dead letters kept for", of.KeepDeadLetters}} {
			if a[1] != "" {
				table.Row(a[0], a[1])
			}
		}
		for name, v := range eachSetting(e) {
			table.Row(name, v)
		}
		return table.Flush()
	})
}

// eachSetting yields the settings that are not empty. For policies it yields only how many there
// are, because policies contain keys.
func eachSetting(e *core.Entity) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for i := range core.AllSettings {
			s := &core.AllSettings[i]
			if !s.Kinds.Has(e.Kind) {
				continue
			}
			of := reflect.ValueOf(s.Of(&e.Settings)).Elem()
			shown := of.Interface()
			switch v := shown.(type) {
			case time.Duration:
				shown = core.FormatDuration(v)
			case []core.AccessRule:
				shown = strconv.Itoa(len(v))
			}
			if k := of.Kind(); (k == reflect.String || k == reflect.Slice) && of.Len() == 0 {
				continue
			}
			if !yield(s.Name, shown) {
				return
			}
		}
	}
}
