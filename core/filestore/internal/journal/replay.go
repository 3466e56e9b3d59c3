package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

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
	d := &decoder{reader: reader{rest: f.Effects}, to: to}
	if err := d.apply(); err != nil {
		return fmt.Errorf("apply the frame at %x: %w", f.At, err)
	}
	return nil
}

// decoder does what an encoder has encoded.
type decoder struct {
	reader
	to *memstore.Replay
	at core.Ref // of the select before
	m  memstore.Put
}

func (d *decoder) apply() error {
	switch effectKind(d.byte()) {
	case aboutCatalogue:
		if d.to.HasCatalogue() {
			return nil
		}
		return d.effects((*decoder).catalogue)
	case aboutPartition:
		return d.partition(true)
	case aboutPartitionVirtual:
		return d.partition(false)
	case aboutPiece:
		return d.piece()
	}
	return errors.New("it is about something that this version does not know")
}

// effects does what is left of a frame.
func (d *decoder) effects(effect func(*decoder, effectKind) error) error {
	for len(d.rest) > 0 && d.err == nil {
		if err := effect(d, effectKind(d.byte())); err != nil {
			return err
		}
		if err := d.to.Err(); err != nil {
			return err
		}
	}
	return d.err
}

func (d *decoder) partition(real bool) error {
	d.at = core.Ref{Entity: d.string(), Index: uint16(d.uint())}
	if now := d.int(); real {
		d.to.Happened(now)
	}
	if err := d.effects((*decoder).effect); err != nil {
		return fmt.Errorf("%s/%d: %w", d.at.Entity, d.at.Index, err)
	}
	return nil
}

// effect does an effect on a partition. What is cut short is not done.
func (d *decoder) effect(k effectKind) error {
	to, at := d.to, d.at
	switch k {
	case effectSelect:
		d.at.Subscription, d.at.Sub = d.string(), core.SubQueue(d.byte())
	case effectPut:
		return d.put()
	case effectState:
		return d.change()
	case effectRemove:
		if n := int64(d.uint()); d.err == nil {
			to.Remove(at, n)
		}
	case effectPlace:
		if n, i := int64(d.uint()), d.record(); d.err == nil {
			to.Place(at, n, i)
		}
	case effectLast:
		if n := int64(d.uint()); d.err == nil {
			to.Last(at, n)
		}
	case effectSession:
		d.session()
	case effectSeen, effectMoved, effectForget:
		d.key(k)
	case effectSeenUntil, effectMovedUntil, effectTrim:
		d.until(k)
	case effectEvent:
		d.event()
	case effectClear:
		to.Clear(at)
	default:
		return memstore.ErrUnknownEffect
	}
	return nil
}

func (d *decoder) ref() memstore.Ref {
	return memstore.Ref{Position: memstore.Position(d.uint()), Length: uint32(d.uint())}
}

// record is the place of a record in the frame, from 1 on.
func (d *decoder) record() int32 { return int32(min(d.uint(), math.MaxInt32-1)) + 1 }

func (d *decoder) properties() core.Properties { return core.RawProperties(slices.Clone(d.bytes())) }

func (d *decoder) put() error {
	flags, m := d.uint(), &d.m
	*m = memstore.Put{
		Number: int64(d.uint()), Origin: d.int(), Enqueued: d.int(), Expires: d.int(),
		Change: memstore.Change{Failures: uint32(d.int()), Size: int(d.int())}, Sessionful: flags&flagSessionful != 0,
	}
	if err := d.changing(flags, &m.Change); err != nil {
		return err
	}
	if flags&flagInFrame != 0 {
		m.Record = d.record()
	} else {
		m.Ref = d.ref()
	}
	if m.Sessionful {
		m.Session = d.string()
	}
	if flags&flagOverlay != 0 {
		m.Overlay = d.properties()
	}
	if flags&flagBody != 0 {
		m.Body = d.ref()
	}
	if flags&flagID != 0 {
		m.ID = d.id()
	}
	if d.err == nil {
		d.to.Put(d.at, m)
	}
	return nil
}

func (d *decoder) change() error {
	flags, n := d.uint(), int64(d.uint())
	c := memstore.Change{Failures: uint32(d.uint())}
	if err := d.changing(flags, &c); err != nil {
		return err
	}
	if flags&flagOverlay != 0 {
		c.Size, c.Overlay = int(d.uint()), d.properties()
	}
	if d.err == nil {
		d.to.Change(d.at, n, &c)
	}
	return nil
}

func (d *decoder) changing(flags uint64, c *memstore.Change) error {
	c.State, c.Delayed, c.ByBroker = memstore.MessageState(flags&flagState), flags&flagDelayed != 0, flags&flagByBroker != 0
	if c.State >= memstore.MessageStates || flags >= flagsEnd {
		return memstore.ErrUnknownEffect
	}
	if c.State.IsTimed() {
		c.Until = d.int()
	}
	if c.State.IsLocked() {
		c.Nonce = d.fixed64()
	}
	return nil
}

func (d *decoder) session() {
	s := memstore.Session{
		Key: core.SessionKey(d.string()), Until: d.int(), Nonce: d.fixed64(), Mode: core.SessionMode(d.byte()), Passed: uint32(d.uint()),
	}
	if d.bool() {
		s.State, s.Stated, s.Stater = slices.Clone(d.bytes()), d.int(), d.string()
	}
	if d.err == nil {
		d.to.Session(d.at, s)
	}
}

func (d *decoder) key(k effectKind) {
	key, at := d.string(), d.int()
	switch {
	case d.err != nil:
	case k == effectSeen:
		d.to.Seen(d.at, key, at)
	case k == effectMoved:
		d.to.Moved(d.at, key, at)
	default:
		d.to.Forget(d.at, key)
	}
}

func (d *decoder) until(k effectKind) {
	until := d.int()
	switch {
	case d.err != nil:
	case k == effectSeenUntil:
		d.to.SeenUntil(d.at, until)
	case k == effectMovedUntil:
		d.to.MovedUntil(d.at, until)
	default:
		d.to.Trim(d.at, until)
	}
}

func (d *decoder) event() {
	serial, written := d.int(), d.int()
	e := core.Event{
		Time: d.instant(), Kind: core.EventKind(d.string()), Sub: core.SubQueue(d.byte()), Number: d.int(), Other: d.int(),
		MessageID: d.id(), Count: uint32(d.uint()), Until: d.instant(), Reason: d.string(),
	}
	for _, text := range [...]*string{&e.By.Policy, &e.By.Peer, &e.Entity, &e.Rule, &e.Plugin, &e.Gateway} {
		*text = d.string()
	}
	if d.err == nil {
		d.to.Event(d.at, serial, written, &e)
	}
}

// instant is a time, where 0 stands for none.
func (d *decoder) instant() (t time.Time) {
	if millis := d.int(); millis != 0 {
		t = time.UnixMilli(millis).UTC()
	}
	return t
}

// catalogue does an effect on the catalogue or the namespaces.
func (d *decoder) catalogue(k effectKind) error {
	switch k {
	case effectEntity:
		version, e := d.int(), new(core.Entity)
		if err := d.object(e); err != nil {
			return err
		}
		d.to.Entity(e, version)
	case effectNoEntity:
		d.to.NoEntity(d.string(), d.string(), d.int())
	case effectRules:
		id, rules := d.string(), []core.Rule(nil)
		if err := d.object(&rules); err != nil {
			return err
		}
		d.to.Rules(id, rules)
	case effectRule:
		id, change := d.string(), new(core.RuleChange)
		if err := d.object(change); err != nil {
			return err
		}
		d.to.Rule(id, change)
	case effectSeal:
		d.to.Seal(d.string(), d.int())
	case effectUnseal:
		d.to.Unseal(d.int())
	case effectNamespace:
		n := new(core.Namespace)
		if err := d.object(n); err != nil {
			return err
		}
		d.to.Namespace(n)
	case effectNoNamespace:
		d.to.NoNamespace(d.string())
	default:
		return memstore.ErrUnknownEffect
	}
	return nil
}

func (d *decoder) object(into any) error {
	b := d.bytes()
	if d.err != nil {
		return d.err
	}
	return json.Unmarshal(b, into)
}
