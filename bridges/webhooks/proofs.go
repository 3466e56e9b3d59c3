package webhooks

import (
	"math"
	"net/http"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/crosstown-mq/crosstown/bridges"
)

const (
	failedAtOnce    = 20
	failedPerSecond = 1.0
	provenFor       = 24 * time.Hour
	maxProvers      = 4096
)

// proofs limits how fast secrets can be guessed: at each hook, each address may give only a few
// wrong proofs. An address that has lately given a right one is not limited, because other clients
// behind the same address must not stop the true sender.
type proofs struct {
	mu sync.Mutex
	of *lru.Cache[prover, *proofCount]
}

func newProofs() *proofs {
	of, _ := lru.New[prover, *proofCount](maxProvers) // the size is valid
	return &proofs{of: of}
}

type prover struct {
	address netip.Addr
	hook    string
}

type proofCount struct {
	failed float64 // wrong proofs, as counted at the time in the field at; the count decreases with time
	at     time.Time
	proven time.Time
}

func proverOf(r *http.Request, h *Hook) prover {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // an invalid address becomes the zero value, which is limited, too
	return prover{bridges.Network(at.Addr()), h.Name}
}

// begin counts a proof as wrong before it is checked, so that trying many at once has no advantage.
// If the client has sent too many wrong ones, begin returns how long it will check none.
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

func (p *proofs) right(of prover, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.entry(of)
	c.proven, c.failed = now, 0
}

// untried undoes begin for a proof that was not checked.
func (p *proofs) untried(of prover) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.entry(of)
	c.failed = max(0, c.failed-1)
}

func (c *proofCount) left(now time.Time) float64 {
	return max(0, c.failed-now.Sub(c.at).Seconds()*failedPerSecond)
}

// entry returns the count of a client. p.mu is held.
func (p *proofs) entry(of prover) *proofCount {
	c, known := p.of.Get(of)
	if !known {
		c = new(proofCount)
		p.of.Add(of, c)
	}
	return c
}
