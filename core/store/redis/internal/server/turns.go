package server

import (
	"context"
	"sync"
	"time"
)

// Turns lets the large exchanges of a gateway run one after the other. Redis runs one command at a
// time, so each large exchange that it has queued delays the small calls of all clients.
type Turns chan struct{}

func NewTurns() Turns { return make(Turns, 1) }

const (
	// maxTurn is the longest time for which an exchange, with the pause after it, makes others wait,
	// so that an exchange without an answer does not block the rest.
	maxTurn = time.Second
	// shortTurn is how long an exchange may take without a pause after it. The pause after a longer
	// exchange is as long as the exchange, so that small calls of others find Redis idle half of the
	// time.
	shortTurn = 8 * time.Millisecond
)

// Take waits for a turn. The caller must call done after its exchange. If ctx ends first, err is
// its error.
func (t Turns) Take(ctx context.Context) (done func(), err error) {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	began, next := time.Now(), sync.OnceFunc(func() { <-t })
	late := time.AfterFunc(maxTurn, next)
	return func() {
		if took := time.Since(began); took > shortTurn {
			late.Reset(min(took, maxTurn-took))
			return
		}
		late.Stop()
		next()
	}, nil
}
