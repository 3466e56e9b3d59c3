package broker

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/crosstown-mq/crosstown/core"
)

// somethingParked is the bit of backlog.mark that stands for messages which may be parked.
const somethingParked = 1

// backlog is what this gateway knows of the parked messages of a partition. What
// comes while some are there parks behind them, so that it does not overtake
// them: the order of what one gateway takes is kept.
type backlog struct {
	mark atomic.Int64 // somethingParked or not, and above that how often this gateway has parked
}

// grow notes that messages are about to be parked.
func (l *backlog) grow() {
	for {
		old := l.mark.Load()
		if l.mark.CompareAndSwap(old, (old|somethingParked)+2) {
			return
		}
	}
}

// lookThrough is up to how many messages of a transfer queue are looked at for
// those that are parked. Where there are more some are taken to be.
const lookThrough = 20

// isBehind reports whether messages to a partition are to park behind others. It
// refuses them when what waits there takes as much room as the entity has.
func (e *entry) isBehind(ctx context.Context, v *view, partition uint16) (bool, error) {
	l := &e.pipe.parked[partition]
	mark := l.mark.Load()
	if mark&somethingParked == 0 {
		return false, nil
	}
	p := v.partitions[core.Transfer][partition]
	s, err := e.b.store.Stats(ctx, p)
	if limit := v.partitions[core.Main][partition].MaxBytes; err == nil && limit > 0 && s.Bytes >= limit {
		return true, e.b.refusal(core.QuotaExceeded, &v.Entity)
	}
	if n := s.Ready + s.Locked; err != nil || n > lookThrough || n > 0 && e.holdsParked(ctx, v, p) {
		return true, nil
	}
	l.mark.CompareAndSwap(mark, mark&^somethingParked)
	return false, nil
}

// holdsParked reports whether parked messages may be among the first in a transfer queue.
func (e *entry) holdsParked(ctx context.Context, v *view, p core.Partition) bool {
	ds, err := e.b.store.Peek(ctx, p, 0, lookThrough+1)
	return err != nil || len(ds) > lookThrough || slices.ContainsFunc(ds, func(d core.Delivery) bool {
		return d.Transit != nil && core.FoldName(d.Transit.Destination) == core.FoldName(v.Name)
	})
}

// parkAll parks all of a passage, whose stages are not asked: they are behind others.
func (p *passage) parkAll() {
	for i := range p.all {
		p.all[i].park()
	}
}

// refuse refuses all of a passage.
func (p *passage) refuse(err error) {
	for i := range p.all {
		p.all[i].fate, p.all[i].err = refused, err
	}
}
