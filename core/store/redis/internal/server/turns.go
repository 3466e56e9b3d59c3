package server

import (
	"context"
	"time"
)

// Turns lets the large exchanges of a gateway run one after the other. Redis runs one command at a
// time, so each large exchange that it has queued delays the small calls of all clients.
type Turns chan struct{}

func NewTurns() Turns { return make(Turns, 1) }

// maxTurn is how long a large exchange waits for its turn. After that it runs beside others, so
// that an exchange without an answer does not block the rest.
const maxTurn = time.Second

// Take waits for a turn. The caller must call done after its exchange. If ctx ends first, err is
// its error.
func (t Turns) Take(ctx context.Context) (done func(), err error) {
	late := time.NewTimer(maxTurn)
	defer late.Stop()
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-late.C:
		return func() {}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
