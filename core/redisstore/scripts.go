package redisstore

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

//go:embed lua/*.lua
var lua embed.FS

// script is one file of lua/, and how it is called: so many keys, or more, so
// many fixed arguments, and then repeat arguments for each item, 0 if there are
// none. A test compares this with the file's header.
type script struct {
	name        string
	source, sha string
	keys, fixed int
	moreKeys    bool
	repeat      int

	before   string                    // a file of lua/ that goes in front of lua/state.lua
	preludes []string                  // files of lua/ that go in front
	parts    []string                  // scripts that go in front as functions of their ARGV
	variants [everyFlavour + 1]*script // with more preludes, by flavour; nil but for scripts on a partition's state
}

// flavour says which preludes a partition's scripts need beside lua/state.lua.
// Plain queues need none, and pay for none.
type flavour uint8

const (
	sharing      flavour = 1 << iota // lua/shared.lua
	inSessions                       // lua/sessions.lua
	remembering                      // lua/history.lua
	everyFlavour = sharing | inSessions | remembering
)

// Numbers of keys that the preludes take.
const (
	sharedKeys  = 4
	sessionKeys = len(sessionLetters)
	historyKeys = 1
)

// The scripts.
var (
	appendScript   = stateScript("append", 2, 2, 6)
	lockScript     = stateScript("lock", 0, 4, 0)
	settleScript   = stateScript("settle", 0, 0, 4)
	renewScript    = stateScript("renew", 0, 1, 1)
	deferredScript = stateScript("deferred", 0, 5, 1)
	cancelScript   = stateScript("cancel", 0, 0, 1)
	purgeScript    = stateScript("purge", 0, 2, 0)
	sweepScript    = (&script{name: "sweep", keys: stateKeys, fixed: stateArgs + 1, before: "idle"}).onState()
	statsScript    = stateScript("stats", 0, 0, 0)
	acceptScript   = stateScript("accept", 0, 4, 0)
	extendScript   = stateScript("extend", 0, 3, 0)
	takeOverScript = stateScript("take_over", 0, 3, 0)
	releaseScript  = stateScript("release", 0, 2, 0)
	takeScript     = stateScript("take", 0, 4, 0)
	heldScript     = stateScript("held", 0, 0, 2)
	recallScript   = stateScript("recall", 1, 2, 0)
	rememberScript = stateScript("remember", 3, 4, 0)
	listScript     = stateScript("list", 2, 2, 0)
	rekeyScript    = stateScript("rekey", 3, 2, 1)
	annotateScript = stateScript("annotate", 0, 0, 1)
	publishScript  = (&script{
		name: "publish", keys: stateKeys + 4, moreKeys: true, fixed: stateArgs + 4, repeat: 1, preludes: []string{"arrivals"},
	}).onState()
	commitScript = (&script{
		name: "commit", keys: stateKeys + 4, moreKeys: true, fixed: stateArgs + 9, repeat: 1,
		preludes: []string{"arrivals"}, parts: []string{"settle", "cancel", "append", "publish"},
	}).onState()
	touchScript     = (&script{name: "touch", keys: 2, repeat: 2}).load()
	clearScript     = (&script{name: "clear", keys: 1, moreKeys: true, fixed: 1, repeat: 1}).load()
	forgetScript    = newScript("forget", 1, 1)
	ringScript      = newScript("ring", 2, 0)
	raiseScript     = newScript("raise", 2, 1)
	countsScript    = (&script{name: "counts", keys: 3, moreKeys: true, fixed: 1}).load()
	deadlinesScript = (&script{name: "deadlines", keys: 3, fixed: 1, repeat: 1}).load()
	unshareScript   = newScript("unshare", 3, 1)
	createScript    = (&script{name: "create", keys: 7, fixed: 9, repeat: 1, preludes: []string{"room"}}).load()
	updateScript    = (&script{name: "update", keys: 5, fixed: 7, repeat: 2, preludes: []string{"room"}}).load()
	deleteScript    = newScript("delete", 5, 6)
	fencedScript    = newScript("fenced", 1, 2)
	topicScript     = newScript("topic", 5, 1)

	foundScript    = newScript("found", 2, 4)
	amendScript    = newScript("amend", 1, 5)
	dissolveScript = newScript("dissolve", 3, 4)
	claimScript    = newScript("claim", 1, 2)
)

// stateArgs is how many arguments lua/state.lua takes.
const stateArgs = 4

// stateScript loads a script that works on a partition's state, with keys,
// fixed arguments and arguments per item beyond those of lua/state.lua.
func stateScript(name string, keys, fixed, repeat int) *script {
	base := script{name: name, keys: stateKeys + keys, fixed: stateArgs + fixed, repeat: repeat}
	return base.onState()
}

// onState makes the variants of a script that works on a partition's state.
func (s *script) onState() *script {
	base := *s
	var variants [everyFlavour + 1]*script
	for f := range variants {
		v := base
		v.preludes = nil
		if base.before != "" {
			v.preludes = append(v.preludes, base.before)
		}
		v.preludes = append(append(v.preludes, "state"), base.preludes...)
		if flavour(f)&sharing != 0 {
			v.preludes = append(v.preludes, "shared")
			v.keys += sharedKeys
		}
		if flavour(f)&inSessions != 0 {
			v.preludes = append(v.preludes, "arrivals", "sessions")
			v.keys += sessionKeys
		}
		if flavour(f)&remembering != 0 {
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
	// Scripts cannot import: what they share is put between the #!lua line and the rest.
	shebang, rest, _ := strings.Cut(luaFile(s.name), "\n")
	var text strings.Builder
	text.WriteString(shebang + "\n")
	for _, prelude := range s.preludes {
		text.WriteString(luaFile(prelude))
	}
	for _, part := range s.parts {
		_, body, _ := strings.Cut(luaFile(part), "\n")
		text.WriteString("local function " + part + "(ARGV)\n" + body + "end\n")
	}
	s.source = text.String() + rest
	sum := sha1.Sum([]byte(s.source))
	s.sha = hex.EncodeToString(sum[:])
	return s
}

func luaFile(name string) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the files are part of the binary
	}
	return string(text)
}

// command is the arguments of EVALSHA, or of EVAL if whole.
func (s *script) command(whole bool, keys []any, args ...any) []any {
	c := make([]any, 0, 3+len(keys)+len(args))
	if whole {
		c = append(c, "EVAL", s.source)
	} else {
		c = append(c, "EVALSHA", s.sha)
	}
	c = append(c, len(keys))
	c = append(c, keys...)
	return append(c, args...)
}

// fits reports whether a call has the arguments that the script's header lists.
func (s *script) fits(keys, args int) bool {
	extra := args - s.fixed
	return (keys == s.keys || s.moreKeys && keys > s.keys) && (extra == 0 || extra > 0 && s.repeat > 0 && extra%s.repeat == 0)
}

// eval runs a script once and returns its reply. A server that does not know
// the script has run nothing, so it is then sent whole.
func (s *Store) eval(ctx context.Context, sc *script, keys []any, args ...any) (any, error) {
	if !sc.fits(len(keys), len(args)) {
		return nil, fmt.Errorf("script %s called with %d keys and %d arguments: %w", sc.name, len(keys), len(args), core.Internal)
	}
	reply, err := s.do(ctx, sc.command(false, keys, args...)...)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = s.do(ctx, sc.command(true, keys, args...)...)
	}
	return reply, err
}

// do sends one command, once: a command whose answer was lost may have run, so
// the client must not repeat it.
func (s *Store) do(ctx context.Context, args ...any) (any, error) {
	c := once{redis.NewCmd(ctx, args...)}
	_ = s.rdb.Process(ctx, c) // the command keeps its error
	return c.Result()
}

// once is a command that go-redis does not repeat. MaxRetries does that for a
// single server, but not for a cluster.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// transition runs a script on a partition's state at now until all that was
// due is swept. The refusals that the script answers with come as code.
func (s *Store) transition(ctx context.Context, sh *shard, now int64, sc *script, keys []any, args ...any) (reply []any, code core.Code, err error) {
	if sh.Sub.IsDeadLetter() {
		// What is due in the queue itself may end up here.
		if _, _, err := s.settleDown(ctx, s.livingOf(sh), now, sweepScript, nil, 0); err != nil {
			return nil, "", err
		}
	}
	return s.settleDown(ctx, sh, now, sc, keys, args...)
}

// sweep does what is due, as every operation does first.
func (s *Store) sweep(ctx context.Context, sh *shard) error {
	_, _, err := s.transition(ctx, sh, s.millis(), sweepScript, nil, 0)
	return err
}

func (s *Store) settleDown(ctx context.Context, sh *shard, now int64, sc *script, keys []any, args ...any) ([]any, core.Code, error) {
	if sc.variants[sh.flavour] != nil {
		sc = sc.variants[sh.flavour]
	}
	allKeys := slices.Clip(sh.state)
	if len(keys) > 0 {
		allKeys = append(allKeys, keys...)
	}
	allArgs := append(sh.stateArgs(now), args...)
	for {
		raw, err := s.eval(ctx, sc, allKeys, allArgs...)
		if err != nil {
			return nil, "", err
		}
		reply, _ := raw.([]any)
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
