package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

// storeStamp tells a server's data from that of another server, or of the same one after it has
// lost everything: an empty volume, an emptied database, a failover to an empty replica. A store
// that opens an empty server stamps it.
type storeStamp struct {
	text string
	once sync.Once
	lost chan struct{} // closed once the server has another stamp, or none
}

// errLost is returned after the server has lost its data.
var errLost = core.CertainlyNotDone(core.Refuse(core.Busy, "The message store has lost its data and is set up again. Try again."))

// readStamp reads the stamp, or makes one.
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

// Lost is closed once the server has lost its data. From then on all calls are Busy: close the
// store and open it again, which begins a new one.
func (s *Store) Lost() <-chan struct{} { return s.stamp.lost }

func (s *Store) isLost() bool {
	select {
	case <-s.stamp.lost:
		return true
	default:
		return false
	}
}

// intact returns an error if the server has lost its data, or cannot be asked.
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
