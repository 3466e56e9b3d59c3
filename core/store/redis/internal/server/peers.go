package server

import (
	"sync"
	"time"
)

// Peers are the registered gateways. A gateway counts as ended if its registration has not changed
// for gatewayLife. Periods in which the server did not answer this gateway's checks do not count.
type Peers struct {
	mu    sync.Mutex
	known map[string]*peer // by id
	asked time.Time
}

type peer struct {
	registered string
	since      time.Time
	done       map[string]bool // Pub/Sub channels of partitions in which this gateway has ended the peer's locks
}

// forgetAfter is how long the registration of an ended gateway is kept. By then, all other gateways
// have ended its locks.
const forgetAfter = time.Minute

// Note returns the ids of present gateways, and of those whose registrations can be removed.
func (p *Peers) Note(registered map[string]string, now time.Time) (there, forgotten []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	anew := now.Sub(p.asked) > 3*ClockRefresh
	before := p.known
	p.asked, p.known = now, make(map[string]*peer, len(registered))
	for id, text := range registered {
		each := before[id]
		switch {
		case each == nil || each.registered != text:
			each = &peer{registered: text, since: now}
		case anew:
			each.since = now
		}
		p.known[id] = each
		switch quiet := now.Sub(each.since); {
		case quiet < gatewayLife:
			there = append(there, id)
		case quiet >= forgetAfter:
			forgotten = append(forgotten, id)
		}
	}
	return there, forgotten
}

// Ended returns the ended gateways that may have locks in the partition with that Pub/Sub channel;
// for the channel "", all ended gateways.
// The caller calls done after it has ended these locks.
func (p *Peers) Ended(channel string) (ids []string, done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var of []*peer
	for id, each := range p.known {
		if p.asked.Sub(each.since) >= gatewayLife && !each.done[channel] {
			ids, of = append(ids, id), append(of, each)
		}
	}
	return ids, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, each := range of {
			if each.done == nil {
				each.done = make(map[string]bool)
			}
			each.done[channel] = true
		}
	}
}
