package admin

import (
	"context"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// Names are case-insensitive, so a move to the same queue in another spelling would store each message again.
func TestMessagesAreNotMovedToTheirOwnQueue(t *testing.T) {
	t.Parallel()
	b := broker.New(memory.New(memory.Options{}), broker.Options{Namespace: "ns"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	id := core.Identity{{Namespace: "ns", NamespaceID: "ns", Rights: core.AllRights}}
	for _, name := range []string{"orders", "other"} {
		settings := core.DefaultSettings(core.Queue)
		if name == "other" {
			settings.ForwardTo = "Orders"
		}
		if _, err := b.CreateEntity(t.Context(), id, core.Queue, name, settings, nil); err != nil {
			t.Fatal(err)
		}
	}
	entity, err := b.Resolve(t.Context(), id, core.At("orders"))
	if err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]core.Code{
		"orders": core.InvalidArgument, "Orders": core.InvalidArgument, "other": core.InvalidArgument, "orders/$DeadLetterQueue": "",
	} {
		m := mover{served: &Served{Broker: b}, id: id, from: core.At("orders"), prefix: entity.ID, request: &api.MoveRequest{To: to}}
		if got := core.CodeOf(m.check(t.Context())); got != want {
			t.Errorf("to %s: got %q, want %q", to, got, want)
		}
	}
}
