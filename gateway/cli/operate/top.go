package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
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
	before, pause := (*topView)(nil), time.Duration(0)
	for before == nil || wake.After(ctx, pause) {
		began := time.Now()
		now, err := o.look(ctx)
		if err != nil {
			if before != nil && ctx.Err() != nil {
				return nil
			}
			return err
		}
		if before != nil {
			now.compare(before, topOrders[o.sort])
			if err := o.show(out, now, live); err != nil || o.once {
				return err
			}
		}
		before, pause = now, max(o.interval, 4*time.Since(began))
	}
	return nil
}

func (o *topOptions) look(ctx context.Context) (*topView, error) {
	var status api.Status
	var list api.EntityList
	if err := o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.StatusPath}, &status); err != nil {
		return nil, err
	}
	if err := o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.EntitiesPath}, &list); err != nil {
		return nil, err
	}
	v := &topView{At: list.At, Namespace: status.Namespace, Gateway: status.Gateway, Connections: map[string]int{}, Entities: []topRow{}}
	for _, e := range list.Entities {
		v.Entities = append(v.Entities, topRow{Entity: e})
	}
	if v.Gateway != nil {
		v.Connections = v.Gateway.Connections
		return v, nil
	}
	var all api.ConnectionList
	err := o.Ask(ctx, command.Inquiry{Method: http.MethodGet, Path: api.ConnectionsPath}, &all)
	for i := range all.Connections {
		v.Connections[all.Connections[i].Protocol]++
	}
	return v, err
}

// compare sets the rates since before, and sorts the rows. Messages that left are those that came,
// less the growth of Active and Scheduled. A scheduled message counts as coming twice: when it is
// sent, and when it becomes active.
func (v *topView) compare(before *topView, order func(a, b *topRow) int) {
	was := map[string]*topRow{}
	for i := range before.Entities {
		was[before.Entities[i].Name] = &before.Entities[i]
	}
	seconds := max(v.At.Sub(before.At).Seconds(), 0.001)
	for i := range v.Entities {
		row := &v.Entities[i]
		if a := was[row.Name]; a != nil && row.Enqueued >= a.Enqueued {
			came := row.Enqueued - a.Enqueued
			left := came - (row.Active - a.Active) - max(row.Scheduled-a.Scheduled, 0)
			row.In, row.Out = float64(came)/seconds, float64(max(left, 0))/seconds
		}
	}
	slices.SortStableFunc(v.Entities, func(a, b topRow) int { return cmp.Or(order(&a, &b), cmp.Compare(a.Name, b.Name)) })
}

// clearScreen clears a terminal and moves the cursor to the first line (ECMA-48).
const clearScreen = "\x1b[H\x1b[2J"

func (o *topOptions) show(out io.Writer, v *topView, live bool) error {
	if o.JSON {
		return command.NewEncoder(out).Encode(v)
	}
	text := v.text(o.rows)
	if live {
		text = clearScreen + text
	}
	return command.Line(out, "%s", text)
}

func (v *topView) text(rows int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  namespace %s", v.At.UTC().Format(api.InstantLayout), v.Namespace)
	if g := v.Gateway; g != nil {
		fmt.Fprintf(&b, "  crosstown %s, up %v", g.Version, v.At.Sub(g.Started).Round(time.Second))
	}
	var clients []string
	total := 0
	for _, protocol := range slices.Sorted(maps.Keys(v.Connections)) {
		clients = append(clients, fmt.Sprintf("%s %d", protocol, v.Connections[protocol]))
		total += v.Connections[protocol]
	}
	fmt.Fprintf(&b, "\nconnections %d", total)
	if total > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(clients, ", "))
	}
	if g := v.Gateway; g != nil {
		fmt.Fprintf(&b, "  store %s, %.3g ms", g.Store.Engine, g.Store.LatencyMS)
		if g.Store.Error != "" {
			fmt.Fprintf(&b, " (cannot store messages: %s)", g.Store.Error)
		}
		fmt.Fprintf(&b, "  memory %s of %s", sizeText(g.Memory.InUse), sizeText(g.Memory.Limit))
	}
	var sum topRow
	for i := range v.Entities {
		e := &v.Entities[i]
		if e.Kind != "subscription" {
			sum.In += e.In
		}
		if e.Kind == "queue" {
			sum.Out += e.Out
		}
		if e.Kind != "topic" {
			sum.Active += e.Active
			sum.DeadLetter += e.DeadLetter
		}
	}
	fmt.Fprintf(&b, "\nmessages %s/s in, %s/s out, %d active, %d dead\n\n", rateText(sum.In), rateText(sum.Out), sum.Active, sum.DeadLetter)
	if len(v.Entities) == 0 {
		return b.String() + "no queues or topics\n"
	}
	shown := v.Entities
	if rows > 0 {
		shown = shown[:min(rows, len(shown))]
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "IN/s\tOUT/s\tACTIVE\tLOCKED\tDEAD\tSCHEDULED\tCONSUMERS\t  ENTITY") // a Builder accepts everything
	for i := range shown {
		e := &shown[i]
		name := e.Name
		if e.Kind == "topic" {
			name += " (topic)"
		}
		if e.Status != "Active" {
			name += " (" + e.Status + ")"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t  %s\n", rateText(e.In), rateText(e.Out), e.Active, e.Locked, e.DeadLetter, e.Scheduled, e.Consumers, name)
	}
	_ = w.Flush()
	if n := len(v.Entities) - len(shown); n > 0 {
		fmt.Fprintf(&b, "and %d more\n", n)
	}
	return b.String()
}

func rateText(n float64) string {
	if n > 0 && n < 10 {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

func sizeText(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
