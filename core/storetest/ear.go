package storetest

import (
	"maps"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// ear records the notifications of both stores about a queue, for callers that have found nothing
// more to lock. The model notifies before a call returns, the engine perhaps later.
type ear struct {
	ref    core.Ref
	waits  map[core.SessionKey]bool // "": for callers that wait for any message
	model  map[core.SessionKey]bool // sessions of which the model has notified watchers during the current step
	engine chan core.SessionKey
	stop   []func()
}

func (p *player) listen(pl *subject) {
	for _, q := range []core.SubQueue{core.Main, core.DeadLetter} {
		e := &ear{ref: pl.at(q).Ref, waits: make(map[core.SessionKey]bool), model: make(map[core.SessionKey]bool)}
		e.stop = append(e.stop, (core.Partition{Ref: e.ref}).In(p.a).Watch(core.WakeFunc(func(session core.SessionKey) { e.model[session] = true })))
		p.ears = append(p.ears, e)
		p.attach(e)
	}
}

func (p *player) attach(e *ear) {
	engine := make(chan core.SessionKey, 1000)
	clear(e.waits)
	e.engine = engine
	e.stop = append(e.stop, (core.Partition{Ref: e.ref}).In(p.b).Watch(core.WakeFunc(func(session core.SessionKey) {
		select {
		case engine <- session:
		default:
		}
	})))
}

// arm notes that a caller has found nothing more to lock.
func (p *player) arm(r core.Ref, session core.SessionKey) {
	for _, e := range p.ears {
		if e.ref == r {
			e.waits[session] = true
		}
	}
}

func (p *player) leave(r core.Ref, session core.SessionKey) {
	for _, e := range p.ears {
		if e.ref == r {
			delete(e.waits, session)
		}
	}
}

// excuse permits the engine not to notify of the last operation, because the messages were locked,
// or because nothing becomes due earlier than the engine has announced.
func (p *player) excuse(r core.Ref) {
	for _, e := range p.ears {
		if e.ref == r {
			maps.DeleteFunc(e.waits, func(session core.SessionKey, _ bool) bool { return e.model[session] })
			clear(e.model)
		}
	}
}

func (p *player) hear() {
	p.Helper()
	for _, e := range p.ears {
		for len(e.engine) > 0 {
			e.woken(<-e.engine)
		}
		for session := range e.waits {
			if e.model[session] {
				p.await(e, session)
			}
		}
		clear(e.model)
	}
}

func (p *player) await(e *ear, session core.SessionKey) {
	p.Helper()
	timeout := time.After(bellTimeout)
	for e.waits[session] {
		select {
		case rung := <-e.engine:
			e.woken(rung)
		case <-timeout:
			p.fail("the model rings at %+v for %v, the engine does not for %q", e.ref, slices.Collect(maps.Keys(e.model)), session)
		}
	}
}

// woken notes that the engine has notified callers that wait for the session, or all ("").
func (e *ear) woken(session core.SessionKey) {
	delete(e.waits, session)
	if session == "" {
		clear(e.waits)
	}
}

func (p *player) deafen() {
	for _, e := range p.ears {
		for _, stop := range e.stop {
			stop()
		}
	}
}
