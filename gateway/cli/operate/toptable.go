package operate

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func (v *topView) print(out *bytes.Buffer, rows int) error {
	fmt.Fprintf(out, "%s  namespace %s", v.At.UTC().Format(api.InstantLayout), v.Namespace)
	if g := v.Gateway; g != nil {
		fmt.Fprintf(out, "  crosstown %s, up %v", g.Version, v.At.Sub(g.Started).Round(time.Second))
	}
	var clients []string
	total := 0
	for _, protocol := range slices.Sorted(maps.Keys(v.Connections)) {
		clients = append(clients, fmt.Sprintf("%s %d", protocol, v.Connections[protocol]))
		total += v.Connections[protocol]
	}
	fmt.Fprintf(out, "\nconnections %d", total)
	if total > 0 {
		fmt.Fprintf(out, " (%s)", strings.Join(clients, ", "))
	}
	if g := v.Gateway; g != nil {
		fmt.Fprintf(out, "  store %s, %.3g ms", g.Store.Engine, g.Store.LatencyMS)
		if g.Store.Error != "" {
			fmt.Fprintf(out, " (cannot store messages: %s)", g.Store.Error)
		}
		fmt.Fprintf(out, "  memory %s of %s", sizeText(g.Memory.InUse), sizeText(g.Memory.Limit))
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
	fmt.Fprintf(out, "\nmessages %s/s in, %s/s out, %d active, %d dead\n\n", rateText(sum.In), rateText(sum.Out), sum.Active, sum.DeadLetter)
	return v.printEntities(out, rows)
}

func (v *topView) printEntities(out io.Writer, rows int) error {
	if len(v.Entities) == 0 {
		return command.Line(out, "no queues or topics")
	}
	shown := v.Entities
	if rows > 0 && len(shown) > rows {
		shown = shown[:rows]
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "IN/s\tOUT/s\tACTIVE\tLOCKED\tDEAD\tSCHEDULED\tCONSUMERS\t  ENTITY") // Flush returns the error
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
	if err := w.Flush(); err != nil {
		return err
	}
	if n := len(v.Entities) - len(shown); n > 0 {
		return command.Line(out, "and %d more", n)
	}
	return nil
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
