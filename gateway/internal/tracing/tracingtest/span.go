// Package tracingtest receives OpenTelemetry's spans in tests, and draws them as trees.
package tracingtest

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

type Span struct {
	Name              string
	Trace, ID, Parent string // Parent is "" for a root
	Links             []string
	Attributes        map[string]any
	Resource          map[string]any
	Error             string
	Began, Ended      time.Time
}

// Tree draws the descendants of a span, which need not be among spans: one line per span, with a
// tab for each level, and siblings sorted by name.
func Tree(spans []Span, id string) string {
	var b strings.Builder
	draw(&b, spans, id, 0)
	return b.String()
}

func draw(b *strings.Builder, spans []Span, id string, depth int) {
	var below []Span
	for _, s := range spans {
		if s.Parent == id {
			below = append(below, s)
		}
	}
	slices.SortStableFunc(below, func(x, y Span) int { return cmp.Compare(x.Name, y.Name) })
	for _, s := range below {
		b.WriteString(strings.Repeat("\t", depth) + s.Name)
		if s.Error != "" {
			b.WriteString(" ERROR")
		}
		b.WriteByte('\n')
		draw(b, spans, s.ID, depth+1)
	}
}

func Of(spans []Span, trace string) []Span {
	return slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Trace != trace })
}

func Named(spans []Span, name string) []Span {
	return slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Name != name })
}
