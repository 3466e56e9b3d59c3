package messages

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

type column struct {
	title string
	of    func(*amqp.Arrival) string
}

var (
	numberColumn   = column{"number", func(a *amqp.Arrival) string { return fmt.Sprint(a.SequenceNumber) }}
	idColumn       = column{"message id", func(a *amqp.Arrival) string { return preview(a.MessageID.String(), 36) }}
	sessionColumn  = column{"session", func(a *amqp.Arrival) string { return preview(a.SessionID, 36) }}
	reasonColumn   = column{"reason", func(a *amqp.Arrival) string { return preview(reasonOf(a), 40) }}
	enqueuedColumn = column{"enqueued", func(a *amqp.Arrival) string { return shownTime(a.EnqueuedTime) }}
	dueColumn      = column{"due", func(a *amqp.Arrival) string { return shownTime(a.ScheduledEnqueueTime) }}
	bodyColumn     = column{"body", func(a *amqp.Arrival) string { return bodyPreview(&a.Body) }}
)

func shownTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

const previewLength = 40

func bodyPreview(b *core.Body) string {
	if b.Kind == core.BodyData && utf8.Valid(b.Bytes) {
		return preview(string(b.Bytes), previewLength)
	}
	return fmt.Sprintf("(%d bytes)", len(b.Bytes))
}

func preview(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text[:min(len(text), 4*most)])
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

type table struct {
	command.Table
	out     io.Writer
	entity  string
	json    bool
	columns []column
	rows    int
}

// tableRows is how many rows are printed together: the columns are as wide as these rows need.
const tableRows = 1000

func newTable(out io.Writer, asJSON bool, entity string, columns ...column) *table {
	return &table{command.NewTable(out), out, entity, asJSON, columns, 0}
}

func (t *table) add(a *amqp.Arrival) error {
	if t.rows++; t.json {
		return printMessage(t.out, true, t.entity, *a, false)
	}
	titles, cells := make([]any, len(t.columns)), make([]any, len(t.columns))
	for i, c := range t.columns {
		titles[i], cells[i] = strings.ToUpper(c.title), cmp.Or(c.of(a), "-")
	}
	if t.rows == 1 {
		t.Row(titles...)
	}
	if t.Row(cells...); t.rows%tableRows == 0 {
		return t.Flush()
	}
	return nil
}

func lineOf(entity string, a amqp.Arrival) record.Line {
	if a.TimeToLive > 0 && a.TimeToLive < core.Forever {
		a.ExpiresAt = a.EnqueuedTime.Add(a.TimeToLive)
		if a.CreationTime.Equal(a.EnqueuedTime) { // the gateway adds both times for clients
			m := *a.Message
			m.CreationTime, m.AbsoluteExpiryTime = time.Time{}, time.Time{}
			a.Message = &m
		}
	}
	if a.DeadLetterSource != "" {
		m := *a.Message
		m.Transit = &core.Transit{DeadLetterSource: a.DeadLetterSource}
		a.Message = &m
	}
	return record.Of(&core.Stored{Kind: core.StoredMessage, Delivery: core.Delivery{Message: a.Message, BrokerProperties: a.BrokerProperties}}, entity)
}
