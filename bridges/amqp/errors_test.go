package amqp

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/bridges/internal/link"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
)

func TestEveryCodeHasAnAnswer(t *testing.T) {
	t.Parallel()
	c := &conn{client: client{host: "ns.example"}, Conn: link.Conn{Log: slog.New(slog.DiscardHandler), Refusals: refusals.New().Share()}}
	tail := regexp.MustCompile(` TrackingId:[0-9a-f-]{36}_G0, SystemTracker:ns:Queue:q1, Timestamp:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$`)
	for _, code := range core.Codes() {
		a, ok := answers[code]
		if !ok || a.condition == "" || a.status < 400 || a.status > 599 || a.text == "" {
			t.Errorf("%s: got answer %v", code, a)
		}
		e := c.refusal(nil, fmt.Errorf("call: %w", code), core.Address{Entity: "q1"})
		if e.Condition != a.condition || !tail.MatchString(e.Description) {
			t.Errorf("%s: got %s %q", code, e.Condition, e.Description)
		}
	}
}

func TestRefusalTexts(t *testing.T) {
	t.Parallel()
	c := &conn{client: client{host: "ns.example"}, Conn: link.Conn{Log: slog.New(slog.DiscardHandler), Refusals: refusals.New().Share()}}
	for _, x := range []struct {
		name string
		err  error
		want string
		cond string
	}{
		{"the broker's words", core.Refuse(core.QuotaExceeded, "The queue is full."), "The queue is full. TrackingId:", "amqp:resource-limit-exceeded"},
		{"a missing entity", core.Refuse(core.NotFound, "gone"), "The messaging entity 'sb://ns.example/q1/$DeadLetterQueue' could not be found. TrackingId:", "amqp:not-found"},
		{"a secret", errors.New("dial redis: secret"), internalText + " TrackingId:", "amqp:internal-error"},
		{"a fault in the client's bytes", &wire.Error{Condition: wire.CondDecodeError, Description: "bad"}, "bad TrackingId:", "amqp:decode-error"},
		{"a lost lock", core.LockLost, lockLostText + " Reference:", "com.microsoft:message-lock-lost"},
	} {
		e := c.refusal(nil, x.err, core.Address{Entity: "q1", Sub: core.DeadLetter})
		if !strings.HasPrefix(e.Description, x.want) || string(e.Condition) != x.cond {
			t.Errorf("%s: got %s %q, want %s %q", x.name, e.Condition, e.Description, x.cond, x.want)
		}
	}
}
