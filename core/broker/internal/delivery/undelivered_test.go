package delivery

import (
	"context"
	"log/slog"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
	"github.com/crosstown-mq/crosstown/core/broker/internal/pause"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// onlyView is an entity that never changes.
type onlyView struct{ v *entity.View }

func (e onlyView) View() *entity.View    { return e.v }
func (onlyView) Refresh(context.Context) {}
func (onlyView) Suspect()                {}
func (onlyView) Use()                    {}

func (onlyView) WithQuota(_ context.Context, p core.Partition) (core.Partition, error) { return p, nil }

// A receiver that has not been told yet of what was locked for it is never told, and has its credit
// back.
func TestWhatWaitsToBeDeliveredIsDropped(t *testing.T) {
	store := memory.New(memory.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	n := &entity.Namespace{Store: store, Base: ctx, Log: slog.New(slog.DiscardHandler)}
	v := n.View(core.Entity{Name: "q", ID: "1", Partitions: 1, Settings: core.DefaultSettings(core.Queue)})
	e := New(&Shared{
		Namespace: n, Barrier: pause.NewBarrier(),
		Start: func(f func()) bool { go f(); return true },
	}, onlyView{v}, &entity.Counters{}, nil)
	defer e.End(core.Busy)
	defer cancel()
	_, err := e.OpenReceiver(t.Context(), core.Main, core.ReceiverOptions{Deliver: func([]core.Delivery) { t.Error("something was delivered") }}, core.Party{})
	if err != nil {
		t.Fatal(err)
	}
	d := e.dispatchers[core.Main]
	d.mu.Lock()
	d.calling = true // another goroutine runs callbacks
	r := d.receivers[0]
	m := &core.Message{Body: core.Body{Bytes: make([]byte, 1000)}}
	d.give(r, []core.Delivery{{Message: m}, {Message: m}, {Message: m}})
	d.mu.Unlock()
	e.DropUndelivered()
	d.mu.Lock()
	defer d.mu.Unlock()
	if bytes := 3 * int64(m.Size()); len(r.pending) > 0 || r.credit != 3 || d.credit != 3 || r.bytes != bytes || d.bytes != bytes {
		t.Errorf("%d messages wait, the receiver has a credit of %d and %d bytes, all have %d and %d: want 0, 3, %d, 3, %d",
			len(r.pending), r.credit, r.bytes, d.credit, d.bytes, bytes, bytes)
	}
}
