package wal

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core/filestore/internal/fsys"
)

const (
	// writeSize is how much of small frames is written with one call.
	writeSize = 256 << 10
	// directSize is from which length on a record is written from where it is, without a copy.
	directSize = 16 << 10
	// fillSize is how far ahead a segment is filled with zeros under Sync Always: a sync within
	// the file's length takes half of the time and of the CPU of one that makes it longer.
	fillSize = 512 << 10
	// fullRetry is how often a write is tried again on a full disk.
	fullRetry = 100 * time.Millisecond
)

// writer writes frames to the active segment.
type writer struct {
	turn   sync.Mutex // guards the fields below it; held to write a batch
	l      *Log
	batch  *batch   // began, and could not go on for lack of space
	done   int      // frames of batch that are written
	active *segment // nil before the first
	off    uint32   // what is written of active; 0 if its header is not
	filled uint32   // the file's length
	buf    []byte
}

// writeBatches is the goroutine that writes what no caller of Wait writes.
func (l *Log) writeBatches() {
	for {
		select {
		case <-l.wake:
		case <-l.closing:
		}
		l.w.turn.Lock()
		for l.writeBatch(true) {
		}
		l.w.turn.Unlock()
		select {
		case <-l.closing:
			return
		default:
		}
	}
}

// lead writes what is gathered, in place of the goroutine of writeBatches, if nothing is being
// written: for a lone caller that saves two switches between goroutines. On a full disk it leaves
// the rest to that goroutine.
func (l *Log) lead() {
	if !l.w.turn.TryLock() {
		return
	}
	l.writeBatch(false)
	l.w.turn.Unlock()
	// Those who came meanwhile wait for a signal.
	l.mu.Lock()
	more := len(l.gather.frames) > 0
	l.mu.Unlock()
	if more {
		signal(l.wake)
	}
}

// writeBatch writes what is gathered, and syncs it if that is the mode. It returns false if there
// was nothing, or if the log has failed, or if the disk is full and it is not to wait. l.w.turn is
// held.
func (l *Log) writeBatch(wait bool) bool {
	b := l.w.batch
	if b == nil {
		l.mu.Lock()
		b = l.gather
		if len(b.frames) == 0 || l.Err() != nil {
			l.mu.Unlock()
			return false
		}
		l.gather = l.newBatch()
		l.batches = append(l.batches, l.gather)
		l.mu.Unlock()
		l.w.batch, l.w.done = b, 0
	}
	if written, err := l.w.write(wait); err != nil {
		l.fail(err)
		return false
	} else if !written {
		signal(l.wake)
		return false
	}
	l.written.Store(uint64(b.end))
	l.w.batch = nil
	l.retire(b)
	switch l.o.Sync {
	case Always:
		if l.sync() != nil {
			return false
		}
	case Interval:
		signal(l.wakeSyncer)
	}
	l.waits.signal(l.Durable())
	return true
}

// newBatch makes a batch, or uses one again. l.mu is held.
func (l *Log) newBatch() *batch {
	if n := len(l.spare); n > 0 {
		b := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return b
	}
	return &batch{}
}

// retire counts a written batch among the recent ones, and lets the oldest go.
func (l *Log) retire(b *batch) {
	size := b.bytes
	l.mu.Lock()
	l.recent += size
	n := 0
	for ; l.recent > l.o.Recent && l.batches[n] != l.gather; n++ {
		old := l.batches[n]
		l.recent -= old.bytes
		clear(old.records)
		if len(l.spare) < 4 && cap(old.effects) <= 1<<20 && cap(old.records) <= 1<<14 {
			*old = batch{frames: old.frames[:0], effects: old.effects[:0], records: old.records[:0]}
			l.spare = append(l.spare, old)
		}
		l.batches[n] = nil
	}
	l.batches = l.batches[n:]
	l.mu.Unlock()
	l.giveRoom(int64(size))
}

// write writes the batch. While the disk is full it waits, unless the log closes; or it returns
// false if it is not to wait.
func (w *writer) write(wait bool) (bool, error) {
	for w.done < len(w.batch.frames) {
		done, err := w.frames(w.batch, w.done)
		w.done = done
		if err == nil {
			w.l.space.full.Store(false)
			continue
		}
		if w.active != nil && !w.active.sealed { // back to the last whole frame
			if short := w.active.file.Truncate(int64(w.off)); short == nil {
				w.filled = w.off
			}
		}
		if !fsys.Full(err) {
			return false, err
		}
		if !w.l.space.full.Swap(true) {
			w.l.o.Logger.Warn("the disk is full: messages are refused until there is space", "dir", w.l.dir, "err", err)
		}
		if !wait {
			return false, nil
		}
		select {
		case <-w.l.closing:
			return false, fmt.Errorf("%d bytes were not written: %w", w.batch.bytes, err)
		case <-w.l.freed:
		case <-time.After(fullRetry):
		}
	}
	return true, nil
}

// frames writes the frames of a batch from frame i on. It returns the first one that is not wholly
// written, and w.off is where that one goes.
func (w *writer) frames(b *batch, i int) (done int, err error) {
	done = i
	w.buf = w.buf[:0]
	base := w.off // where buf goes in the active segment
	// flush writes buf. The frames before n, whose place is at, are whole then.
	flush := func(n int, at uint32) error {
		if len(w.buf) > 0 {
			if err := w.put(w.buf, base); err != nil {
				return err
			}
		}
		base += uint32(len(w.buf))
		w.buf = w.buf[:0]
		done, w.off = n, at
		return nil
	}
	for ; i < len(b.frames); i++ {
		f := &b.frames[i]
		if w.active == nil || f.at.Segment() != w.active.id || w.off == 0 && i == done {
			if len(w.buf) > 0 {
				if err := flush(i, base+uint32(len(w.buf))); err != nil {
					return done, err
				}
			}
			if err := w.begin(f.at.Segment()); err != nil {
				return done, err
			}
			base = 0
		}
		effects, records := b.effects[f.effects:f.effectsTo], b.records[f.records:f.recordsTo]
		w.header(f, effects, records)
		w.buf = append(w.buf, effects...)
		w.buf = append(w.buf, zeros[:align(len(effects))-len(effects)]...)
		for j := range records {
			r := &records[j]
			w.buf = append(w.buf, make([]byte, recordHeaderSize)...)
			r.putHeader(w.buf[len(w.buf)-recordHeaderSize:])
			w.buf = append(w.buf, r.Head...)
			if len(r.Body) < directSize {
				w.buf = append(w.buf, r.Body...)
			} else {
				if err := flush(i, f.at.Offset()); err != nil {
					return done, err
				}
				if err := w.put(r.Body, base); err != nil {
					return done, err
				}
				base += uint32(len(r.Body))
			}
			w.buf = append(w.buf, zeros[:r.size()-recordHeaderSize-len(r.Head)-len(r.Body)]...)
		}
		if len(w.buf) >= writeSize || f.kind == kindSeal {
			if err := flush(i+1, base+uint32(len(w.buf))); err != nil {
				return done, err
			}
		}
		if f.kind == kindSeal {
			if err := w.seal(); err != nil {
				return done, err
			}
		}
	}
	return done, flush(len(b.frames), base+uint32(len(w.buf)))
}

// header puts a frame's header into buf.
func (w *writer) header(f *frame, effects []byte, records []Record) {
	h := header{
		kind: f.kind, effects: uint32(len(effects)), effectsCRC: checksum(effects),
		records: uint32(recordsSize(records)), count: uint32(len(records)), synced: w.l.Synced(),
	}
	if f.kind == kindClose {
		h.synced = f.at
	}
	w.buf = append(w.buf, make([]byte, frameHeaderSize)...)
	h.put(w.buf[len(w.buf)-frameHeaderSize:], f.at)
}

// put writes bytes to the active segment, and zeros behind them if small writes with a sync each
// are to be expected.
func (w *writer) put(b []byte, off uint32) error {
	if _, err := w.active.file.WriteAt(b, int64(off)); err != nil {
		return err
	}
	end := off + uint32(len(b))
	w.l.dirty.add(w.active)
	if end <= w.filled {
		return nil
	}
	w.filled = end
	if w.l.o.Sync == Always && len(b) < fillSize/8 {
		if n, err := w.active.file.WriteAt(zeros[:min(fillSize, w.l.o.SegmentSize/8)], int64(end)); err == nil {
			w.filled += uint32(n)
		}
	}
	return nil
}

var zeros [fillSize]byte

// begin makes a segment the active one and puts its header into buf. It may be called again for
// the same one while the header is not written.
func (w *writer) begin(id uint32) error {
	if w.active == nil || w.active.id != id {
		s := &segment{segmentHeader: segmentHeader{id: id, log: w.l.id, synced: w.l.Synced(), made: time.Now().UnixMilli()}}
		if w.active != nil {
			s.prev, s.prevEnd = w.active.id, w.active.end
		}
		file, err := w.l.fs.Open(w.l.path(s.name()), os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if err != nil {
			return err
		}
		s.file = file
		w.active, w.off, w.filled = s, 0, 0
		w.l.dirty.addDir()
		w.l.segments.add(s)
	}
	w.buf = append(w.buf[:0], make([]byte, segmentHeaderSize)...)
	w.active.put(w.buf)
	return nil
}

// seal ends the active segment.
func (w *writer) seal() error {
	if err := w.trim(); err != nil {
		return err
	}
	w.l.segments.seal(w.active, w.off)
	w.l.dirty.add(w.active)
	signal(w.l.wakeSyncer)
	return nil
}

// trim takes the zeros behind the active segment's frames away.
func (w *writer) trim() error {
	if w.active == nil || w.filled == w.off {
		return nil
	}
	w.filled = w.off
	return w.active.file.Truncate(int64(w.off))
}
