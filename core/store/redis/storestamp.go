package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
)

// storeStamp distinguishes a server's data from that of another server, or of the same server after
// it has lost everything: an empty volume, an emptied database, a failover to an empty replica. A
// store that opens an empty server stamps it.
type storeStamp struct {
	text string // without the format, which may follow it after a slash
	once sync.Once
	lost chan struct{}             // closed once the server has another stamp, or none
	away atomic.Bool               // the same with replicas: another node may have the data
	mark atomic.Int64              // the format that gateways write
	seen atomic.Pointer[time.Time] // when the request was sent to which the server answered with both
}

// errLost is returned after the server has lost its data.
var errLost = core.CertainlyNotDone(core.Refuse(core.Busy, "The message store has lost its data and is being set up again. Try again."))

// readStamp reads the stamp, or creates one.
func (s *Store) readStamp(ctx context.Context) error {
	s.stamp.lost = make(chan struct{})
	key := s.names.Registry().Stamp
	if _, err := s.client.Ask(ctx, conn.Replicated, "SETNX", key, strconv.FormatUint(rand.Uint64(), 36)); err != nil {
		return fmt.Errorf("stamp the store: %w", err)
	}
	text, err := s.client.RDB.Get(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("read the store's stamp: %w", err)
	}
	s.stamp.text, _, _ = strings.Cut(text, "/")
	return s.intact()
}

// Lost returns a channel that is closed once the server has lost its data. From then on all calls
// are Busy: close the store and open it again, which begins a new one. With replicas the channel
// stays open, and calls are Busy until the data are back.
func (s *Store) Lost() <-chan struct{} { return s.stamp.lost }

// lost returns an error once the server has lost its data.
func (s *Store) lost() error {
	if s.stamp.away.Load() {
		return fmt.Errorf("redis at %s is empty or contains another store; with replicas=%d the gateway does not create a new store automatically: promote a node that has the data, or restart the gateway to create a new store: %w",
			s.client.Endpoint.Safe, s.client.Endpoint.Replicas, errLost)
	}
	select {
	case <-s.stamp.lost:
		return errLost
	default:
		return nil
	}
}

// intact returns an error if the server has lost its data, or does not answer.
func (s *Store) intact() error {
	if err := s.lost(); err != nil && !s.stamp.away.Load() {
		return err
	}
	ctx, cancel := s.client.Bounded(context.Background())
	defer cancel()
	asked, k := time.Now(), s.names.Registry()
	found, err := s.client.RDB.MGet(ctx, k.Stamp, k.Format).Result()
	if err != nil {
		return s.wrapError("look for the store's stamp", err)
	}
	text, _ := found[0].(string)
	mark, _ := found[1].(string)
	stamp, _, _ := strings.Cut(text, "/")
	switch gone := stamp != s.stamp.text; {
	case conn.Atoi(mark) > s.reads: // a gateway of a later version has set it: Open explains that
		s.stamp.once.Do(func() { close(s.stamp.lost) })
		return errLost
	case gone && s.client.Endpoint.Replicas > 0:
		if !s.stamp.away.Swap(true) {
			s.client.Log.Error("the store has lost its data: the gateway refuses calls until the data is back", "err", s.lost())
		}
		return s.lost()
	case gone:
		s.stamp.once.Do(func() { close(s.stamp.lost) })
		return errLost
	}
	s.stamp.away.Store(false)
	s.stamp.mark.Store(int64(conn.Atoi(mark)))
	s.stamp.seen.Store(&asked)
	return nil
}
