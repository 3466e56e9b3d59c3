package main

import (
	"fmt"
	"os"
	"strings"
)

// markdown writes the tables of all groups.
func (r record) markdown() string {
	var b strings.Builder
	for _, name := range groups {
		if g := r[name]; g != nil {
			b.WriteString(g.markdown(name))
		}
	}
	return b.String()
}

// markdown writes the tables of a group, one for each scenario.
func (g *group) markdown(name string) string {
	var b strings.Builder
	b.WriteString(g.about())
	if name == scaleGroup {
		b.WriteString("\nThe broker's CPU time per message, µs, in brackets the ratio to NATS; 1 KiB. " +
			"The columns of queues have 100 senders and 100 receivers, those of partitions 4 and 4, and 1,000 connections are 1,000 senders and 1,000 receivers on 100 queues: compare figures within a group only.\n\n" + g.overview(growth))
	}
	for _, sc := range scenarios {
		if sc.group != name || g.Cells[sc.name] == nil {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n", sc.title)
		head, rule := "| |", "|---|"
		for _, m := range sc.metrics {
			head, rule = head+" "+m.title+" |", rule+"--:|"
			if g.compares(sc, m) {
				head, rule = head+" ÷ NATS |", rule+"--:|"
			}
		}
		b.WriteString(head + "\n" + rule + "\n")
		for _, s := range g.Systems {
			if g.Cells[sc.name][s.Name] != nil {
				b.WriteString(g.row(sc, s))
			}
		}
	}
	for _, p := range g.Problems {
		fmt.Fprintf(&b, "\n- Not counted: %s.", p)
	}
	if len(g.Problems) > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// about says what was run, where and when.
func (g *group) about() string {
	_, has := cutOff(g.Rounds)
	var versions, skipped string
	for _, s := range g.Systems {
		version := s.Version
		if rest, ok := strings.CutPrefix(version, g.Systems[0].Version+", "); ok {
			version = rest
		}
		if version != "" && !strings.Contains(versions, version+";") {
			versions += " " + version + ";"
		}
		if s.Skipped != "" {
			skipped += fmt.Sprintf(" Not measured: %s (%s).", s.Title, s.Skipped)
		}
	}
	settle := "Receivers accept without waiting for the broker's confirmation."
	if g.Settle != "first" {
		settle = "Receivers wait until the broker confirms that it has accepted."
	}
	runs := "Each value is from a single run."
	if g.Rounds > 1 {
		runs = fmt.Sprintf("Medians of %d rounds; in brackets the interval that holds the median with %.0f %% confidence.", g.Rounds, 100*has)
	}
	return fmt.Sprintf("Measured on %s, on %s; load average at the start %s. %s %s Versions:%s.%s\n",
		g.Measured, g.Machine, g.Load, runs, settle, strings.TrimSuffix(versions, ";"), skipped)
}

// compares tells whether a metric has a column with ratios.
func (g *group) compares(sc *scenario, m *metric) bool {
	return m.ratio && g.Cells[sc.name][baseline] != nil
}

// row writes a system's figures of a scenario.
func (g *group) row(sc *scenario, s *subject) string {
	var line strings.Builder
	line.WriteString("| " + s.Title + " |")
	for _, m := range sc.metrics {
		values := g.values(sc.name, s.Name, m.key)
		line.WriteString(" " + interval(estimateOf(known(values))) + " |")
		switch {
		case !g.compares(sc, m):
		case s.Name == baseline:
			line.WriteString(" 1 |")
		default:
			line.WriteString(" " + interval(estimateOf(ratios(values, g.values(sc.name, baseline, m.key)))) + " |")
		}
	}
	return line.String() + "\n"
}

func known(values []*float64) []float64 {
	var all []float64
	for _, v := range values {
		if v != nil {
			all = append(all, *v)
		}
	}
	return all
}

// interval writes an estimate.
func interval(e estimate) string {
	switch e.n {
	case 0:
		return "–"
	case 1:
		return figure(e.median)
	}
	return fmt.Sprintf("%s (%s–%s)", figure(e.median), figure(e.low), figure(e.high))
}

// column is a metric of a scenario, in a table that has several.
type column struct {
	title, scenario string
	metric          *metric
}

// headlines are the columns of the README's table.
var headlines = []column{
	{"CPU µs: 1 KiB, 4 senders, 4 receivers", "1k-4x4", cpu},
	{"CPU µs: 1 KiB, 16 senders, 16 receivers", "1k-16x16", cpu},
	{"CPU µs: 64 KiB, 4 senders, 4 receivers", "64k-4x4", cpu},
	{"CPU µs: 2,000 messages/s", "paced-2000", cpu},
	{"latency ms: a single message", "lone", p50},
	{"messages/s: drain a full queue", "fill-drain", drain},
}

// growth are the columns of the table that begins the scale group.
var growth = []column{
	{"1 queue", "queues-1", cpu},
	{"10 queues", "queues-10", cpu},
	{"100 queues", "queues-100", cpu},
	{"1,000 connections", "connections-1000", cpu},
	{"1 partition", "partitions-1", cpu},
	{"4 partitions", "partitions-4", cpu},
	{"16 partitions", "partitions-16", cpu},
}

// overview writes a table of several scenarios: medians, each with its ratio to NATS.
func (g *group) overview(columns []column) string {
	var b strings.Builder
	b.WriteString("| broker |")
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(columns)) + "\n")
	for _, s := range g.Systems {
		if s.Skipped != "" {
			continue
		}
		b.WriteString("| " + s.Title + " |")
		for _, c := range columns {
			values := g.values(c.scenario, s.Name, c.metric.key)
			text := figure(estimateOf(known(values)).median)
			if r := ratios(values, g.values(c.scenario, baseline, c.metric.key)); len(r) > 0 {
				text += " (" + figure(estimateOf(r).median) + ")"
			}
			b.WriteString(" " + text + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// summary writes the README's table.
func (g *group) summary() string {
	var b strings.Builder
	b.WriteString(g.overview(headlines))
	fmt.Fprintf(&b, "\nThe columns show the broker's CPU time per message (with that of its Redis), the median latency of a single message, and the rate at which receivers drain a full queue. The values are medians of one run of %d rounds on %s, with %s. The ratio to NATS with its default settings is in brackets. With these settings NATS acknowledges a message before it is on the disk, and so does Redis everysec. [Performance](docs/performance.md) contains the intervals, the rates, the client's work and the method.\n",
		g.Rounds, g.Measured, g.Machine)
	return b.String()
}

// writeTables writes the tables into the pages, between their markers.
func (r record) writeTables(o *options) error {
	for _, name := range groups {
		if g := r[name]; g != nil {
			if err := replace(o.performance, name, g.markdown(name)); err != nil {
				return err
			}
		}
	}
	if g := r[peersGroup]; g != nil {
		return replace(o.readme, "performance", g.summary())
	}
	return nil
}

// replace writes a text between the markers of a name.
func replace(path, name, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begins, ends := "<!-- "+name+" begins -->\n", "<!-- "+name+" ends -->\n"
	before, rest, found := strings.Cut(string(page), begins)
	_, after, closed := strings.Cut(rest, ends)
	if !found || !closed {
		return fmt.Errorf("%s has no place for the table: %s%s", path, begins, ends)
	}
	return os.WriteFile(path, []byte(before+begins+text+ends+after), 0o644)
}
