package broker

import (
	"context"
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

// isBehind reports whether messages to a partition are to park behind others.
func (e *entry) isBehind(ctx context.Context, v *view, partition uint16) bool {
	l := &e.pipe.parked[partition]
	mark := l.mark.Load()
	if mark&somethingParked == 0 {
		return false
	}
	s, err := e.b.store.Stats(ctx, v.partitions[core.Transfer][partition])
	if err != nil || s.Ready+s.Locked > 0 {
		return true
	}
	l.mark.CompareAndSwap(mark, mark&^somethingParked)
	return false
}
