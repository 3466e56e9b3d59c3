package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

func TestARefusalSaysWhetherTheCallersTimeWasUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &stage{Stage: Stage{Name: "p"}}
	if err := s.unavailable(ctx); !errors.Is(err, core.Timeout) {
		t.Errorf("got %v, want %v", err, core.Timeout)
	}
}

func TestTheFirstPipelineThatFitsCounts(t *testing.T) {
	through := func(pattern string, u Unavailable) Pipeline {
		return Pipeline{Entity: pattern, Ingress: []Stage{{Name: "p", Unavailable: u}}}
	}
	all := []Pipeline{{Entity: "orders/none"}, through("Orders/*", Park), through("*", Refuse)}
	log := slog.New(slog.DiscardHandler)
	for name, want := range map[string]string{"orders/none": "", "orders/x": "parks", "z": "refuses"} {
		got := ""
		if p := New(&core.Entity{Name: name, Partitions: 1}, all, false, nil, log); !p.IsEmpty() {
			got = map[bool]string{true: "parks", false: "refuses"}[p.Parks]
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if New(&core.Entity{Name: "t/Subscriptions/s", Kind: core.Subscription}, all, false, nil, log) != nil {
		t.Error("a subscription has a pipeline")
	}
}
