package config

import (
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// History says which queues and topics remember what happens to their messages; a
// topic's subscriptions remember as it does. Of several that are for one entity
// the first counts.
type History struct {
	Entity string        `config:"entity"` // a name; * in it is any text
	Keep   time.Duration `config:"keep"`   // for how long; 0: DefaultHistory
	Max    int           `config:"max"`    // events of an entity at most; 0: DefaultEvents
}

// Defaults of a History.
const (
	DefaultHistory = 24 * time.Hour
	DefaultEvents  = 100_000
)

// minEvents is few, but enough for an answer.
const minEvents = 100

func (h *Contents) validateHistories(prefix string, r *report) {
	for i := range h.Histories {
		p, path := &h.Histories[i], elementPath(prefix+"explain", i)
		p.validate(path, r)
		if slices.ContainsFunc(h.Histories[:i], func(q History) bool { return strings.EqualFold(q.Entity, p.Entity) }) {
			r.add(path+".entity", "%q is there twice (upper and lower case are the same): only the first counts, remove the other", p.Entity)
		}
	}
}

func (p *History) validate(path string, r *report) {
	topic, _, isSubscription := core.SplitSubscription(p.Entity)
	switch {
	case p.Entity == "":
		r.add(path+".entity", "it is missing: name a queue or topic, or a pattern such as orders/* or *")
	case isSubscription:
		r.add(path+".entity", "%q is a subscription, which remembers as its topic does: name %q", p.Entity, topic)
	}
	if !r.concerns(path+".keep") && p.Keep != 0 && (p.Keep < core.MinHistory || p.Keep > core.MaxHistory) {
		r.add(path+".keep", "%v is out of range: use %v to %v", p.Keep, core.MinHistory, core.MaxHistory)
	}
	if !r.concerns(path+".max") && p.Max != 0 && (p.Max < minEvents || p.Max > core.MaxHistoryEvents) {
		r.add(path+".max", "%d is out of range: use %d to %d", p.Max, minEvents, core.MaxHistoryEvents)
	}
}
