package pipeline

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

// somethingParked is the bit of parkedMark.mark that says that messages may be parked.
const somethingParked = 1

// parkedMark is what this gateway knows of the parked messages of a partition. While there are
// some, further messages are parked behind them and do not overtake: so the order of what one
// gateway takes is kept.
type parkedMark struct {
	mark atomic.Int64 // the bit somethingParked; above it, how often this gateway has parked
}

// note says that messages are about to be parked.
func (l *parkedMark) note() {
	for {
		old := l.mark.Load()
		if l.mark.CompareAndSwap(old, (old|somethingParked)+2) {
			return
		}
	}
}

// maxParkedLook is how many messages of a transfer queue are checked for parked ones. Where there
// are more, some count as parked.
const maxParkedLook = 20

// IsBehind reports whether messages to a partition are to be parked behind others.
func (p *Stages) IsBehind(ctx context.Context, store core.Store, v *entity.View, partition uint16) bool {
	l := &p.parked[partition]
	mark := l.mark.Load()
	if mark&somethingParked == 0 {
		return false
	}
	transfer := v.Queues[core.Transfer][partition]
	c := store.StatsOf(ctx, []core.Partition{transfer})[0]
	if n := c.Stats.Ready + c.Stats.Locked; c.Err != nil || n > maxParkedLook || n > 0 && holdsParked(ctx, v, transfer) {
		return true
	}
	l.mark.CompareAndSwap(mark, mark&^somethingParked)
	return false
}

// holdsParked reports whether parked messages may be among the first in a transfer queue.
func holdsParked(ctx context.Context, v *entity.View, p core.Partition) bool {
	ds, err := p.Peek(ctx, core.PeekRequest{Max: maxParkedLook + 1})
	return err != nil || len(ds) > maxParkedLook || slices.ContainsFunc(ds, func(d core.Delivery) bool {
		return d.Transit != nil && core.FoldName(d.Transit.Destination) == core.FoldName(v.Name)
	})
}

// ParkAll parks all messages of a run without asking the stages: they are behind others.
func (p *Run) ParkAll() {
	for i := range p.items {
		p.items[i].park()
	}
}

// NotePark says that messages of a partition are about to be parked.
func (p *Stages) NotePark(partition uint16) { p.parked[partition].note() }
