package operate

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

type topRow struct {
	api.Entity
	In  float64 `json:"in"` // messages per second since the last refresh
	Out float64 `json:"out"`
}

type topView struct {
	At          time.Time      `json:"at"`
	Namespace   string         `json:"namespace"`
	Gateway     *api.Gateway   `json:"gateway,omitempty"`
	Connections map[string]int `json:"connections"` // by protocol
	Entities    []topRow       `json:"entities"`
}

var topOrders = map[string]func(a, b *topRow) int{
	"in":        func(a, b *topRow) int { return cmp.Compare(b.In, a.In) },
	"out":       func(a, b *topRow) int { return cmp.Compare(b.Out, a.Out) },
	"active":    func(a, b *topRow) int { return cmp.Compare(b.Active, a.Active) },
	"locked":    func(a, b *topRow) int { return cmp.Compare(b.Locked, a.Locked) },
	"dead":      func(a, b *topRow) int { return cmp.Compare(b.DeadLetter, a.DeadLetter) },
	"scheduled": func(a, b *topRow) int { return cmp.Compare(b.Scheduled, a.Scheduled) },
	"consumers": func(a, b *topRow) int { return cmp.Compare(b.Consumers, a.Consumers) },
	"name":      func(*topRow, *topRow) int { return 0 },
}

const (
	leastInterval = 100 * time.Millisecond
	liveRows      = 20
)

type topOptions struct {
	command.Flags
	once     bool
	interval time.Duration
	sort     string
	rows     int
}

func Top(environ []string) *cobra.Command {
	var o topOptions
	orders := strings.Join(slices.Sorted(maps.Keys(topOrders)), ", ")
	c := &cobra.Command{
		Use: "top", Short: "Watch entities, connections and the store's latency in a live table", Args: cobra.NoArgs,
		Long: `Watch entities, connections and the store's latency in a live table.

IN/s and OUT/s are messages per second since the last refresh. With --once the command reads
the counts twice, an interval apart, and prints one table. Ctrl-C ends the command. If
standard output is not a terminal, each refresh prints a new table, or one line with --json.

The command needs Manage on the namespace. With Manage on the gateway's own namespace, it also
shows the version, memory and the store's latency. At each refresh the gateway counts all
entities of the namespace. After a slow refresh the command pauses longer.`,
		Example: `  crosstown top
  crosstown top --sort dead --interval 5s
  crosstown top --once --json | jq '.entities[] | select(.active > 1000) | .name'`,
	}
	o.Bind(c, environ)
	f := c.Flags()
	f.BoolVar(&o.once, "once", false, "print one table and end")
	f.DurationVar(&o.interval, "interval", 2*time.Second, "`time` between two refreshes")
	f.StringVar(&o.sort, "sort", "in", "`column` to sort by: "+orders)
	f.IntVar(&o.rows, "rows", 0, "show at most `N` entities; 0: 20 on a terminal, otherwise all")
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case topOrders[o.sort] == nil:
			return command.Usagef("--sort is %.40q: it must be one of %s", o.sort, orders)
		case o.interval < leastInterval:
			return command.Usagef("--interval is %v: it must be at least %v", o.interval, leastInterval)
		case o.rows < 0:
			return command.Usagef("--rows is %d: it must not be negative", o.rows)
		}
		return o.watch(c.Context(), c.OutOrStdout())
	}
	return c
}

func (o *topOptions) watch(ctx context.Context, out io.Writer) error {
	live := !o.once && !o.JSON && command.IsTerminal(out) && runtime.GOOS != "windows" // Windows consoles may print clearScreen as text
	if live && o.rows == 0 {
		o.rows = liveRows
	}
	before, took, err := o.look(ctx)
	if err != nil {
		return err
	}
	for wake.After(ctx, max(o.interval, 4*took)) {
		now, duration, err := o.look(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		took = duration
		if err := o.show(out, o.view(before, now), live); err != nil || o.once {
			return err
		}
		before = now
	}
	return nil
}

type topLook struct {
	status      api.Status
	list        api.EntityList
	connections map[string]int
}

func (o *topOptions) look(ctx context.Context) (*topLook, time.Duration, error) {
	var l topLook
	began := time.Now()
	if err := o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.StatusPath}, &l.status); err != nil {
		return nil, 0, err
	}
	if err := o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.EntitiesPath}, &l.list); err != nil {
		return nil, 0, err
	}
	if l.status.Gateway != nil {
		l.connections = l.status.Gateway.Connections
		return &l, time.Since(began), nil
	}
	var all api.ConnectionList
	if err := o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.ConnectionsPath}, &all); err != nil {
		return nil, 0, err
	}
	l.connections = map[string]int{}
	for i := range all.Connections {
		l.connections[all.Connections[i].Protocol]++
	}
	return &l, time.Since(began), nil
}

// view compares two looks. The messages that left are those that came, less the growth of Active
// and Scheduled. A scheduled message comes when it is sent, and again when it becomes active.
func (o *topOptions) view(before, now *topLook) *topView {
	v := &topView{At: now.list.At, Namespace: now.status.Namespace, Gateway: now.status.Gateway, Connections: now.connections, Entities: []topRow{}}
	was := map[string]*api.Entity{}
	for i := range before.list.Entities {
		was[before.list.Entities[i].Name] = &before.list.Entities[i]
	}
	seconds := max(now.list.At.Sub(before.list.At).Seconds(), 0.001)
	for i := range now.list.Entities {
		row := topRow{Entity: now.list.Entities[i]}
		if a := was[row.Name]; a != nil && row.Enqueued >= a.Enqueued {
			came := row.Enqueued - a.Enqueued
			left := came - (row.Active - a.Active) - max(row.Scheduled-a.Scheduled, 0)
			row.In, row.Out = float64(came)/seconds, float64(max(left, 0))/seconds
		}
		v.Entities = append(v.Entities, row)
	}
	order := topOrders[o.sort]
	slices.SortStableFunc(v.Entities, func(a, b topRow) int { return cmp.Or(order(&a, &b), cmp.Compare(a.Name, b.Name)) })
	return v
}

// clearScreen clears a terminal and moves to the first line (ECMA-48).
const clearScreen = "\x1b[H\x1b[2J"

func (o *topOptions) show(out io.Writer, v *topView, live bool) error {
	if o.JSON {
		return command.NewEncoder(out).Encode(v)
	}
	var text bytes.Buffer
	if live {
		text.WriteString(clearScreen)
	}
	if err := v.print(&text, o.rows); err != nil {
		return err
	}
	return command.Line(out, "%s", text.Bytes())
}
