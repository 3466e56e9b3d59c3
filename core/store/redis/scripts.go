package redis

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
)

//go:embed lua/*.lua
var lua embed.FS

// script is a file of lua/ and the form of its calls: the number of keys (or more), of fixed
// arguments, and of arguments per item (0 if there are no items). A test compares these with the
// file's header.
type script struct {
	name                  string
	text                  func() (source, sha string) // put together at its first use
	keys, fixed           int
	moreKeys              bool
	repeat                int
	awaited               exchangeMode // replicated if its answer waits for replicas
	receipted, repeatable bool         // its calls take a receipt (see lua/receipt.lua), or may be sent again without

	before   string                   // a file placed before lua/state.lua
	plain    string                   // the same for partitions that need no other preludes
	preludes []string                 // files placed before the script
	parts    []string                 // scripts placed before it as functions of their ARGV
	variants [allFeatures + 1]*script // with more preludes, by features; only for scripts on a partition's state
}

// scriptFeatures says which preludes a partition's scripts need besides lua/state.lua. Plain queues
// need none, and pay for none.
type scriptFeatures uint8

const (
	withSharedBodies scriptFeatures = 1 << iota // lua/shared_bodies.lua
	withSessions                                // lua/sessions.lua
	withHistory                                 // lua/history.lua
	allFeatures      = withSharedBodies | withSessions | withHistory
)

// Numbers of keys that the preludes take.
const (
	sharedKeys  = 4
	sessionKeys = len(keyspace.SessionSuffixes)
	historyKeys = 1
)

// The scripts.
var (
	appendScript              = stateScript("append", 2, 2, 6)
	lockUndoScript            = (&script{name: "lock_undo", keys: keyspace.StateKeys, fixed: stateArgs + 2, preludes: []string{"release_those"}}).onState()
	endLocksOfScript          = (&script{name: "end_locks_of", keys: keyspace.StateKeys, fixed: stateArgs, repeat: 1, preludes: []string{"release_those"}}).onState()
	lockScript                = stateScript("lock", 0, 7, 0)
	settleScript              = (&script{name: "settle", keys: keyspace.StateKeys, fixed: stateArgs, repeat: 1, plain: "settle_plain"}).onState()
	renewScript               = stateScript("renew", 0, 1, 1)
	lockDeferredScript        = stateScript("lock_deferred", 0, 5, 1)
	lockNumbersScript         = stateScript("lock_numbers", 0, 3, 1)
	cancelScript              = stateScript("cancel", 0, 0, 1)
	purgeScript               = stateScript("purge", 0, 2, 0)
	sweepScript               = (&script{name: "sweep_only", keys: keyspace.StateKeys, fixed: stateArgs + 1, before: "sweep_idle"}).onState()
	statsScript               = (&script{name: "stats", keys: keyspace.StateKeys, fixed: stateArgs, preludes: []string{"count_locks"}}).onState()
	sessionAcceptScript       = stateScript("session_accept", 0, 4, 0)
	sessionRenewScript        = stateScript("session_renew", 0, 3, 0)
	sessionTakeOverScript     = stateScript("session_take_over", 0, 3, 0)
	sessionReleaseScript      = stateScript("session_release", 0, 2, 0)
	sessionLockMessagesScript = stateScript("session_lock_messages", 0, 5, 0)
	sessionCheckScript        = stateScript("session_check", 0, 0, 2)
	sessionStateGetScript     = stateScript("session_state_get", 1, 2, 0)
	sessionStateSetScript     = stateScript("session_state_set", 3, 4, 0)
	sessionListScript         = stateScript("session_list", 2, 2, 0)
	sessionDescribeScript     = stateScript("session_describe", 1, 1, 1)
	historyAnnotateScript     = stateScript("history_annotate", 0, 0, 1)
	topicPublishScript        = (&script{
		name: "topic_publish", keys: keyspace.StateKeys + 4, moreKeys: true, fixed: stateArgs + 4, repeat: 1, preludes: []string{"session_arrivals"},
	}).onState()
	appendLockScript = (&script{
		name: "append_lock", keys: keyspace.StateKeys + 2, fixed: stateArgs + 9, repeat: 6, plain: "append_lock_plain",
		parts: []string{"append", "lock"},
	}).onState()
	commitScript = (&script{
		name: "commit", keys: keyspace.StateKeys + 4, moreKeys: true, fixed: stateArgs + 9, repeat: 1,
		preludes: []string{"session_arrivals"}, parts: []string{"settle", "cancel", "append", "topic_publish"},
	}).onState()
	entityTouchScript         = (&script{name: "entity_touch", keys: 2, repeat: 2}).load()
	clearScript               = (&script{name: "clear", keys: 1, moreKeys: true, fixed: 1, repeat: 1}).load()
	partitionCopyScript       = (&script{name: "partition_copy", keys: 2, moreKeys: true, fixed: 1, repeat: 1}).load()
	partitionFillScript       = (&script{name: "partition_fill", keys: 2, moreKeys: true, fixed: 2, repeat: 1}).load()
	duplicatesTrimScript      = newScript("duplicates_trim", 1, 1)
	doorbellScript            = newScript("doorbell", 2, 0)
	rateScript                = newScript("rate", 1, 4)
	topicSetVersionScript     = newScript("topic_set_version", 2, 1)
	countsScript              = (&script{name: "counts", keys: 3, moreKeys: true, fixed: 1, preludes: []string{"count_locks"}}).load()
	lockDeadlinesScript       = (&script{name: "lock_deadlines", keys: 4, fixed: 1, repeat: 1}).load()
	sharedBodiesReleaseScript = newScript("shared_bodies_release", 3, 1)
	entityCreateScript        = (&script{name: "entity_create", keys: 7, fixed: 9, repeat: 1, preludes: []string{"entity_sizes"}}).load()
	entityUpdateScript        = (&script{name: "entity_update", keys: 5, fixed: 7, repeat: 2, preludes: []string{"entity_sizes"}}).load()
	entityDeleteScript        = newScript("entity_delete", 5, 6)
	topicClearFenceScript     = newScript("topic_clear_fence", 1, 2)
	topicGetScript            = newScript("topic_get", 5, 1)

	nsCreateScript       = newScript("ns_create", 2, 4)
	nsUpdateScript       = newScript("ns_update", 1, 5)
	nsDeleteScript       = newScript("ns_delete", 3, 4)
	nsClaimRemovalScript = newScript("ns_claim_removal", 1, 2)
)

// stateArgs is the number of arguments lua/state.lua takes.
const stateArgs = 4

// stateScript loads a script on a partition's state. keys, fixed and repeat count what it takes
// beyond lua/state.lua.
func stateScript(name string, keys, fixed, repeat int) *script {
	base := script{name: name, keys: keyspace.StateKeys + keys, fixed: stateArgs + fixed, repeat: repeat}
	return base.onState()
}

// onState makes the variants of a script on a partition's state.
func (s *script) onState() *script {
	base := *s
	var variants [allFeatures + 1]*script
	for f := range variants {
		v := base
		v.preludes = nil
		if base.before != "" {
			v.preludes = append(v.preludes, base.before)
		}
		if base.plain != "" && f == 0 {
			v.preludes = append(v.preludes, base.plain)
		}
		v.preludes = append(append(v.preludes, "state", "sweep"), base.preludes...)
		if scriptFeatures(f)&withSharedBodies != 0 {
			v.preludes = append(v.preludes, "shared_bodies")
			v.keys += sharedKeys
		}
		if scriptFeatures(f)&withSessions != 0 {
			v.preludes = append(v.preludes, "session_arrivals", "sessions")
			v.keys += sessionKeys
		}
		if scriptFeatures(f)&withHistory != 0 {
			v.preludes = append(v.preludes, "history")
			v.keys += historyKeys
		}
		variants[f] = v.load()
	}
	variants[0].variants = variants
	return variants[0]
}

func newScript(name string, keys, fixed int, preludes ...string) *script {
	s := &script{name: name, keys: keys, fixed: fixed, preludes: preludes}
	return s.load()
}

func (s *script) load() *script {
	s.text = sync.OnceValues(s.assemble)
	if slices.Contains(awaited, s.name) {
		s.awaited = replicated
	}
	s.receipted, s.repeatable = slices.Contains(receipted, s.name), !slices.Contains(unrepeatable, s.name)
	return s
}

// sources are the scripts in use, by their SHA.
var sources sync.Map

// assemble puts the script together from its files.
func (s *script) assemble() (source, sha string) {
	// Scripts cannot import, so preludes go between the #!lua line and the rest.
	shebang, rest, _ := strings.Cut(luaFile(s.name), "\n")
	var text strings.Builder
	text.WriteString(shebang + "\n")
	if s.receipted {
		text.WriteString("local function run()\n")
	}
	for _, prelude := range s.preludes {
		text.WriteString(luaFile(prelude))
	}
	for _, part := range s.parts {
		_, body, _ := strings.Cut(luaFile(part), "\n")
		text.WriteString("local function " + part + "(ARGV)\n" + body + "end\n")
	}
	if text.WriteString(rest); s.receipted {
		text.WriteString("end\n" + luaFile("receipt"))
	}
	source = text.String()
	sum := sha1.Sum([]byte(source))
	sha = hex.EncodeToString(sum[:])
	sources.Store(sha, source)
	return source, sha
}

func luaFile(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the files are part of the binary
	}
	return string(text)
}

// command returns an EVALSHA command. If the server does not know the script, exchange sends all of it.
func (s *script) command(keys []any, args ...any) []any {
	_, sha := s.text()
	c := make([]any, 0, 3+len(keys)+len(args))
	c = append(c, "EVALSHA", sha, len(keys))
	c = append(c, keys...)
	return append(c, args...)
}

// fits reports whether a call has as many keys and arguments as the script's header demands.
func (s *script) fits(keys, args int) bool {
	if s.receipted {
		keys, args = keys-1, args-2
	}
	extra := args - s.fixed
	return (keys == s.keys || s.moreKeys && keys > s.keys) && (extra == 0 || extra > 0 && s.repeat > 0 && extra%s.repeat == 0)
}

// eval runs a script once and returns its reply, even if the error is a notReplicated.
func (s *Store) eval(ctx context.Context, sc *script, keys []any, args ...any) (any, error) {
	if !sc.fits(len(keys), len(args)) {
		return nil, fmt.Errorf("script %s called with %d keys and %d arguments: %w", sc.name, len(keys), len(args), core.Internal)
	}
	return s.ask(ctx, sc.awaited, sc.command(keys, args...)...)
}

// do sends one command, once. If its answer is lost, it may have run and must not be repeated.
func (s *Store) do(ctx context.Context, args ...any) (any, error) {
	return s.ask(ctx, 0, args...)
}

// ask sends one command, once.
func (s *Store) ask(ctx context.Context, how exchangeMode, args ...any) (any, error) {
	c := redis.NewCmd(ctx, args...)
	err := s.exchange(ctx, how, c)
	return c.Val(), err
}

// once is a command that go-redis does not repeat. For a single server MaxRetries has that effect,
// but not for a cluster.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// transition runs a script on a partition's state, repeatedly until everything due at now has been
// swept. If the script refuses, code says why.
func (s *Store) transition(ctx context.Context, sh *shard, now int64, sc *script, keys []any, args ...any) (reply []any, code core.Code, err error) {
	var r *receipt
	switch {
	case sc.receipted:
		r = s.receipt(sh)
		defer r.end()
	case sc.repeatable:
		r = s.repeatable(sh)
	}
	return s.transitionUnder(ctx, sh, now, r, sc, keys, args...)
}

// transitionUnder is transition with a receipt, or with nil if the call is not sent again.
func (s *Store) transitionUnder(ctx context.Context, sh *shard, now int64, r *receipt, sc *script, keys []any, args ...any) (reply []any, code core.Code, err error) {
	if sh.Sub.IsDeadLetter() {
		// Messages that are due in the queue itself may become dead letters.
		if _, _, err := s.runUntilSwept(ctx, s.queueOf(sh), now, nil, sweepScript, nil, 0); err != nil {
			return nil, "", err
		}
	}
	return s.runUntilSwept(ctx, sh, now, r, sc, keys, args...)
}

// sweep carries out what is due, as every operation does first.
func (s *Store) sweep(ctx context.Context, sh *shard) error {
	_, _, err := s.transition(ctx, sh, s.millis(), sweepScript, nil, 0)
	return err
}

func (s *Store) runUntilSwept(ctx context.Context, sh *shard, now int64, r *receipt, sc *script, keys []any, args ...any) ([]any, core.Code, error) {
	if sc.variants[sh.features] != nil {
		sc = sc.variants[sh.features]
	}
	allKeys := slices.Clip(sh.state)
	if len(keys) > 0 {
		allKeys = append(allKeys, keys...)
	}
	allArgs := append(sh.stateArgs(now), args...)
	for {
		theseKeys, theseArgs := r.arguments(allKeys, allArgs)
		raw, err := s.eval(ctx, sc, theseKeys, theseArgs...)
		reply, _ := raw.([]any)
		var again bool
		if again, err = r.again(ctx, err); again {
			continue
		}
		if err != nil {
			if word, _ := first(reply).(string); word == "ok" { // replicas are too few
				return reply[1:], "", err
			}
			return nil, "", err
		}
		if len(reply) == 0 {
			return nil, "", fmt.Errorf("script %s answered %T: %w", sc.name, raw, core.Internal)
		}
		word, _ := reply[0].(string)
		switch word {
		case "ok":
			return reply[1:], "", nil
		case "more":
		default:
			return nil, core.Code(word), nil
		}
	}
}
