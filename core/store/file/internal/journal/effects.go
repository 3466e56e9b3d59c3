package journal

import (
	"cmp"
	"slices"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/internal/state"
)

// A frame begins with its subject: a partition, or the catalogue. The effects follow, each with its
// kind and its fields. In a partition, effects concern the sub-queue of the last effectSelect.
// Before the first effectSelect, they concern the main queue of the queue or topic. A piece of a
// snapshot also consists of effects.
// Files contain these numbers and those of state.EffectKind, so they must not change.
const (
	aboutPartition state.EffectKind = 1 + iota // fields: entity, index, time of the call
	aboutCatalogue
	aboutPiece   // the subject is a piece of a snapshot
	effectSelect // fields: subscription, sub-queue

	aboutPartitionVirtual state.EffectKind = 27 // like aboutPartition, but with the time of a view (see core.Store.WithTime)
)

const (
	flagState      = 1<<3 - 1
	flagDelayed    = 1 << 3
	flagSessionful = 1 << 4
	flagOverlay    = 1 << 5
	flagBody       = 1 << 6 // the body has a separate record
	flagInFrame    = 1 << 7 // the record is in this frame
	flagID         = 1 << 8 // the message's id follows, for the history
	flagByBroker   = 1 << 9
	flagDied       = 1 << 10 // the time when the message became a dead letter follows
	flagsEnd       = 1 << 11
)

func (c *coder) effect(e *state.Effect) {
	switch e.Kind {
	case state.EffectPut:
		c.put(e.Object.(*state.Put))
	case state.EffectChange:
		c.change(&e.Number, e.Object.(*state.Change))
	case state.EffectRemove, state.EffectLast:
		unsigned(c, &e.Number)
	case state.EffectPlace:
		unsigned(c, &e.Number)
		unsigned(c, &e.Record)
	case state.EffectSession:
		c.session(objectOf[state.Session](c, e))
	case state.EffectSeen, state.EffectMoved, state.EffectForget, state.EffectSeal:
		c.string(&e.Text)
		signed(c, &e.At)
	case state.EffectSeenUntil, state.EffectMovedUntil, state.EffectUnseal:
		signed(c, &e.At)
	case state.EffectTrim:
		signed(c, &e.Number)
	case state.EffectEvent:
		signed(c, &e.Number)
		signed(c, &e.At)
		c.event(objectOf[core.Event](c, e))
	case state.EffectClear:
	case state.EffectEntity:
		signed(c, &e.Number)
		c.object(objectOf[core.Entity](c, e))
	case state.EffectNoEntity:
		c.string(&e.Text)
		c.string(&e.Folded)
		signed(c, &e.Number)
	case state.EffectRules:
		c.string(&e.Text)
		c.object(objectOf[[]core.Rule](c, e))
	case state.EffectRule:
		c.string(&e.Text)
		c.object(objectOf[core.RuleChange](c, e))
	case state.EffectNamespace:
		c.object(objectOf[core.Namespace](c, e))
	case state.EffectNoNamespace:
		c.string(&e.Text)
	default:
		c.err = errUnknownEffect
	}
}

// objectOf returns the object of e, which it creates to decode it.
func objectOf[T any](c *coder, e *state.Effect) *T {
	if c.decodes {
		e.Object = new(T)
	}
	return e.Object.(*T)
}

func (c *coder) put(m *state.Put) {
	flags := flagsOf(&m.Change)
	set := func(flag uint64, has bool) {
		if has {
			flags |= flag
		}
	}
	set(flagSessionful, m.Sessionful)
	set(flagBody, m.Body.Length > 0)
	set(flagInFrame, m.InFrame)
	set(flagID, !m.ID.IsZero())
	set(flagDied, m.Died != 0)
	unsigned(c, &flags)
	unsigned(c, &m.Number)
	signed(c, &m.Origin)
	signed(c, &m.Enqueued)
	signed(c, &m.Expires)
	signed(c, &m.Failures)
	signed(c, &m.Size)
	c.changing(flags, &m.Change)
	if flags&flagInFrame != 0 {
		unsigned(c, &m.Record)
	} else {
		c.ref(&m.Ref)
	}
	if flags&flagSessionful != 0 {
		c.string(&m.Session)
	}
	if flags&flagOverlay != 0 {
		c.overlay(&m.Overlay)
	}
	if flags&flagBody != 0 {
		c.ref(&m.Body)
	}
	if flags&flagID != 0 {
		c.id(&m.ID)
	}
	if flags&flagDied != 0 {
		signed(c, &m.Died)
	}
	if c.decodes {
		m.Sessionful, m.InFrame = flags&flagSessionful != 0, flags&flagInFrame != 0
	}
}

func (c *coder) change(n *int64, m *state.Change) {
	flags := flagsOf(m)
	unsigned(c, &flags)
	unsigned(c, n)
	unsigned(c, &m.Failures)
	c.changing(flags, m)
	if flags&flagOverlay != 0 {
		unsigned(c, &m.Size)
		c.overlay(&m.Overlay)
	}
}

func flagsOf(m *state.Change) uint64 {
	flags := uint64(m.State)
	if m.Delayed {
		flags |= flagDelayed
	}
	if !m.Overlay.IsEmpty() {
		flags |= flagOverlay
	}
	if m.ByBroker {
		flags |= flagByBroker
	}
	return flags
}

func (c *coder) changing(flags uint64, m *state.Change) {
	if c.decodes {
		m.State, m.Delayed, m.ByBroker = state.MessageState(flags&flagState), flags&flagDelayed != 0, flags&flagByBroker != 0
		if m.State >= state.MessageStates || flags >= flagsEnd {
			c.err = cmp.Or(c.err, errUnknownEffect)
			return
		}
	}
	if m.State.IsTimed() {
		signed(c, &m.Until)
	}
	if m.State.IsLocked() {
		c.fixed64(&m.Nonce)
	}
}

// overlay clones decoded properties, because they outlive the input.
func (c *coder) overlay(v *core.Properties) {
	if c.properties(v); c.decodes {
		*v = core.RawProperties(slices.Clone(v.Encoded()))
	}
}

func (c *coder) session(s *state.Session) {
	c.string((*string)(&s.Key))
	signed(c, &s.Until)
	c.fixed64(&s.Nonce)
	c.byte((*byte)(&s.Mode))
	unsigned(c, &s.Passed)
	has := s.State != nil
	if c.bool(&has); has {
		if c.bytes(&s.State); c.decodes {
			s.State = slices.Clone(s.State)
		}
		signed(c, &s.Stated)
		c.string(&s.Stater)
	}
}

func (c *coder) event(e *core.Event) {
	c.instant(&e.Time)
	c.string((*string)(&e.Kind))
	c.byte((*byte)(&e.Sub))
	signed(c, &e.Number)
	signed(c, &e.Other)
	c.id(&e.MessageID)
	unsigned(c, &e.Count)
	c.instant(&e.Until)
	for _, s := range [...]*string{&e.Reason, &e.By.Policy, &e.By.Peer, &e.Entity, &e.Rule, &e.Plugin, &e.Gateway} {
		c.string(s)
	}
}

// A frame should end after largeEffects bytes of effects.
const largeEffects = 1 << 20

type encoder struct {
	coder
	now          int64
	virtual      bool
	begun        bool
	subscription string
	sub          core.SubQueue
	named        func(state.Ref) // called for each record of an earlier frame to which an effect refers
}

func (x *encoder) IsLarge() bool { return len(x.buf) > largeEffects }

func (x *encoder) Do(e *state.Effect) {
	if !x.begun {
		x.about(e)
	}
	sub := e.Of.Sub
	switch {
	case e.Kind >= state.EffectEntity:
		sub = x.sub
	case e.Kind >= state.EffectSeen && e.Kind <= state.EffectTrim && x.subscription == e.Of.Subscription:
		sub = x.sub
	}
	if x.subscription != e.Of.Subscription || x.sub != sub {
		x.subscription, x.sub = e.Of.Subscription, sub
		x.kind(effectSelect)
		x.string(&x.subscription)
		x.byte((*byte)(&x.sub))
	}
	x.kind(e.Kind)
	x.effect(e)
	if m, ok := e.Object.(*state.Put); ok && !m.InFrame {
		if x.named(m.Ref); m.Body.Length > 0 {
			x.named(m.Body)
		}
	}
}

func (x *encoder) about(e *state.Effect) {
	x.begun, x.subscription, x.sub = true, "", core.Main
	switch {
	case e.Kind >= state.EffectEntity:
		x.kind(aboutCatalogue)
		return
	case x.virtual:
		x.kind(aboutPartitionVirtual)
	default:
		x.kind(aboutPartition)
	}
	x.string(&e.Of.Entity)
	unsigned(&x.coder, &e.Of.Index)
	signed(&x.coder, &x.now)
}

func (x *encoder) kind(k state.EffectKind) { x.buf = append(x.buf, byte(k)) }
