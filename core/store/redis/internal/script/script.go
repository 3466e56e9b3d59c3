// Package script contains the store's Lua scripts, and the numbers of their keys and arguments.
package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
)

//go:embed lua/*.lua
var lua embed.FS

// Script is a file in lua/. keys is the smallest number of keys of a call, fixed the number of
// arguments that are not repeated, and repeat the number of arguments for one repeated item. A test
// compares these numbers with the header of the file.
type Script struct {
	Name        string
	text        func() (source, sha string) // assembles the text at its first use
	keys, fixed int
	moreKeys    bool
	repeat      int
	Awaited     bool // its answers wait for replicas
	Receipted   bool // its calls can be sent again, because Redis keeps their answers (lua/receipt.lua)
	Repeatable  bool // its calls can be sent again, because running twice has no further effect

	before   string                   // file placed before lua/state.lua
	plain    string                   // file placed before lua/state.lua if the partition has no Features
	preludes []string                 // files placed before the script
	parts    []string                 // scripts placed before this one as functions of their ARGV
	variants [AllFeatures + 1]*Script // by Features; only for scripts on a partition's state
}

// Features are the parts of lua/ that a queue's scripts need in addition to lua/state.lua. Plain
// queues need none, so their scripts are smaller.
type Features uint8

const (
	SharedBodies Features = 1 << iota
	Sessions
	History
	AllFeatures = SharedBodies | Sessions | History
)

// Number of keys of each prelude.
const (
	sharedKeys  = 4
	sessionKeys = len(keyspace.SessionSuffixes)
	historyKeys = 1
)

var (
	Append              = stateScript("append", 2, 2, 6)
	LockUndo            = (&Script{Name: "lock_undo", keys: keyspace.StateKeys, fixed: stateArgs + 2, preludes: []string{"release_those"}}).onState()
	EndLocksOf          = (&Script{Name: "end_locks_of", keys: keyspace.StateKeys, fixed: stateArgs, repeat: 1, preludes: []string{"release_those"}}).onState()
	Lock                = stateScript("lock", 0, 7, 0)
	Settle              = (&Script{Name: "settle", keys: keyspace.StateKeys, fixed: stateArgs, repeat: 1, plain: "settle_plain", preludes: []string{"properties"}}).onState()
	Renew               = stateScript("renew", 0, 1, 1)
	LockDeferred        = stateScript("lock_deferred", 0, 5, 1)
	LockNumbers         = stateScript("lock_numbers", 0, 3, 1)
	Cancel              = stateScript("cancel", 0, 0, 1)
	Activate            = stateScript("activate", 0, 0, 2)
	Purge               = stateScript("purge", 0, 2, 0)
	Sweep               = (&Script{Name: "sweep_only", keys: keyspace.StateKeys, fixed: stateArgs + 1, before: "sweep_idle"}).onState()
	Stats               = (&Script{Name: "stats", keys: keyspace.StateKeys, fixed: stateArgs, preludes: []string{"count_locks"}}).onState()
	SessionAccept       = stateScript("session_accept", 0, 4, 0)
	SessionRenew        = stateScript("session_renew", 0, 3, 0)
	SessionTakeOver     = stateScript("session_take_over", 0, 3, 0)
	SessionRelease      = stateScript("session_release", 0, 2, 0)
	SessionLockMessages = stateScript("session_lock_messages", 0, 5, 0)
	SessionCheck        = stateScript("session_check", 0, 0, 2)
	SessionStateGet     = stateScript("session_state_get", 1, 2, 0)
	SessionStateSet     = stateScript("session_state_set", 3, 5, 0)
	SessionList         = stateScript("session_list", 2, 2, 0)
	SessionDescribe     = stateScript("session_describe", 1, 1, 1)
	HistoryAnnotate     = stateScript("history_annotate", 0, 0, 1)
	TopicPublish        = (&Script{
		Name: "topic_publish", keys: keyspace.StateKeys + 4, moreKeys: true, fixed: stateArgs + 4, repeat: 1, preludes: []string{"session_arrivals"},
	}).onState()
	AppendLock = (&Script{
		Name: "append_lock", keys: keyspace.StateKeys + 2, fixed: stateArgs + 9, repeat: 6, plain: "append_lock_plain",
		parts: []string{"append", "lock"},
	}).onState()
	Commit = (&Script{
		Name: "commit", keys: keyspace.StateKeys + 4, moreKeys: true, fixed: stateArgs + 9, repeat: 1,
		preludes: []string{"session_arrivals", "properties"}, parts: []string{"settle", "cancel", "append", "topic_publish"},
	}).onState()
	EntityTouch         = (&Script{Name: "entity_touch", keys: 2, repeat: 2}).load()
	Clear               = (&Script{Name: "clear", keys: 1, moreKeys: true, fixed: 1, repeat: 1}).load()
	PartitionCopy       = (&Script{Name: "partition_copy", keys: 2, moreKeys: true, fixed: 1, repeat: 1}).load()
	PartitionFill       = (&Script{Name: "partition_fill", keys: 2, moreKeys: true, fixed: 2, repeat: 1}).load()
	DuplicatesTrim      = newScript("duplicates_trim", 1, 1)
	Doorbell            = newScript("doorbell", 2, 0)
	Rate                = newScript("rate", 1, 4)
	TopicSetVersion     = newScript("topic_set_version", 2, 1)
	Counts              = (&Script{Name: "counts", keys: 3, moreKeys: true, fixed: 1, preludes: []string{"count_locks"}}).load()
	LockDeadlines       = (&Script{Name: "lock_deadlines", keys: 4, fixed: 1, repeat: 1}).load()
	SharedBodiesRelease = newScript("shared_bodies_release", 3, 1)
	EntityCreate        = (&Script{Name: "entity_create", keys: 7, fixed: 9, repeat: 1, preludes: []string{"entity_sizes"}}).load()
	EntityUpdate        = (&Script{Name: "entity_update", keys: 5, fixed: 7, repeat: 2, preludes: []string{"entity_sizes"}}).load()
	EntityDelete        = newScript("entity_delete", 5, 6)
	TopicClearFence     = newScript("topic_clear_fence", 1, 2)
	TopicGet            = newScript("topic_get", 5, 1)

	NamespaceCreate       = newScript("ns_create", 2, 4)
	NamespaceUpdate       = newScript("ns_update", 1, 5)
	NamespaceDelete       = newScript("ns_delete", 3, 4)
	NamespaceClaimRemoval = newScript("ns_claim_removal", 1, 2)
)

// awaited are the scripts whose answers wait for replicas, even refusals: a call that is repeated
// because its answer was lost must not get "already done" about data that only the master has. Some
// commands outside of scripts wait too: those that create, fill and fence partitions, those that
// report whether an entity exists, and the look-up of a Transit.Key. Locks, renewals, session
// locks, sweeps, touches, annotations and reads do not wait: a failover only makes locks end early
// or late.
var awaited = []string{
	"append", "append_lock", "topic_publish", "commit", "settle", "cancel", "activate", "purge", "clear", "session_state_set", "partition_fill",
	"entity_create", "entity_update", "entity_delete", "topic_set_version", "topic_clear_fence", "ns_create", "ns_update", "ns_delete",
}

// A call whose answer was lost, because the server restarted or failed over, is sent again.
// receipted scripts keep their answer in a receipt (lua/receipt.lua), and return it if the call has
// run before. unrepeatable scripts are not sent again: what they did is undone, or stays unknown.
// All other scripts have no effect the second time.
var (
	receipted = []string{
		"append", "append_lock", "topic_publish", "commit", "settle", "renew", "cancel", "activate",
		"session_accept", "session_renew", "session_release", "session_state_set",
	}
	unrepeatable = []string{"lock", "lock_deferred", "lock_numbers", "session_lock_messages", "session_take_over", "purge"}
)

const stateArgs = 4

// stateScript adds lua/state.lua, whose keys and arguments are not in keys, fixed and repeat.
func stateScript(name string, keys, fixed, repeat int) *Script {
	return (&Script{Name: name, keys: keyspace.StateKeys + keys, fixed: stateArgs + fixed, repeat: repeat}).onState()
}

func (s *Script) onState() *Script {
	base := *s
	var variants [AllFeatures + 1]*Script
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
		if Features(f)&SharedBodies != 0 {
			v.preludes = append(v.preludes, "shared_bodies")
			v.keys += sharedKeys
		}
		if Features(f)&Sessions != 0 {
			v.preludes = append(v.preludes, "session_arrivals", "sessions")
			v.keys += sessionKeys
		}
		if Features(f)&History != 0 {
			v.preludes = append(v.preludes, "history")
			v.keys += historyKeys
		}
		variants[f] = v.load()
	}
	variants[0].variants = variants
	return variants[0]
}

func newScript(name string, keys, fixed int) *Script {
	return (&Script{Name: name, keys: keys, fixed: fixed}).load()
}

func (s *Script) load() *Script {
	s.text = sync.OnceValues(s.assemble)
	s.Awaited = slices.Contains(awaited, s.Name)
	s.Receipted, s.Repeatable = slices.Contains(receipted, s.Name), !slices.Contains(unrepeatable, s.Name)
	return s
}

var sources sync.Map

func SourceOf(sha any) (source any, known bool) { return sources.Load(sha) }

func (s *Script) assemble() (source, sha string) {
	// Lua in Redis cannot import files, so preludes are placed after the line #!lua.
	shebang, rest, _ := strings.Cut(luaFile(s.Name), "\n")
	var text strings.Builder
	text.WriteString(shebang + "\n")
	if s.Receipted {
		text.WriteString("local function run()\n")
	}
	for _, prelude := range s.preludes {
		text.WriteString(luaFile(prelude))
	}
	for _, part := range s.parts {
		_, body, _ := strings.Cut(luaFile(part), "\n")
		text.WriteString("local function " + part + "(ARGV)\n" + body + "end\n")
	}
	if text.WriteString(rest); s.Receipted {
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
		panic(err) // the files are embedded
	}
	return string(text)
}

func (s *Script) With(f Features) *Script {
	if v := s.variants[f]; v != nil {
		return v
	}
	return s
}

func (s *Script) Command(keys []any, args ...any) []any {
	_, sha := s.text()
	c := make([]any, 0, 3+len(keys)+len(args))
	c = append(c, "EVALSHA", sha, len(keys))
	return append(append(c, keys...), args...)
}

func (s *Script) Variants() (sources, shas []string) {
	for _, v := range s.variants {
		source, sha := v.text()
		sources, shas = append(sources, source), append(shas, sha)
	}
	return sources, shas
}

func (s *Script) Fits(keys, args int) bool {
	if s.Receipted {
		keys, args = keys-1, args-1
	}
	extra := args - s.fixed
	return (keys == s.keys || s.moreKeys && keys > s.keys) && (extra == 0 || extra > 0 && s.repeat > 0 && extra%s.repeat == 0)
}
