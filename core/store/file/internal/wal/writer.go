package wal

import (
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
)

const (
	writeSize  = 256 << 10 // bytes of small frames that one call writes
	directSize = 16 << 10  // longer records are not copied
	// roomSize is the file space that is reserved at once, which costs less than page by page.
	roomSize = 8 << 20
	// fillSize is how far ahead the writer fills a segment with zeros under Sync Always. A sync
	// within the file's length takes half the time and CPU of a sync that extends the file.
	fillSize  = 512 << 10
	fullRetry = 100 * time.Millisecond
)

type writer struct {
	turn   sync.Mutex // held while a batch is written; guards the other fields
	l      *Log
	batch  *batch // set while the disk is full, and not all frames are written
	done   int    // number of written frames of batch
	active *segment
	off    uint32 // bytes in active
	filled uint32 // length of the active file, with the zeros written ahead
	room   int64  // offset up to which space is reserved
	out    output
}

// output collects the bytes of one write call. Only small parts are copied to buf.
type output struct {
	buf   []byte
	from  int // offset up to which buf is in parts
	parts [][]byte
	size  uint32
}

func (o *output) len() uint32 { return o.size + uint32(len(o.buf)-o.from) }

func (o *output) refer(b []byte) {
	for _, part := range [...][]byte{o.buf[o.from:len(o.buf):len(o.buf)], b} {
		if len(part) > 0 {
			o.parts = append(o.parts, part)
			o.size += uint32(len(part))
		}
	}
	o.from = len(o.buf)
}

func (o *output) clear() {
	if clear(o.parts); cap(o.buf) > 2*writeSize {
		o.buf = nil // a large frame has made it large
	}
	o.buf, o.from, o.parts, o.size = o.buf[:0], 0, o.parts[:0], 0
}

// writeBatches writes the batches that callers of Wait do not write themselves.
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

// lead writes the gathered frames, unless the writer is busy: this saves a lone caller of Wait two
// switches of goroutines. If the disk is full, writeBatches writes the rest.
func (l *Log) lead() {
	if !l.w.turn.TryLock() {
		return
	}
	l.writeBatch(false)
	l.w.turn.Unlock()
	// writeBatches writes the frames that other calls have added meanwhile.
	l.mu.Lock()
	more := len(l.gather.frames) > 0
	l.mu.Unlock()
	if more {
		l.wake.Set()
	}
}

// writeBatch writes the gathered frames, and syncs them if Options.Sync is Always. It returns false
// if there was nothing to write, if the log has failed, or if the disk is full and wait is false.
// l.w.turn is held.
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
		l.wake.Set()
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
		l.wakeSyncer.Set()
	}
	l.waits.signal(l.Durable())
	return true
}

// l.mu is held.
func (l *Log) newBatch() *batch {
	if n := len(l.spare); n > 0 {
		b := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return b
	}
	return &batch{}
}

// keepBatch bounds the buffers of a batch that is kept for reuse, in bytes.
const keepBatch = 256 << 10

// memory estimates the bytes of b in memory: for small records, many more than in the file.
func (b *batch) memory() int {
	return b.bytes + cap(b.effects) + cap(b.records)*int(unsafe.Sizeof(Record{})) + cap(b.frames)*int(unsafe.Sizeof(frame{}))
}

// retire keeps a written batch for Read, and drops the oldest beyond Options.Recent.
func (l *Log) retire(b *batch) {
	size := b.bytes
	l.mu.Lock()
	l.recent += b.memory()
	n := 0
	for ; l.recent > l.o.Recent && l.batches[n] != l.gather; n++ {
		old := l.batches[n]
		l.recent -= old.memory()
		clear(old.records)
		if len(l.spare) < 4 && old.memory()-old.bytes <= keepBatch {
			*old = batch{frames: old.frames[:0], effects: old.effects[:0], records: old.records[:0]}
			l.spare = append(l.spare, old)
		}
		l.batches[n] = nil
	}
	l.batches = l.batches[n:]
	l.mu.Unlock()
	l.giveRoom(int64(size))
}

// write writes the batch. If the disk is full, it returns false or, if wait is true, retries until
// there is space; it fails if the log is closed meanwhile.
func (w *writer) write(wait bool) (bool, error) {
	for w.done < len(w.batch.frames) {
		done, err := w.frames(w.batch, w.done)
		w.done = done
		if err == nil {
			w.l.space.full.Store(nil)
			continue
		}
		if w.active != nil && !w.active.sealed { // truncate the file after its last complete frame
			if short := w.active.file.Truncate(int64(w.off)); short == nil {
				w.filled, w.room = w.off, int64(w.off)
			}
		}
		if !fsys.Full(err) {
			return false, err
		}
		if w.l.space.full.Swap(&err) == nil {
			w.l.o.Logger.Warn("the disk is full: the gateway refuses messages until space is free", "dir", w.l.dir, "err", err)
		}
		if !wait {
			return false, nil
		}
		select {
		case <-w.l.closing:
			return false, fmt.Errorf("cannot write %d bytes: %w", w.batch.bytes, err)
		case <-w.l.freed:
		case <-time.After(fullRetry):
		}
	}
	return true, nil
}

// frames writes the frames of b from index i on. done is the index of the first frame that is not
// written completely. w.off is where it must begin.
func (w *writer) frames(b *batch, i int) (done int, err error) {
	done = i
	o := &w.out
	o.clear()
	defer o.clear()
	base := w.off // offset in the active segment
	flush := func(n int) error {
		o.refer(nil)
		if o.size > 0 {
			if err := w.put(base); err != nil {
				return err
			}
		}
		base += o.size
		o.clear()
		done, w.off = n, base
		return nil
	}
	for ; i < len(b.frames); i++ {
		f := &b.frames[i]
		if w.active == nil || f.at.Segment() != w.active.id || w.off == 0 && i == done {
			if o.len() > 0 {
				if err := flush(i); err != nil {
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
		o.buf = append(o.buf, effects...)
		o.buf = append(o.buf, zeros[:align(len(effects))-len(effects)]...)
		for j := range records {
			r := &records[j]
			o.buf = append(o.buf, make([]byte, recordHeaderSize)...)
			r.putHeader(o.buf[len(o.buf)-recordHeaderSize:])
			o.buf = append(o.buf, r.Head...)
			if len(r.Body) < directSize {
				o.buf = append(o.buf, r.Body...)
			} else {
				o.refer(r.Body)
			}
			o.buf = append(o.buf, zeros[:r.size()-recordHeaderSize-len(r.Head)-len(r.Body)]...)
		}
		if o.len() >= writeSize || f.kind == kindSeal {
			if err := flush(i + 1); err != nil {
				return done, err
			}
		}
		if f.kind == kindSeal {
			if err := w.seal(); err != nil {
				return done, err
			}
		}
	}
	return done, flush(len(b.frames))
}

func (w *writer) header(f *frame, effects []byte, records []Record) {
	h := header{
		kind: f.kind, effects: uint32(len(effects)), effectsCRC: checksum(effects),
		records: uint32(recordsSize(records)), count: uint32(len(records)), synced: w.l.Synced(),
	}
	if f.kind == kindClose {
		h.synced = f.at
	}
	w.out.buf = append(w.out.buf, make([]byte, frameHeaderSize)...)
	h.put(w.out.buf[len(w.out.buf)-frameHeaderSize:], f.at)
}

// put writes w.out at off. With Sync Always, it also writes zeros after a small output that ends
// beyond the earlier zeros (see fillSize).
func (w *writer) put(off uint32) error {
	end := off + w.out.size
	if int64(end) > w.room {
		w.room = int64(end) + int64(min(roomSize, w.l.o.SegmentSize/8))
		w.active.file.Reserve(int64(off), w.room-int64(off))
	}
	if _, err := w.active.file.WritevAt(w.out.parts, int64(off)); err != nil {
		return err
	}
	w.l.dirty.add(w.active)
	if end <= w.filled {
		return nil
	}
	w.filled = end
	if w.l.o.Sync == Always && w.out.size < fillSize/8 {
		if n, err := w.active.file.WriteAt(zeros[:min(fillSize, w.l.o.SegmentSize/8)], int64(end)); err == nil {
			w.filled += uint32(n)
		}
	}
	return nil
}

var zeros [fillSize]byte

// begin begins a segment. It may be called again for the same id until the header is written.
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
		w.active, w.off, w.filled, w.room = s, 0, 0, 0
		w.l.dirty.addDir()
		w.l.segments.add(s)
	}
	w.out.clear()
	w.out.buf = append(w.out.buf, make([]byte, segmentHeaderSize)...)
	w.active.put(w.out.buf)
	return nil
}

func (w *writer) seal() error {
	if err := w.trim(); err != nil {
		return err
	}
	w.l.segments.seal(w.active, w.off)
	w.l.dirty.add(w.active)
	w.l.wakeSyncer.Set()
	return nil
}

func (w *writer) trim() error {
	if w.active == nil || w.filled == w.off && w.room <= int64(w.off) {
		return nil
	}
	w.filled, w.room = w.off, int64(w.off)
	return w.active.file.Truncate(int64(w.off))
}
