package journal

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/wal"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
)

func apply(to *state.Replay, f wal.Frame) error {
	refs := make([]state.Ref, len(f.Records))
	for i, r := range f.Records {
		refs[i] = memRef(r)
	}
	to.Frame(state.Position(f.At), refs)
	d := &decoder{coder: coder{decodes: true, rest: f.Effects}, to: to}
	return d.apply()
}

type decoder struct {
	coder
	to *state.Replay
	at core.Ref // the sub-queue that the last effectSelect names

	under state.Effect
	put   state.Put
}

var errUnknownEffect = errors.New("a newer version wrote this frame of the log: start that version")

func (d *decoder) apply() error {
	switch kind := d.kind(); kind {
	case aboutCatalogue:
		if d.to.HasCatalogue() {
			return nil
		}
		return d.effects()
	case aboutPartition, aboutPartitionVirtual:
		var now int64
		d.string(&d.at.Entity)
		unsigned(&d.coder, &d.at.Index)
		if signed(&d.coder, &now); kind == aboutPartition {
			d.to.Happened(now)
		}
		if err := d.effects(); err != nil {
			return fmt.Errorf("%s/%d: %w", d.at.Entity, d.at.Index, err)
		}
		return nil
	case aboutPiece:
		return d.load()
	}
	return errors.New("the frame changes a kind of object that this version does not know: start the newer version that wrote the frame")
}

func (d *decoder) kind() (k state.EffectKind) {
	d.byte((*byte)(&k))
	return k
}

func (d *decoder) effects() error {
	for err := d.err; err != nil || len(d.rest) > 0; err = cmp.Or(d.err, d.to.Err()) {
		if err != nil {
			return err
		}
		d.next()
	}
	return nil
}

func (d *decoder) next() {
	e := &d.under
	*e = state.Effect{Kind: d.kind(), Of: d.at}
	switch e.Kind {
	case effectSelect:
		d.string(&d.at.Subscription)
		d.byte((*byte)(&d.at.Sub))
		return
	case state.EffectPut:
		d.put = state.Put{}
		e.Object = &d.put
	case state.EffectChange:
		d.put.Change = state.Change{}
		e.Object = &d.put.Change
	}
	if d.effect(e); d.err == nil {
		d.to.Do(e)
	}
}
