package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// view is a message as one protocol shows it.
type view []field

type field struct{ name, value string }

func viewOf(m *azservicebus.ReceivedMessage) view {
	v := view{{"Body", string(m.Body)}, {"ContentType", text(m.ContentType)}, {"MessageID", m.MessageID}, {"Subject", text(m.Subject)}}
	if m.TimeToLive != nil {
		v = append(v, field{"TimeToLive", m.TimeToLive.String()})
	}
	return append(v, properties(m.ApplicationProperties)...)
}

func viewOfSent(m *azservicebus.Message) view {
	v := view{{"Body", string(m.Body)}, {"ContentType", text(m.ContentType)}, {"MessageID", text(m.MessageID)}, {"Subject", text(m.Subject)}}
	return append(v, properties(m.ApplicationProperties)...)
}

func properties(all map[string]any) (v view) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name]
		if at, ok := value.(time.Time); ok {
			value = at.UTC().Format(time.RFC3339)
		}
		v = append(v, field{name, fmt.Sprintf("%T %v", all[name], value)})
	}
	return v
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// columnWidth bounds the left column, so that long values do not move the right one.
const columnWidth = 62

func sideBySide(out io.Writer, leftTitle string, left view, rightTitle string, right view) {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintf(table, "\n%s\t│\t%s\n%s\t┼\t%s\n", leftTitle, rightTitle, strings.Repeat("─", columnWidth), strings.Repeat("─", columnWidth))
	l, r := left.lines(), right.lines()
	for i := range max(len(l), len(r)) {
		_, _ = fmt.Fprintf(table, "%s\t│\t%s\n", at(l, i), at(r, i))
	}
	_ = table.Flush()
}

// lines splits long values into several lines.
func (v view) lines() (all []string) {
	for _, f := range v {
		line := fmt.Sprintf("%s: %s", f.name, f.value)
		for len(line) > columnWidth {
			cut := strings.LastIndexByte(line[:columnWidth], ',') + 1
			if cut <= 1 {
				cut = columnWidth
			}
			all, line = append(all, line[:cut]), "    "+line[cut:]
		}
		all = append(all, line)
	}
	return all
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
