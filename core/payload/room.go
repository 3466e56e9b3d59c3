package payload

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	// A body of at most smallBody bytes takes no room, because it is soon decoded and forgotten.
	smallBody = 64 << 10
	// growth is the largest ratio of a decoded body's memory to the body: each "1," of JSON is an
	// element of 16 bytes in a list, whose capacity doubles when it grows.
	growth = 16
)

// Room is the memory for decoding the large bodies of a gateway. A body waits until its decoded
// form fits. A body that could never fit waits until no other body is being decoded.
type Room struct {
	size int64
	free *semaphore.Weighted
}

// size is in bytes.
func NewRoom(size int64) *Room { return &Room{size, semaphore.NewWeighted(size)} }

// enter takes room for a body until leave is called. It fails only if ctx ends. r may be nil.
func (r *Room) enter(ctx context.Context, m *core.Message) (leave func(), err error) {
	n := int64(len(m.Body.Bytes))
	if r == nil || n <= smallBody {
		return func() {}, nil
	}
	n = min(n*growth, r.size)
	if err := r.free.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() { r.free.Release(n) }, nil
}
