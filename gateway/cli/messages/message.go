package messages

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/bridges/remote"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

// printMessage prints a. If received is true, it counts this delivery in the delivery count.
func printMessage(out io.Writer, asJSON bool, entity string, a amqp.Arrival, received bool) error {
	counts := fmt.Sprintf("  failed deliveries: %d", a.DeliveryCount)
	if received {
		a.DeliveryCount++
		counts = fmt.Sprintf("  delivery %d", a.DeliveryCount)
	}
	if asJSON {
		return command.NewEncoder(out).Encode(shownLine(entity, a))
	}
	if a.DeliveryCount == 0 || received && a.DeliveryCount == 1 {
		counts = ""
	}
	_, err := io.WriteString(out, textOf(&a, counts, command.IsTerminal(out)))
	return err
}

func printReceived(out io.Writer, asJSON bool, ts []remote.Taken) error {
	for i := range ts {
		if err := printMessage(out, asJSON, "", ts[i].Arrival, true); err != nil {
			return err
		}
	}
	return nil
}

func textOf(a *amqp.Arrival, counts string, terminal bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d  %s  %s", a.SequenceNumber, a.MessageID, stateWords[a.State])
	if !a.EnqueuedTime.IsZero() {
		fmt.Fprintf(&b, "  %s", a.EnqueuedTime.UTC().Format(time.RFC3339))
	}
	b.WriteString(counts)
	b.WriteByte('\n')
	for _, f := range []struct {
		name, text string
		field      core.TextFields
	}{
		{"subject", a.Subject, core.FieldSubject},
		{"content type", a.ContentType, core.FieldContentType},
		{"correlation id", a.CorrelationID.String(), 0},
		{"session", a.SessionID, core.FieldSessionID},
		{"partition key", a.PartitionKey, core.FieldPartitionKey},
		{"to", a.To, core.FieldTo},
		{"reply to", a.ReplyTo, core.FieldReplyTo},
		{"reply to session", a.ReplyToSessionID, core.FieldReplyToSessionID},
		{"dead-letter reason", reasonOf(a), 0},
		{"dead-letter description", propertyOf(a, core.PropertyDeadLetterDescription), 0},
		{"dead-letter source", a.DeadLetterSource, 0},
	} {
		if a.Has(f.field, f.text) {
			fmt.Fprintf(&b, "  %s: %s\n", f.name, cmp.Or(f.text, `""`))
		}
	}
	properties := maps.Collect(a.Properties.All())
	for _, k := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&b, "  %s = %s\n", k, typedText(properties[k]))
	}
	content := contentOf(a)
	body, encoding := record.BodyText(content)
	if terminal && (encoding != "" || strings.ContainsFunc(body, isControl)) {
		body = hex.Dump(content[:min(len(content), dumped)]) + fmt.Sprintf("  (%d bytes, not text; --json prints all)", len(content))
	}
	b.WriteString(body)
	if !strings.HasSuffix(body, "\n") {
		b.WriteByte('\n')
	}
	return b.String()
}

const dumped = 256

func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }

func contentOf(a *amqp.Arrival) []byte {
	if payload, ok := a.Body.Payload(); ok {
		return payload
	}
	v, err := a.Body.Value()
	if err != nil {
		return a.Body.Bytes
	}
	return []byte(value.Text(v))
}

func typedText(v any) string {
	if d, ok := v.(value.Described); ok {
		return fmt.Sprintf("%s (%s)", propertyText(v), value.Text(d.Descriptor))
	}
	encoded, err := value.Append(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%s (%s)", propertyText(v), value.KindOf(encoded))
}

type column struct {
	title string
	of    func(*amqp.Arrival) string
}

var (
	numberColumn   = column{"NUMBER", func(a *amqp.Arrival) string { return fmt.Sprint(a.SequenceNumber) }}
	idColumn       = column{"MESSAGE ID", func(a *amqp.Arrival) string { return preview(a.MessageID.String(), 36) }}
	sessionColumn  = column{"SESSION", func(a *amqp.Arrival) string { return preview(a.SessionID, 36) }}
	reasonColumn   = column{"REASON", func(a *amqp.Arrival) string { return preview(reasonOf(a), 40) }}
	enqueuedColumn = column{"ENQUEUED", func(a *amqp.Arrival) string { return shownTime(a.EnqueuedTime) }}
	dueColumn      = column{"DUE", func(a *amqp.Arrival) string { return shownTime(a.ScheduledEnqueueTime) }}
	bodyColumn     = column{"BODY", func(a *amqp.Arrival) string { return bodyPreview(&a.Body) }}
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

// tableRows is how many rows are printed together, with columns as wide as these rows require.
const tableRows = 1000

func (o *chosen) list(c *cobra.Command, b *browser, columns ...column) error {
	var titles []any
	for _, column := range columns {
		titles = append(titles, column.title)
	}
	rows, listed := o.Rows(c, titles...), 0
	more, err := b.find(c.Context(), func(a *amqp.Arrival) error {
		var cells []any
		for _, column := range columns {
			cells = append(cells, cmp.Or(column.of(a), "-"))
		}
		rows.Add(shownLine(b.entity, *a), cells...)
		if listed++; listed%tableRows == 0 {
			return rows.Flush()
		}
		return nil
	})
	if err == nil && listed == 0 {
		return b.none(c.Context())
	}
	if more {
		_, _ = fmt.Fprintf(c.ErrOrStderr(), "there are more than %s: --count 0 lists all\n", command.Messages(listed))
	}
	return errors.Join(err, rows.Flush())
}

func lineOf(entity string, a amqp.Arrival) record.Line {
	if a.TimeToLive > 0 && a.TimeToLive < core.Forever {
		a.ExpiresAt = a.EnqueuedTime.Add(a.TimeToLive)
		if a.CreationTime.Equal(a.EnqueuedTime) { // the gateway computed these two times; the sender did not set them
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

// shownLine returns the JSON line for a message. For dead letters it includes the reason.
func shownLine(entity string, a amqp.Arrival) *record.Line {
	line := lineOf(entity, a)
	line.DeadLetterReason, line.DeadLetterText, line.DeadLetterSource = reasonOf(&a), propertyOf(&a, core.PropertyDeadLetterDescription), a.DeadLetterSource
	return &line
}
