// Package server represents the Redis of the store: its clock, format and stamp (the id of the
// stored data), and the other gateways that use it. It runs scripts, and translates errors.
package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

type Server struct {
	conn.Client
	ID       string
	Reads    int // highest format that this store reads
	Names    keyspace.Names
	Clock    Clock
	Peers    Peers
	Stamp    storeStamp
	Failures conn.Failures
	EndLocks func(ctx context.Context) error // ends the locks of gateways that have ended
	Left     func()                          // called when a gateway is no longer present
	Turns    Turns

	agreedSince time.Time // used only by KeepPresent

	gate   sync.RWMutex
	closed bool // guarded by gate
	Calls  sync.WaitGroup
}

// Enter begins a call, unless ctx has ended or the store is closed. End it with Calls.Done.
func (s *Server) Enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return Ended(ctx)
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return errClosed
	}
	if err := s.lost(); err != nil {
		return err
	}
	s.Calls.Add(1)
	return nil
}

// Call runs f with a bounded time, and Close waits for its end. what names the operation in errors.
func (s *Server) Call(ctx context.Context, what string, f func(ctx context.Context) error) error {
	if err := s.Enter(ctx); err != nil {
		return fmt.Errorf("cannot %s: %w", what, err)
	}
	defer s.Calls.Done()
	bounded, cancel := s.Bounded(ctx)
	defer cancel()
	err := f(bounded)
	if err != nil && conn.HasEnded(ctx) {
		err = Ended(ctx)
	}
	return s.WrapError(what, err)
}

// Close waits for calls in progress. already is true if it was called before.
func (s *Server) Close() (already bool) {
	s.gate.Lock()
	already = s.closed
	s.closed = true
	s.gate.Unlock()
	s.Calls.Wait()
	s.Stop()
	s.Background.Wait()
	return already
}

// Eval runs a script. Its answer begins with 'ok' or with a refusal, which Eval returns as a
// core.Code. Eval returns the rest of the answer, even if the error is a NotReplicated.
func (s *Server) Eval(ctx context.Context, sc *script.Script, keys []any, args ...any) ([]any, error) {
	if !sc.Fits(len(keys), len(args)) {
		return nil, fmt.Errorf("the gateway called the script %s with a wrong number of keys (%d) or arguments (%d): %w", sc.Name, len(keys), len(args), core.Internal)
	}
	var how conn.ExchangeMode
	if sc.Awaited {
		how = conn.Replicated
	}
	raw, err := s.Ask(ctx, how, sc.Command(keys, args...)...)
	reply, _ := raw.([]any)
	word, _ := First(reply).(string)
	switch {
	case word == "ok":
		return reply[1:], err
	case err == nil && word == "":
		err = fmt.Errorf("the script %s answered '%.100v' instead of a list that begins with a word: %w", sc.Name, raw, core.Internal)
	case err == nil:
		err = core.Code(word)
	}
	return nil, err
}

// List sends a command whose answer is a list.
func (s *Server) List(ctx context.Context, args ...any) ([]any, error) {
	reply, err := s.Do(ctx, args...)
	list, _ := reply.([]any)
	return list, err
}

func (s *Server) Lists(ctx context.Context, commands ...*redis.Cmd) ([][]any, error) {
	if err := s.Exchange(ctx, 0, commands...); err != nil {
		return nil, err
	}
	lists := make([][]any, len(commands))
	for i, c := range commands {
		var err error
		if lists[i], err = c.Slice(); err != nil {
			return nil, err
		}
	}
	return lists, nil
}

const maxPiped = 2000

// Piped sends n commands, which must only read, maxPiped in each exchange. Each keeps its error.
func (s *Server) Piped(ctx context.Context, n int, command func(i int) []any) []*redis.Cmd {
	replies := make([]*redis.Cmd, 0, n)
	for from := 0; from < n; from += maxPiped {
		for i := from; i < min(from+maxPiped, n); i++ {
			replies = append(replies, redis.NewCmd(ctx, command(i)...))
		}
		bounded, cancel := s.Bounded(ctx)
		_ = s.Exchange(bounded, 0, replies[from:]...) // each command keeps its error
		cancel()
	}
	return replies
}

const (
	MaxSilence = 15 * time.Second // after this time, a silent Pub/Sub connection counts as broken
	pingEvery  = 5 * time.Second
)

// Listen calls heard for each message, until the connection fails. It sends pings, so that a
// working connection is never silent.
func Listen(ctx context.Context, pubsub *redis.PubSub, heard func(message any)) {
	var pinging sync.WaitGroup
	defer pinging.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pinging.Go(func() {
		for wake.After(ctx, pingEvery) {
			_ = pubsub.Ping(ctx) // if the connection is broken, reading fails too
		}
	})
	for {
		message, err := pubsub.ReceiveTimeout(ctx, MaxSilence)
		if err != nil {
			return
		}
		heard(message)
	}
}
