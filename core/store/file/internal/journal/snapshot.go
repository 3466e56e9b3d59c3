package journal

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/wal"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
)

// Write writes the pieces of a snapshot. Equal contents give equal bytes, except for positions. A
// piece consists of its length, what end returned when the piece began, and its effects. Write
// calls named for each record to which the snapshot refers.
func Write(w io.Writer, store *state.Store, end func() state.Position, named func(state.Ref)) error {
	return store.Snapshot(&pieces{encoder{named: named}, w, end})
}

type pieces struct {
	encoder
	w   io.Writer
	end func() state.Position
}

func (x *pieces) Begin(p state.Piece) {
	x.kind(aboutPiece)
	at := x.end()
	x.piece(&at, &p)
	x.begun, x.subscription, x.sub = true, p.Of.Subscription, core.Main
}

func (c *coder) piece(at *state.Position, p *state.Piece) {
	unsigned(c, at)
	c.byte((*byte)(&p.Kind))
	if p.Kind == state.PieceCatalogue {
		signed(c, &p.Now)
		return
	}
	c.string(&p.Of.Entity)
	unsigned(c, &p.Of.Index)
	c.string(&p.Of.Subscription)
	if p.Kind == state.PieceMessages {
		c.byte((*byte)(&p.Of.Sub))
		unsigned(c, &p.From)
	}
}

func (x *pieces) End() error {
	_, err := x.w.Write(binary.AppendUvarint(nil, uint64(len(x.buf))))
	if err == nil {
		_, err = x.w.Write(x.buf)
	}
	x.buf = x.buf[:0]
	return err
}

const maxPiece = 1 << 30

// Load reads a snapshot into the store, and closes r. After an error, the store must not be used.
func Load(store *state.Store, r io.ReadCloser) error {
	return errors.Join(load(store.Replay(), bufio.NewReaderSize(r, 1<<16)), r.Close())
}

func load(to *state.Replay, in *bufio.Reader) error {
	var buf []byte
	for {
		n, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n > maxPiece {
			return fmt.Errorf("a part of the snapshot has an invalid size of %d bytes", n)
		}
		buf = slices.Grow(buf[:0], int(n))[:n]
		if _, err := io.ReadFull(in, buf); err != nil {
			return err
		}
		if err := apply(to, wal.Frame{Effects: buf}); err != nil {
			return fmt.Errorf("cannot apply a part of the snapshot: %w", err)
		}
	}
}

func (d *decoder) load() error {
	var at state.Position
	var p state.Piece
	if d.piece(&at, &p); d.err != nil || !d.to.Piece(at, &p) {
		return cmp.Or(d.err, d.to.Err())
	}
	d.at = p.Of
	d.at.Sub = core.Main
	return d.effects()
}
