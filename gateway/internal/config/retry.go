package config

import (
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Retry is how long abandoned messages wait for their next delivery in the queues
// and subscriptions that it is for. Of several that are for one entity the first
// counts.
type Retry struct {
	Entity  string        `config:"entity"`  // a name; * in it is any text
	Backoff time.Duration `config:"backoff"` // after the first failed delivery
	Factor  float64       `config:"factor"`  // by which each further one multiplies it; 0: 1
	Max     time.Duration `config:"max"`     // the longest wait; 0: the broker's own limit
	Jitter  float64       `config:"jitter"`  // the share of a wait that may be taken off at random
}

// maxFactor is the largest factor that makes sense.
const maxFactor = 100

func (h *Contents) validateRetries(prefix string, r *report) {
	for i := range h.Retries {
		p, path := &h.Retries[i], elementPath(prefix+"retries", i)
		p.validate(path, r)
		if slices.ContainsFunc(h.Retries[:i], func(q Retry) bool { return strings.EqualFold(q.Entity, p.Entity) }) {
			r.add(path+".entity", "%q is there twice (upper and lower case are the same): only the first counts, remove the other", p.Entity)
		}
	}
}

func (p *Retry) validate(path string, r *report) {
	if p.Entity == "" {
		r.add(path+".entity", "it is missing: name a queue or subscription, or a pattern such as orders/* or *")
	}
	if !r.concerns(path+".backoff") && (p.Backoff < time.Millisecond || p.Backoff > core.MaxBackoff) {
		r.add(path+".backoff", "%v is out of range: use 1ms to %v", p.Backoff, core.MaxBackoff)
	}
	if p.Max != 0 && (p.Max < p.Backoff || p.Max > core.MaxBackoff) {
		r.add(path+".max", "%v is out of range: use %v, which is the backoff, to %v", p.Max, p.Backoff, core.MaxBackoff)
	}
	if p.Factor != 0 && !(p.Factor >= 1 && p.Factor <= maxFactor) {
		r.add(path+".factor", "%v is out of range: use 1, where all waits are equal, to %d", p.Factor, maxFactor)
	}
	if !(p.Jitter >= 0 && p.Jitter <= 1) {
		r.add(path+".jitter", "%v is out of range: use 0 to 1", p.Jitter)
	}
}
