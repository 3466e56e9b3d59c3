package crosstowntest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	lookPause = 2 * time.Millisecond
	// maxShown bounds the messages in the text of a failure, and maxText the characters of a body.
	maxShown = 20
	maxText  = 80
)

// ExpectMessages waits until an entity's messages have exactly these bodies, in this order. The
// messages may be in any state, and stay there. The entity is a queue, topic/Subscriptions/name, or
// a sub-queue such as orders/$DeadLetterQueue. After b.Patience, the test fails.
func (b *Bus) ExpectMessages(entity string, bodies ...string) {
	b.tb.Helper()
	b.expect(entity, fmt.Sprintf("messages %q", bodies), func(ds []core.Delivery) bool {
		return slices.EqualFunc(ds, bodies, func(d core.Delivery, body string) bool { return string(d.Body.Bytes) == body })
	})
}

// ExpectEmpty waits until an entity contains no message in any state.
func (b *Bus) ExpectEmpty(entity string) {
	b.tb.Helper()
	b.expect(entity, "no message", func(ds []core.Delivery) bool { return len(ds) == 0 })
}

// Bodies returns the bodies of an entity's messages in any state, in order, without removing them.
func (b *Bus) Bodies(entity string) []string {
	b.tb.Helper()
	ds, err := b.messages(entity)
	if err != nil {
		b.tb.Fatalf("crosstowntest: cannot peek at the messages of '%s': %s", entity, core.TextOf(err))
	}
	bodies := make([]string, len(ds))
	for i, d := range ds {
		bodies[i] = string(d.Body.Bytes)
	}
	return bodies
}

// ExpectDeadLetters waits until the messages in the dead-letter queue of an entity have exactly
// these reasons, in this order.
func (b *Bus) ExpectDeadLetters(entity string, reasons ...string) {
	b.tb.Helper()
	b.expect(entity+core.DeadLetter.Suffix(), fmt.Sprintf("dead letters with the reasons %q", reasons), func(ds []core.Delivery) bool {
		return slices.EqualFunc(ds, reasons, func(d core.Delivery, reason string) bool { return reasonOf(&d) == reason })
	})
}

func (b *Bus) expect(entity, wanted string, holds func([]core.Delivery) bool) {
	b.tb.Helper()
	ctx, cancel := context.WithTimeout(b.tb.Context(), b.patience())
	defer cancel()
	for {
		ds, err := b.messages(entity)
		switch {
		case err != nil:
			b.tb.Fatalf("crosstowntest: cannot peek at the messages of '%s': %s", entity, core.TextOf(err))
		case holds(ds):
			return
		}
		if !wake.After(ctx, lookPause) {
			b.tb.Fatalf("'%s' should hold %s; it holds %s", entity, wanted, shown(ds))
		}
	}
}

func (b *Bus) messages(entity string) (all []core.Delivery, err error) {
	ctx := b.tb.Context()
	for from := int64(1); ; {
		ds, err := b.gateway.broker.Peek(ctx, b.identity, core.At(entity), nil, from, 256)
		if err != nil || len(ds) == 0 {
			return all, err
		}
		all = append(all, ds...)
		from = ds[len(ds)-1].SequenceNumber + 1
	}
}

func shown(ds []core.Delivery) string {
	if len(ds) == 0 {
		return "none"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d:", len(ds))
	for i := range ds {
		if i == maxShown {
			fmt.Fprintf(&text, "\n  … and %d more", len(ds)-i)
			break
		}
		d := &ds[i]
		body := string(d.Body.Bytes)
		if len(body) > maxText {
			body = body[:maxText] + "…"
		}
		fmt.Fprintf(&text, "\n  number %d, %s, delivered %d times: %q", d.SequenceNumber, stateOf(d), d.DeliveryCount, body)
		if reason := reasonOf(d); reason != "" {
			fmt.Fprintf(&text, ", dead-lettered because of %q", reason)
		}
	}
	return text.String()
}

func stateOf(d *core.Delivery) string {
	switch {
	case d.State == core.Scheduled:
		return "scheduled for " + d.ScheduledEnqueueTime.Format(time.RFC3339Nano)
	case !d.LockedUntil.IsZero():
		return "locked until " + d.LockedUntil.Format(time.RFC3339Nano)
	case d.State == core.Deferred:
		return "deferred"
	default:
		return "ready"
	}
}

func reasonOf(d *core.Delivery) string {
	reason, _ := d.Properties.Get(core.PropertyDeadLetterReason)
	text, _ := reason.(string)
	return text
}
