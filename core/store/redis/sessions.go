package redis

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/server"
)

// sessionName returns the core.SessionKey of id and, if id differs from it, a zero byte and id.
func sessionName(id string) string {
	key := string(core.KeyOfSession(id))
	if key == id {
		return key
	}
	return key + "\x00" + id
}

func sessionID(name string) string {
	if _, id, ok := strings.Cut(name, "\x00"); ok {
		return id
	}
	return name
}

func sessionOf(m *core.Message) string {
	if !m.HasSession() {
		return ""
	}
	return sessionName(m.SessionID)
}

// Once begun, AcceptSession ignores the end of ctx. Otherwise a session could stay locked unused.
func (p *handle) AcceptSession(ctx context.Context, r core.SessionRequest) (l core.SessionLock, ok bool, next time.Time, err error) {
	what, takesOver := "accept session", !r.Next && !r.TakeOver.IsZero()
	if takesOver {
		what = "take over session"
	}
	err = p.operate(context.WithoutCancel(ctx), what, func(ctx context.Context, sh *shard) error {
		now := p.millis()
		until := now + sh.LockDuration.Milliseconds()
		lock := core.SessionLock{ID: r.ID, Index: sh.Index, Nonce: core.NewNonce(), Mode: r.Mode, Until: core.Instant(until)}
		if r.Mode == core.Exclusive {
			lock.Nonce = marked(sh.mark)
		}
		sc, args := script.SessionAccept, []any{until, proofOf(&lock), "one", sessionName(r.ID)}
		switch {
		case r.Next:
			args[2] = "next"
		case takesOver:
			lock.Nonce, lock.Mode = r.TakeOver.Nonce(), core.NonExclusive
			nonce := secret(lock.Nonce)
			if lock.Token() != r.TakeOver {
				nonce = "" // matches no lock
			}
			sc, args = script.SessionTakeOver, []any{until, nonce, string(core.KeyOfSession(r.ID))}
		}
		if err := p.undoLostLocks(ctx, sh); err != nil {
			return err
		}
		reply, err := p.transitionInSessions(ctx, sh, now, sc, nil, args...)
		if core.CodeOf(err) == core.SessionLocked {
			if ended, failed := p.endLocks(ctx, sh); ended || failed != nil {
				reply, err = p.transitionInSessions(ctx, sh, now, sc, nil, args...)
			}
		}
		if !takesOver && conn.MayHaveRun(err) {
			p.lostLocks.add(sh.place, lease{nonce: lock.Nonce, until: until})
		}
		switch {
		case err != nil:
			return err
		case takesOver && len(reply) == 1:
			times, _ := reply[0].(int64)
			lock.TakeOvers = uint32(times)
		case takesOver || len(reply) != 2:
			return server.ErrReply
		case reply[0] == int64(0): // no session has messages
			at, _ := reply[1].(int64)
			next = core.Instant(at)
			return nil
		default:
			name, _ := reply[1].(string)
			lock.ID = sessionID(name)
		}
		l, ok = lock, true
		return nil
	})
	return l, ok, next, err
}

func (s *Store) transitionInSessions(ctx context.Context, sh *shard, now int64, sc *script.Script, keys []any, args ...any) ([]any, error) {
	if !sh.Sessions {
		return nil, core.Refuse(core.NotAllowed, "The entity does not support sessions: create an entity with RequiresSession.")
	}
	return s.transition(ctx, sh, now, sc, keys, args...)
}

func (s *Store) inSession(ctx context.Context, sh *shard, now int64, l core.SessionLock, sc *script.Script, keys []any, args ...any) ([]any, error) {
	if l.Index != sh.Index {
		return nil, cmp.Or(s.sweep(ctx, sh), error(core.SessionLockLost))
	}
	return s.transitionInSessions(ctx, sh, now, sc, keys, args...)
}

func (p *handle) RenewSession(ctx context.Context, l core.SessionLock) (until time.Time, err error) {
	err = p.operate(ctx, "renew session", func(ctx context.Context, sh *shard) error {
		now := p.millis()
		end := now + sh.LockDuration.Milliseconds()
		_, err := p.inSession(ctx, sh, now, l, script.SessionRenew, nil, end, proofOf(&l), string(l.Key()))
		if err == nil {
			until = core.Instant(end)
		}
		return err
	})
	return until, err
}

func (p *handle) ReleaseSession(ctx context.Context, l core.SessionLock) error {
	return p.operate(ctx, "release session", func(ctx context.Context, sh *shard) error {
		proof := proofOf(&l)
		if l.Nonce == 0 {
			proof = "" // an empty proof matches any lock
		}
		_, err := p.inSession(ctx, sh, p.millis(), l, script.SessionRelease, nil, proof, string(l.Key()))
		return err
	})
}

func (p *handle) SessionState(ctx context.Context, l core.SessionLock) (state []byte, err error) {
	err = p.operate(ctx, "read session state", func(ctx context.Context, sh *shard) error {
		reply, err := p.inSession(ctx, sh, p.millis(), l, script.SessionStateGet, []any{sh.stateKey(0)}, proofOf(&l), string(l.Key()))
		if err != nil {
			return err
		}
		if len(reply) == 1 {
			if text, ok := reply[0].(string); ok {
				state = []byte(text)
			}
		}
		return nil
	})
	return state, err
}

func (p *handle) SetSessionState(ctx context.Context, l core.SessionLock, state []byte) error {
	return p.operate(ctx, "set session state", func(ctx context.Context, sh *shard) error {
		keys := []any{sh.stateKey(0), sh.stateKey(1), sh.stateKey(2)}
		full, ended, err := p.takeRoom(ctx, sh, len(state))
		if err != nil {
			return err
		}
		_, err = p.inSession(ctx, sh, p.millis(), l, script.SessionStateSet, keys, proofOf(&l), sessionName(l.ID), server.Flag(state != nil), state, server.Flag(full != nil))
		ended(err)
		if core.CodeOf(err) == core.QuotaExceeded {
			return full
		}
		return err
	})
}

// stateKey returns a key of lua/session_state_set.lua: 0 is states, 1 changed, 2 stateful.
func (sh *shard) stateKey(i int) string { return sh.keys.Prefix + keyspace.StateSuffixes[i:i+1] }

// Reading listPage sessions takes about a millisecond of the server's time.
const listPage = 100

func (p *handle) ListSessions(ctx context.Context, since time.Time, after core.SessionKey, top int) (ids []string, err error) {
	err = p.operate(ctx, "list sessions", func(ctx context.Context, sh *shard) error {
		if !sh.Sessions {
			return nil
		}
		if err := p.sweep(ctx, sh); err != nil {
			return err
		}
		for len(ids) < top {
			var page []string
			var last core.SessionKey
			limit := min(top-len(ids), listPage)
			done, err := p.server.Turns.Take(ctx)
			if err != nil {
				return err
			}
			if since.IsZero() {
				page, last, err = p.activePage(ctx, sh, after, limit)
			} else {
				page, last, err = p.statefulPage(ctx, sh, after, since)
			}
			done()
			if err != nil || last == "" {
				return err
			}
			ids = append(ids, page[:min(len(page), top-len(ids))]...)
			if since.IsZero() && len(page) < limit {
				return nil
			}
			after = last
		}
		return nil
	})
	return ids, err
}

func (s *Store) activePage(ctx context.Context, sh *shard, after core.SessionKey, limit int) (page []string, last core.SessionKey, err error) {
	reply, err := s.transition(ctx, sh, s.millis(), script.SessionList, []any{sh.stateKey(1), sh.stateKey(2)}, string(after), limit)
	if err != nil || len(reply) == 0 {
		return nil, "", err
	}
	for _, raw := range reply {
		name, _ := raw.(string)
		page = append(page, sessionID(name))
	}
	return page, core.KeyOfSession(page[len(page)-1]), nil
}

// statefulPage lists sessions with state. It may miss one whose state is set between two pages.
func (s *Store) statefulPage(ctx context.Context, sh *shard, after core.SessionKey, since time.Time) (page []string, last core.SessionKey, err error) {
	from := "-"
	if after != "" {
		from = "(" + string(after)
	}
	found, err := s.server.List(ctx, "ZRANGEBYLEX", sh.stateKey(2), from, "+", "LIMIT", 0, listPage)
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	changed, err := s.server.List(ctx, append([]any{"HMGET", sh.stateKey(1)}, found...)...)
	if err != nil || len(changed) != len(found) {
		return nil, "", cmp.Or(err, server.ErrReply)
	}
	for i, raw := range found {
		key, _ := raw.(string)
		last = core.SessionKey(key)
		set, _ := changed[i].(string)
		set, id, written := strings.Cut(set, "\x00")
		if at, ok := server.ScoreMillis(set); ok && at > since.UnixMilli() {
			if !written {
				id = key
			}
			page = append(page, id)
		}
	}
	return page, last, nil
}

func (p *handle) DescribeSessions(ctx context.Context, ids []string, content bool) ([]core.SessionInfo, error) {
	all := make([]core.SessionInfo, len(ids))
	for i, id := range ids {
		all[i].ID = id
	}
	err := p.operate(ctx, "describe sessions", func(ctx context.Context, sh *shard) error {
		if !sh.Sessions {
			return nil
		}
		for page := range slices.Chunk(all, listPage) {
			args := []any{server.Flag(content)}
			for i := range page {
				args = append(args, sessionName(page[i].ID))
			}
			done, err := p.server.Turns.Take(ctx)
			if err != nil {
				return err
			}
			reply, err := p.transition(ctx, sh, p.millis(), script.SessionDescribe, []any{sh.stateKey(0)}, args...)
			done()
			if err != nil {
				return err
			}
			if err := readSessions(reply, page, content); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

func readSessions(reply []any, into []core.SessionInfo, content bool) error {
	const members = 7
	if len(reply) != members*len(into) {
		return server.ErrReply
	}
	for i := range into {
		told, each := &into[i], reply[members*i:]
		var numbers [members - 1]int64
		for j := range numbers {
			n, ok := each[j].(int64)
			if !ok {
				return server.ErrReply
			}
			numbers[j] = n
		}
		told.Available, told.Locked, told.Deferred, told.Delayed = numbers[0], numbers[1]+numbers[3], numbers[2], numbers[3]
		told.LockedUntil = core.Instant(numbers[4])
		if told.HasState = numbers[5] >= 0; told.HasState {
			told.StateBytes = numbers[5]
		}
		if state, _ := each[6].(string); told.HasState && content {
			told.State = []byte(state)
		}
	}
	return nil
}
