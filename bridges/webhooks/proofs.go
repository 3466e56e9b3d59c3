package webhooks

import (
	"container/list"
	"math"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
)

const (
	failedAtOnce    = 20 // proofs of an address that has proven nothing at a hook, then
	failedPerSecond = 1.0
	provenFor       = 24 * time.Hour
	maxProvers      = 4096
)

// proofs bounds how fast secrets can be tried: an address may fail at a hook so often in a time. An
// address that has given a right proof lately is not bounded, because its sender must not suffer from
// other clients behind the same address. The zero value is ready.
type proofs struct {
	mu    sync.Mutex
	of    map[prover]*list.Element // of *proofCount
	order list.List                // the least recently counted first
}

// prover is a client's address at a hook.
type prover struct {
	address netip.Addr
	hook    string
}

type proofCount struct {
	prover
	failed float64 // less what time has forgiven
	at     time.Time
	proven time.Time // last
}

func proverOf(r *http.Request, h *Hook) prover {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero value is an address too
	return prover{bridges.Network(at.Addr()), h.Name}
}

// wait is how long no proof is looked at, in whole seconds; 0: it may be given now.
func (p *proofs) wait(of prover, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.of[of]
	if e == nil {
		return 0
	}
	c := e.Value.(*proofCount)
	if !c.proven.IsZero() && now.Sub(c.proven) < provenFor {
		return 0
	}
	over := math.Ceil((c.left(now) - failedAtOnce + 1) / failedPerSecond)
	return time.Duration(max(0, over)) * time.Second
}

// left is what time has not forgiven.
func (c *proofCount) left(now time.Time) float64 {
	return max(0, c.failed-now.Sub(c.at).Seconds()*failedPerSecond)
}

// count counts a proof.
func (p *proofs) count(of prover, right bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[prover]*list.Element{}
	}
	e := p.of[of]
	if e == nil {
		if p.order.Len() == maxProvers {
			delete(p.of, p.order.Remove(p.order.Front()).(*proofCount).prover)
		}
		e = p.order.PushBack(&proofCount{prover: of})
		p.of[of] = e
	}
	p.order.MoveToBack(e)
	c := e.Value.(*proofCount)
	if right {
		c.proven, c.failed = now, 0
		return
	}
	c.failed, c.at = c.left(now)+1, now
}
