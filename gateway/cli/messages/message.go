package messages

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

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
