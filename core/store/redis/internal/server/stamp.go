package server

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

// storeStamp is a text that identifies the data on the server. Without it, the gateway would not
// notice that another server answers, or the same one after it has lost everything: because of an
// empty volume, an emptied database, or a failover to an empty replica. Opening a store on an empty
// server creates a stamp.
type storeStamp struct {
	Text string // the stamp, without the format that may follow a slash
	once sync.Once
	Lost chan struct{}             // closed when the server has another stamp, or none
	away atomic.Bool               // with replicas, set instead of closing Lost: another node may have the data
	Mark atomic.Int64              // the format that gateways write
	Seen atomic.Pointer[time.Time] // when the last request was sent whose answer had the right stamp and format
}

var ErrLost = core.CertainlyNotDone(core.Refuse(core.Busy, "The message store has lost its data and is being set up again. Try again."))

func (s *Server) ReadStamp(ctx context.Context) error {
	s.Stamp.Lost = make(chan struct{})
	key := s.Names.Registry().Stamp
	if _, err := s.Ask(ctx, conn.Replicated, "SETNX", key, strconv.FormatUint(rand.Uint64(), 36)); err != nil {
		return fmt.Errorf("cannot write the store's id: %w", err)
	}
	text, err := s.RDB.Get(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("cannot read the store's id: %w", err)
	}
	s.Stamp.Text, _, _ = strings.Cut(text, "/")
	return s.Intact()
}

func (s *Server) lost() error {
	if s.Stamp.away.Load() {
		return fmt.Errorf("redis at %s is empty or contains another store; with replicas=%d the gateway does not create a new store automatically: promote a node that has the data, or restart the gateway to create a new store: %w",
			s.Endpoint.Safe, s.Endpoint.Replicas, ErrLost)
	}
	select {
	case <-s.Stamp.Lost:
		return ErrLost
	default:
		return nil
	}
}

// Intact returns an error if the server has lost its data, or does not answer.
func (s *Server) Intact() error {
	if err := s.lost(); err != nil && !s.Stamp.away.Load() {
		return err
	}
	ctx, cancel := s.Bounded(context.Background())
	defer cancel()
	asked, k := time.Now(), s.Names.Registry()
	found, err := s.RDB.MGet(ctx, k.Stamp, k.Format).Result()
	if err != nil {
		return s.WrapError("check the store's id", err)
	}
	text, _ := found[0].(string)
	mark, _ := found[1].(string)
	stamp, _, _ := strings.Cut(text, "/")
	switch gone := stamp != s.Stamp.Text; {
	case conn.Atoi(mark) > s.Reads: // a gateway of a later version has raised the format: this store must be closed, and the next Open reports the format
		s.Stamp.once.Do(func() { close(s.Stamp.Lost) })
		return ErrLost
	case gone && s.Endpoint.Replicas > 0:
		if !s.Stamp.away.Swap(true) {
			s.Log.Error("the store has lost its data: the gateway refuses calls until the data is back", "err", s.lost())
		}
		return s.lost()
	case gone:
		s.Stamp.once.Do(func() { close(s.Stamp.Lost) })
		return ErrLost
	}
	s.Stamp.away.Store(false)
	s.Stamp.Mark.Store(int64(conn.Atoi(mark)))
	s.Stamp.Seen.Store(&asked)
	return nil
}

// Format is the highest format that this version reads. The store says which one to write.
const Format = FormatWithSchedules

const (
	oldest              = 3 // written by version 8fcb296; all later versions can read it
	FormatWithBlocks    = 4 // locks may be in blocks: see blocks in lua/state.lua
	FormatWithSchedules = 5 // entities may be schedules
)

// CheckFormat records a new store's format, and fails if this version cannot read the store.
func (s *Server) CheckFormat(ctx context.Context) error {
	key := s.Names.Registry().Format
	given, err := s.RDB.Get(ctx, key).Int()
	switch {
	case conn.IsNil(err):
		_, err = s.Ask(ctx, conn.Replicated, "SET", key, s.Reads)
		return err
	case err != nil:
		return fmt.Errorf("cannot read the store's format: %w", err)
	case given > s.Reads:
		return fmt.Errorf("a later version of Crosstown wrote the store in format %d, but this version reads format %d: start the later version", given, s.Reads)
	case given < oldest:
		return fmt.Errorf("the store has format %d, but this version reads only formats %d to %d: use another Redis, database or prefix", given, oldest, s.Reads)
	}
	return nil
}
