package link

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
)

const CensusTimeout = 2 * time.Second

type Member interface {
	comparable
	// Owned returns the connection's id in the log, and its owner. Neither changes.
	Owned() (id string, owner *Owner)
	// Conns calls these as jobs of the owner. Evacuate begins to close the connection.
	Describe() bridges.Connection
	Evacuate(reason string)
}

type Conns[C Member] struct {
	asking chan struct{} // holds an element during a call of Connections
	open   sync.Map      // each connection is a key
}

func NewConns[C Member]() *Conns[C] { return &Conns[C]{asking: make(chan struct{}, 1)} }

func (s *Conns[C]) Add(c C) { s.open.Store(c, nil) }

func (s *Conns[C]) Remove(c C) { s.open.Delete(c) }

func (s *Conns[C]) All() (all []C) {
	for c := range s.open.Range {
		all = append(all, c.(C))
	}
	return all
}

// Connections lists the connections, the oldest first. It leaves out a connection whose owner has
// not answered when ctx ends, or after CensusTimeout. Calls of Connections run one at a time.
func (s *Conns[C]) Connections(ctx context.Context) []bridges.Connection {
	ctx, cancel := context.WithTimeout(ctx, CensusTimeout)
	defer cancel()
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return nil
	}
	all := ask(ctx, s.All())
	slices.SortFunc(all, func(x, y bridges.Connection) int {
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.ID, y.ID))
	})
	return all
}

func ask[C Member](ctx context.Context, conns []C) (all []bridges.Connection) {
	answers := make([]chan bridges.Connection, len(conns))
	for i, c := range conns {
		answers[i] = make(chan bridges.Connection, 1) // buffered, so that no owner blocks
		_, owner := c.Owned()
		owner.Post(func() { answers[i] <- c.Describe() })
	}
	for i, c := range conns {
		_, owner := c.Owned()
		select {
		case told := <-answers[i]:
			all = append(all, told)
			continue
		case <-owner.Ended():
		case <-ctx.Done():
		}
		select { // the answer may have arrived just before ctx ended
		case told := <-answers[i]:
			all = append(all, told)
		default:
		}
	}
	return all
}

func (s *Conns[C]) CloseConnection(id string) bool {
	for _, c := range s.All() {
		if of, owner := c.Owned(); of == id {
			owner.Post(func() { c.Evacuate(bridges.ForcedText) })
			return true
		}
	}
	return false
}
