package declaration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

func TestEntitiesComeBehindThoseThatTheyNeed(t *testing.T) {
	t.Parallel()
	queue := func(name, to, deadTo string) config.Queue {
		return config.Queue{Name: name, EntitySettings: config.EntitySettings{ForwardTo: &to, ForwardDeadLetteredMessagesTo: &deadTo}}
	}
	c := &config.Contents{
		Queues: []config.Queue{
			queue("free", "", ""), queue("first", "Second", ""), queue("second", "topic", "third"), queue("third", "elsewhere", ""),
			queue("round", "trip", ""), queue("trip", "round", ""),
		},
		Topics: []config.Topic{{Name: "topic", Subscriptions: []config.Subscription{{Name: "sub"}}}},
	}
	var got []string
	for _, w := range inOrder(c.Declared()) {
		got = append(got, w.Path())
	}
	if want := []string{"free", "topic", "third", "second", "first", "trip", "round", "topic/Subscriptions/sub"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// held is a namespace that creates queues, as far as Declare asks.
type held struct {
	Admin
	entities map[string]core.Entity
}

func (h *held) Entity(_ context.Context, _ core.Identity, name string) (core.Entity, core.Runtime, error) {
	e, ok := h.entities[core.FoldName(name)]
	if !ok {
		return e, core.Runtime{}, core.NotFound
	}
	return e, core.Runtime{}, nil
}

func (h *held) CreateEntity(_ context.Context, _ core.Identity, kind core.Kind, name string, s core.Settings, _ *core.Rule) (core.Entity, error) {
	e := core.Entity{Name: name, Kind: kind, Settings: s}
	h.entities[core.FoldName(name)] = e
	return e, nil
}

// The time per queue must not grow with their number.
func BenchmarkDeclare(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("queues=%d", n), func(b *testing.B) {
			c := &config.Contents{}
			for i := range n { // each forwards to one that is declared later
				to := fmt.Sprint("queue-", n-1-i%10)
				q := config.Queue{Name: fmt.Sprint("queue-", i)}
				if i < n-10 {
					q.ForwardTo = &to
				}
				c.Queues = append(c.Queues, q)
			}
			for b.Loop() {
				h := &held{entities: map[string]core.Entity{}}
				if err := Declare(b.Context(), h, c, Options{}); err != nil || len(h.entities) != n {
					b.Fatal(len(h.entities), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/queue")
		})
	}
}
