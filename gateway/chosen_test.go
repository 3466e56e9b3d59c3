package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// chosen asks the gateway to do something with chosen messages.
func (a *asks) chosen(entity string, r api.MoveRequest) (moved api.Moved) {
	a.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		a.Fatal(err)
	}
	status, text := a.do("POST", api.MessagesPath+entity, string(body))
	if err := json.Unmarshal([]byte(text), &moved); err != nil || status != 200 {
		a.Fatalf("%s %s: got %d %s", entity, body, status, text)
	}
	return moved
}

// told is an answer in short: how many were moved, then absent and refused numbers.
func told(m api.Moved) string {
	var refused []int64
	for _, r := range m.Refused {
		refused = append(refused, r.Number)
	}
	return fmt.Sprint(m.Moved, m.Absent, refused)
}

// sessionOf receives what a session has, and returns the bodies with their delivery counts.
func (g *gateway) sessionOf(t *testing.T, queue, session string, n int) string {
	t.Helper()
	r, err := g.sdk(t).AcceptSessionForQueue(t.Context(), queue, session, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(context.Background()) }()
	var got []string
	for len(got) < n {
		ms, err := r.ReceiveMessages(t.Context(), n-len(got), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			got = append(got, fmt.Sprintf("%s/%d", m.Body, m.DeliveryCount))
			if err := r.CompleteMessage(t.Context(), m, nil); err != nil {
				t.Error(err)
			}
		}
	}
	return strings.Join(got, " ")
}

func TestChosenMessagesOfSessionsAreMovedDeadLetteredAndDeleted(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, g *gateway) {
		a := &asks{T: t, g: g, policy: config.DevPolicy, key: config.DevKey}
		var lines strings.Builder
		for i := range 20 {
			fmt.Fprintf(&lines, "%d\n", 2*i+1)
		}
		g.command(t, lines.String(), "send", "replies", "--session", "a") // 1 to 20
		g.command(t, "x\ny\nz\n", "send", "replies", "--session", "b")    // 21 to 23
		g.deferOne(t, "replies", "c")                                     // 24
		g.command(t, "", "send", "replies", "later", "--session", "c", "--schedule", "1h")
		held, err := g.sdk(t).AcceptSessionForQueue(t.Context(), "replies", "B", nil)
		if err != nil {
			t.Fatal(err)
		}

		// More than are under lock at once, with one twice; those of the held session stay.
		all := []int64{22, 99, 24, 25, 2}
		for n := range int64(18) {
			all = append(all, n+2)
		}
		got := a.chosen("replies", api.MoveRequest{Numbers: all, DeadLetter: &api.DeadLetter{Reason: "Wrong", Description: "an operator chose it"}})
		if want := "18 [24 25 99] [22]"; told(got) != want {
			t.Fatalf("got %s, want %s", told(got), want)
		}
		if why := got.Refused[0].Error; !strings.Contains(why, "'b'") || !strings.Contains(why, "close that receiver or wait until the session's lock expires") {
			t.Errorf("refused: %s", why)
		}
		g.exits(t, exitOK, []string{"deadletter", "list", "replies", "--reason", "Wrong", "--json", "--count", "1"}, `"DeadLetterErrorDescription":"an operator chose it"`, `"body":"3"`)
		if err := held.Close(t.Context()); err != nil {
			t.Fatal(err)
		}

		// Nothing was delivered to the holder, which has gone; the others are where they were.
		if got := told(a.chosen("replies", api.MoveRequest{Numbers: []int64{22}})); got != "1 [] []" {
			t.Errorf("delete: got %s", got)
		}
		if got := told(a.chosen("replies", api.MoveRequest{Numbers: []int64{23}, To: "archive"})); got != "1 [] []" {
			t.Errorf("move: got %s", got)
		}
		if got := bodies(g.exits(t, exitOK, []string{"receive", "archive"})); got != "z" {
			t.Errorf("moved: got %q", got)
		}
		for session, want := range map[string]string{"a": "1/1 39/1", "b": "x/1"} {
			if got := g.sessionOf(t, "replies", session, len(strings.Fields(want))); got != want {
				t.Errorf("session %s: got %s, want %s", session, got, want)
			}
		}

		// One that the target does not take is back in its place.
		g.command(t, "", "queue", "create", "large", "--requires-session", "--max-message-size-in-kilobytes=1024")
		for _, body := range []string{"1", strings.Repeat("2", 300<<10), "3"} {
			g.command(t, body, "send", "large", "--session", "a")
		}
		if got := told(a.chosen("large", api.MoveRequest{Numbers: []int64{2, 3}, To: "parts"})); got != "1 [] [2]" {
			t.Errorf("one that is too large: got %s", got)
		}
		if got := g.sessionOf(t, "large", "a", 2); !strings.HasPrefix(got, "1/1 222") || !strings.HasSuffix(got, "2/1") {
			t.Errorf("the others: got %.20s", got)
		}

		// A partitioned queue, and a subscription.
		g.command(t, "", "queue", "create", "steps", "--requires-session", "--enable-partitioning")
		g.command(t, "", "subscription", "create", "events", "steps", "--requires-session")
		for n := range 4 {
			for _, entity := range []string{"steps", "events"} {
				g.command(t, fmt.Sprintf("%[1]d\n%[1]d-last\n", n), "send", entity, "--session", fmt.Sprint("s", n))
			}
		}
		for _, entity := range []string{"steps", "events/Subscriptions/steps"} {
			var numbers []int64
			for line := range strings.Lines(g.exits(t, exitOK, []string{"peek", entity, "--count", "9", "--json"})) {
				var m struct {
					SequenceNumber int64
					Body           string
				}
				if err := json.Unmarshal([]byte(line), &m); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(m.Body, "last") {
					numbers = append(numbers, m.SequenceNumber)
				}
			}
			if got := told(a.chosen(entity, api.MoveRequest{Numbers: numbers})); got != "4 [] []" {
				t.Errorf("%s: got %s", entity, got)
			}
			for n := range 4 {
				want := fmt.Sprint(n, "-last")
				if got := bodies(g.exits(t, exitOK, []string{"receive", entity, "--session", fmt.Sprint("s", n)})); got != want {
					t.Errorf("%s, session %d: got %s, want %s", entity, n, got, want)
				}
			}
		}
	})
}

// Receivers take one session after the other while an operator removes messages: each message has one end,
// in order.
func TestReceiversAndAnOperatorShareSessions(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, g *gateway) {
		const total, sessions = 400, 4
		for s := range sessions {
			var lines strings.Builder
			for i := range total / sessions {
				fmt.Fprintln(&lines, i)
			}
			g.command(t, lines.String(), "send", "replies", "--session", fmt.Sprint("s", s))
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var mu sync.Mutex
		ends := map[int64]string{} // by number
		end := func(number int64, how string) {
			mu.Lock()
			defer mu.Unlock()
			if before, twice := ends[number]; twice {
				t.Errorf("message %d is %s, and was %s", number, how, before)
			}
			if ends[number] = how; len(ends) == total {
				cancel()
			}
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				client := g.sdk(t)
				for ctx.Err() == nil {
					if err := g.some(ctx, client, func(m *azservicebus.ReceivedMessage) {
						end(*m.SequenceNumber, "received")
						if m.DeliveryCount != 1 {
							t.Errorf("message %d: delivery %d, want the first", *m.SequenceNumber, m.DeliveryCount)
						}
					}); err != nil && ctx.Err() == nil {
						t.Error(err)
						cancel()
					}
				}
			})
		}
		a := &asks{T: t, g: g, policy: config.DevPolicy, key: config.DevKey}
		for first := int64(1); first < total; first += 10 {
			asked := []int64{first, first + 1, first + 5}
			got := a.chosen("replies", api.MoveRequest{Numbers: asked})
			for _, r := range got.Refused {
				got.Absent = append(got.Absent, r.Number)
			}
			for _, number := range asked {
				if !slices.Contains(got.Absent, number) {
					end(number, "removed")
				}
			}
		}
		wg.Wait()
		if len(ends) != total {
			t.Errorf("%d messages had an end, want %d", len(ends), total)
		}
	})
}

// some completes a few messages of a session that is free, in order.
func (g *gateway) some(ctx context.Context, client *azservicebus.Client, each func(*azservicebus.ReceivedMessage)) error {
	r, err := client.AcceptNextSessionForQueue(ctx, "replies", nil)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close(context.WithoutCancel(ctx)) }()
	ms, err := r.ReceiveMessages(ctx, 5, nil)
	if err != nil {
		return err
	}
	for i, m := range ms {
		if i > 0 && *m.SequenceNumber < *ms[i-1].SequenceNumber {
			return fmt.Errorf("session %s: message %d after %d", r.SessionID(), *m.SequenceNumber, *ms[i-1].SequenceNumber)
		}
		if err := r.CompleteMessage(ctx, m, nil); err != nil {
			return err
		}
		each(m)
	}
	return nil
}
