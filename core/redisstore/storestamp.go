package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// storeStamp tells what a server holds from what another one does, or the same one after
// it has lost everything: an empty volume, an emptied database, a failover to an
// empty replica. Whoever opens an empty store stamps it.
type storeStamp struct {
	text string
	once sync.Once
	lost chan struct{} // closed once the server has another stamp, or none
}

// errLost answers calls after the server has lost what it held.
var errLost = core.CertainlyNotDone(core.Refuse(core.Busy, "The message store has lost what it held, and is set up anew. Try again."))

// readStamp reads the stamp, or makes it.
func (s *Store) readStamp(ctx context.Context) error {
	s.stamp.lost = make(chan struct{})
	key := s.names.registry().stamp
	if err := s.rdb.SetNX(ctx, key, strconv.FormatUint(rand.Uint64(), 36), 0).Err(); err != nil {
		return fmt.Errorf("stamp the store: %w", err)
	}
	var err error
	if s.stamp.text, err = s.rdb.Get(ctx, key).Result(); err != nil {
		return fmt.Errorf("read the store's stamp: %w", err)
	}
	return nil
}

// Lost is closed once the server has lost what it held. All calls are Busy from
// then on: close the store and open it again, which makes a new one of it.
func (s *Store) Lost() <-chan struct{} { return s.stamp.lost }

func (s *Store) isLost() bool {
	select {
	case <-s.stamp.lost:
		return true
	default:
		return false
	}
}

// intact returns an error where the server does not hold any more what it did, or
// cannot be asked.
func (s *Store) intact() error {
	if s.isLost() {
		return errLost
	}
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	text, err := s.rdb.Get(ctx, s.names.registry().stamp).Result()
	switch {
	case isNil(err) || err == nil && text != s.stamp.text:
		s.stamp.once.Do(func() { close(s.stamp.lost) })
		return errLost
	case err != nil:
		return s.wrapError("look for the store's stamp", err)
	}
	return nil
}
