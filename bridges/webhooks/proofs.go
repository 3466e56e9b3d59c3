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
	failedAtOnce    = 20 // wrong proofs that an address may give at once if it has given no right one
	failedPerSecond = 1.0
	provenFor       = 24 * time.Hour
	maxProvers      = 4096
)

// proofs bounds how fast secrets can be tried: at each hook, an address may give only a limited
// number of wrong proofs in a given time. An address that has lately given a right proof is not
// limited: its sender must not suffer from other clients behind the same address. The zero value is
// ready.
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
	failed float64 // wrong proofs at the time at; the count decreases with time
	at     time.Time
	proven time.Time // time of the last right proof
}

func proverOf(r *http.Request, h *Hook) prover {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero value serves as an address, too
	return prover{bridges.Network(at.Addr()), h.Name}
}

// begin counts a proof as failed before it is checked, so that a client gains nothing by trying
// many at once. If there are too many, it returns how long no proof is checked.
func (p *proofs) begin(of prover, now time.Time) (pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.entry(of)
	if !c.proven.IsZero() && now.Sub(c.proven) < provenFor {
		return 0
	}
	if over := math.Ceil((c.left(now) - failedAtOnce + 1) / failedPerSecond); over > 0 {
		return time.Duration(over) * time.Second
	}
	c.failed, c.at = c.left(now)+1, now
	return 0
}

// right records a right proof, and forgets the wrong ones before it.
func (p *proofs) right(of prover, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.entry(of)
	c.proven, c.failed = now, 0
}

// untried takes back the count of a proof that had begun but was not checked.
func (p *proofs) untried(of prover) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.entry(of)
	c.failed = max(0, c.failed-1)
}

// left returns the number of wrong proofs that still count.
func (c *proofCount) left(now time.Time) float64 {
	return max(0, c.failed-now.Sub(c.at).Seconds()*failedPerSecond)
}

// entry returns the counts of a client, and makes it the most recent one. The caller holds p.mu.
func (p *proofs) entry(of prover) *proofCount {
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
	return e.Value.(*proofCount)
}
