package journal

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/filestore/internal/wal"
	"github.com/crosstown-mq/crosstown/core/memstore"
)

// apply does the effects of a frame of the log again.
func apply(to *memstore.Replay, f wal.Frame) error {
	refs := make([]memstore.Ref, len(f.Records))
	for i, r := range f.Records {
		refs[i] = memRef(r)
	}
	to.Frame(memstore.Position(f.At), refs)
	d := &decoder{coder: coder{decodes: true, rest: f.Effects}, to: to}
	if err := d.apply(); err != nil {
		return fmt.Errorf("apply the frame at %x: %w", f.At, err)
	}
	return nil
}

// decoder does what an encoder has encoded.
type decoder struct {
	coder
	to *memstore.Replay
	at core.Ref // of the select before

	under memstore.Effect // way,
	put   memstore.Put
}

var errUnknownEffect = errors.New("an effect is of a kind that this version does not know")

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
	return errors.New("it is about something that this version does not know")
}

func (d *decoder) kind() (k memstore.EffectKind) {
	d.byte((*byte)(&k))
	return k
}

// effects does what is left of a frame.
func (d *decoder) effects() error {
	for err := d.err; err != nil || len(d.rest) > 0; err = cmp.Or(d.err, d.to.Err()) {
		if err != nil {
			return err
		}
		d.next()
	}
	return nil
}

// next does an effect.
func (d *decoder) next() {
	e := &d.under
	*e = memstore.Effect{Kind: d.kind(), Of: d.at}
	switch e.Kind {
	case effectSelect:
		d.string(&d.at.Subscription)
		d.byte((*byte)(&d.at.Sub))
		return
	case memstore.EffectPut:
		d.put = memstore.Put{}
		e.Put = &d.put
	case memstore.EffectChange:
		d.put.Change = memstore.Change{}
		e.Change = &d.put.Change
	case memstore.EffectSession:
		e.Session = new(memstore.Session)
	case memstore.EffectEvent:
		e.Event = new(core.Event)
	case memstore.EffectEntity:
		e.Object = new(core.Entity)
	case memstore.EffectRules:
		e.Object = new([]core.Rule)
	case memstore.EffectRule:
		e.Object = new(core.RuleChange)
	case memstore.EffectNamespace:
		e.Object = new(core.Namespace)
	}
	if d.effect(e); d.err == nil {
		d.to.Do(e)
	}
}
