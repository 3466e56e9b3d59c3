package remote

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func TestASenderFillsBatchesBySize(t *testing.T) {
	t.Parallel()
	there, c := connected(t)
	s, err := c.Sender(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	sized := func(n int) *core.Message { return &core.Message{Body: core.Body{Bytes: make([]byte, n)}} }
	if s.most >= s.link.MaxMessageSize() {
		t.Fatalf("a batch may have %d bytes, and a message %d", s.most, s.link.MaxMessageSize())
	}
	for i, step := range []struct{ size, sent int }{
		{int(s.most / 2), 0},
		{int(s.most/2) - 200, 0}, // it fits
		{200, 2},                 // it does not
		{int(s.most) + 1000, 3},  // larger than a batch may be, and not than a message
		{1, 4},
	} {
		if err := s.Add(t.Context(), sized(step.size)); err != nil || s.Sent() != step.sent {
			t.Errorf("step %d: %d are sent, want %d: %v", i, s.Sent(), step.sent, err)
		}
	}
	if err := s.Add(t.Context(), sized(int(s.link.MaxMessageSize()))); !errors.Is(err, ErrTooLarge) || s.Sent() != 5 {
		t.Errorf("too large: got %v after %d messages, want %v after 5", err, s.Sent(), ErrTooLarge)
	}
	for range mostBatched + 1 {
		if err := s.Add(t.Context(), sized(0)); err != nil {
			t.Fatal(err)
		}
	}
	if s.Sent() != 5+mostBatched {
		t.Errorf("%d are sent, want a batch of %d and 5", s.Sent(), mostBatched)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(t.Context(), &core.Message{TimeToLive: 60 * 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for from := int64(0); ; {
		page, err := there.Peek(t.Context(), root, core.At("orders"), nil, from, 250)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		n += len(page)
		last := page[len(page)-1]
		if from = last.SequenceNumber + 1; n == 7+mostBatched && last.TimeToLive != 60*24*time.Hour {
			t.Errorf("the last lives for %v, want 60 days", last.TimeToLive)
		}
	}
	if n != 7+mostBatched || s.Sent() != n {
		t.Errorf("%d arrived of %d, want %d", n, s.Sent(), 7+mostBatched)
	}
	s.Close()
	if _, err := c.Sender(t.Context(), "orders"); err != nil {
		t.Errorf("opened again: %v", err)
	}
}

func TestASenderSchedules(t *testing.T) {
	t.Parallel()
	for entity, session := range map[string]string{"orders": "", "sessions": "s"} {
		_, c := connected(t)
		s, err := c.Sender(t.Context(), entity)
		if err != nil {
			t.Fatal(err)
		}
		due := time.UnixMilli(time.Now().Add(time.Hour).UnixMilli()).UTC()
		ms := []*core.Message{inSession("a", session), inSession("b", session)}
		for _, m := range ms {
			m.ScheduledEnqueueTime = due
		}
		numbers, err := s.Schedule(t.Context(), ms)
		if err != nil || !slices.Equal(numbers, []int64{1, 2}) || s.Sent() != 2 {
			t.Errorf("%s: got the numbers %v, want 1 and 2: %v", entity, numbers, err)
		}
		waiting, err := c.Peek(t.Context(), entity, nil, 0, 10)
		if err != nil || len(waiting) != 2 || !waiting[1].ScheduledEnqueueTime.Equal(due) || waiting[1].State != core.Scheduled || waiting[1].SessionID != session {
			t.Errorf("%s: %d wait, %+v: %v", entity, len(waiting), waiting, err)
		}
		if err := c.CancelScheduled(t.Context(), entity, numbers); err != nil {
			t.Error(err)
		}
	}
}
