// Package keyspace names the keys and channels that the store uses in Redis.
package keyspace

import (
	"strconv"

	"github.com/crosstown-mq/crosstown/core"
)

const StateKeys = 16 // number of the keys of lua/state.lua

// Set has the names of a partition's keys. The hash tag puts them into one slot of a cluster, with
// those of a topic's subscriptions. A queue and its dead letters have the same tag, so a script can
// move messages between them.
type Set struct {
	Prefix   string
	Stream   string
	Head     string
	Doorbell string // a channel, not a key
	Seen     string // shared by the queue and its dead letters
	Moved    string // shared by the queue and its dead letters
	State    []any  // KEYS[1..16] of lua/state.lua
	Shared   []any  // keys of lua/shared_bodies.lua; nil unless the queue belongs to a subscription
	Sessions []any  // keys of lua/sessions.lua
	History  string // key of lua/history.lua, shared by all sub-queues
}

// keySuffixes are the ends of KEYS[1..12] of lua/state.lua, one letter each.
const keySuffixes = "mhlrdpfqgxyw"

// Ends of keys for other purposes, one letter each; some are also in keySuffixes. bodiesSuffix,
// refsSuffix and subscriptionsSuffix follow the hash tag directly, because a topic's subscriptions
// share these keys.
const (
	TargetSuffixes      = "mhw" + SharedSuffix // what a publication needs of each queue that gets a copy
	streamSuffix        = "m"
	LocksSuffix         = "l"
	BlocksSuffix        = "L"
	ExpirySuffix        = "x"
	SessionSuffixes     = "nobtjiavP" // keys of lua/sessions.lua, in order
	ArrivalSuffixes     = "nobjvPl"   // those of SessionSuffixes that a script needs to store messages in sessions, then LocksSuffix
	SessionOfSuffix     = "n"         // one of SessionSuffixes: the session of each message
	HoldersSuffix       = "j"         // one of SessionSuffixes: the holders of sessions
	StateSuffixes       = "ces"
	MessageDataSuffixes = "lLrdpfqgxyz" // data of a queue's messages, except stream, head and sessions
	SharedSuffix        = "z"           // messages of a subscription with shared bodies
	MovedSuffix         = "k"           // Transit.Keys of messages that were moved here
	SeenSuffix          = "u"
	bodiesSuffix        = "B"
	refsSuffix          = "R"
	subscriptionsSuffix = "S"
	historySuffix       = "H"
	RateSuffix          = "T"
	ReceiptSuffix       = "A" // a gateway's mark and a number follow
)

// Names is the prefix of all keys and channels of a store.
type Names string

func (p Names) Tag(r core.Ref) string {
	return string(p) + "{" + r.Entity + ":" + strconv.Itoa(int(r.Index)) + "}"
}

// Base is the prefix of all keys of an entity, including those of its sub-queues: it ignores r.Sub.
func (p Names) Base(r core.Ref) string {
	if r.Subscription == "" {
		return p.Tag(r)
	}
	return p.Tag(r) + r.Subscription + ":"
}

var subPrefixes = [core.SubQueues]string{core.DeadLetter: "$", core.Transfer: ">", core.TransferDeadLetter: ">$"}

func (p Names) Prefix(r core.Ref) string { return p.Base(r) + subPrefixes[r.Sub] }

func (p Names) Doorbell(r core.Ref) string { return p.Prefix(r) + "w" }

func (p Names) Head(r core.Ref) string { return p.Prefix(r) + "h" }

func (p Names) Stream(r core.Ref) string { return p.Prefix(r) + "m" }

func (p Names) History(r core.Ref) string { return p.Base(r) + historySuffix }

// Bodies is the key of the message bodies that the subscriptions of a topic's partition share.
func (p Names) Bodies(r core.Ref) string { return p.Tag(r) + bodiesSuffix }

func (p Names) Refs(r core.Ref) string { return p.Tag(r) + refsSuffix }

func (p Names) Subscriptions(r core.Ref) string { return p.Tag(r) + subscriptionsSuffix }

func (p Names) Keys(r core.Ref) Set {
	dead := r
	dead.Sub = r.Sub.DeadLetters()
	prefix, deadPrefix := p.Prefix(r), p.Prefix(dead)
	k := Set{
		Prefix: prefix, Stream: p.Stream(r), Head: p.Head(r), Doorbell: p.Doorbell(r),
		Seen: p.Base(r) + SeenSuffix, Moved: p.Base(r) + MovedSuffix, History: p.History(r),
	}
	k.State = make([]any, 0, StateKeys)
	k.State = append(append(k.State, WithSuffixes(prefix, keySuffixes)...), deadPrefix+"m", deadPrefix+"h", deadPrefix+"w", prefix+BlocksSuffix)
	if r.Subscription != "" {
		k.Shared = []any{prefix + SharedSuffix, deadPrefix + SharedSuffix, p.Bodies(r), p.Refs(r)}
	}
	k.Sessions = WithSuffixes(prefix, SessionSuffixes)
	return k
}

func WithSuffixes(prefix, suffixes string) []any {
	keys := make([]any, len(suffixes))
	for i := range keys {
		keys[i] = prefix + suffixes[i:i+1]
	}
	return keys
}

// All returns the partition's keys, including those that a topic's subscriptions share.
func (p Names) All(r core.Ref) []string {
	keys := p.Some(r, keySuffixes[:len(keySuffixes)-1]+BlocksSuffix+SessionSuffixes+SharedSuffix) // the last of keySuffixes names a channel
	keys = append(keys, p.History(r), p.Base(r)+RateSuffix)
	if r.Subscription == "" {
		keys = append(keys, p.Bodies(r), p.Refs(r), p.Subscriptions(r))
	}
	return keys
}

// Some returns some keys of the partition r: in each sub-queue the keys with these suffixes, and
// also the keys for session states, duplicate detection and moved messages.
func (p Names) Some(r core.Ref, suffixes string) (keys []string) {
	for r.Sub = range core.SubQueues {
		own := suffixes
		if r.Sub == core.Main {
			own += StateSuffixes
		}
		for _, suffix := range own {
			keys = append(keys, p.Prefix(r)+string(suffix))
		}
	}
	return append(keys, p.Base(r)+SeenSuffix, p.Base(r)+MovedSuffix)
}

func (p Names) Changes() string { return string(p) + "ct:changes" }

// Probe names a key for test writes. Different n reach different slots of a cluster.
func (p Names) Probe(n int) string { return string(p) + "{ct:probe:" + strconv.Itoa(n) + "}" }

// Catalogue has the keys of a namespace's entities. The key Seal exists for an hour after the
// namespace was deleted.
type Catalogue struct {
	Entities, Names, Accessed, Versions, Fences, Seal string
	rules                                             string
}

func (p Names) Catalogue(namespace string) Catalogue {
	prefix := string(p) + "{ct:" + namespace + "}"
	return Catalogue{prefix + "e", prefix + "i", prefix + "a", prefix + "v", prefix + "f", prefix + "d", prefix + "r:"}
}

// RulesOf returns the key of the sorted set of e's rules. All scores are 0, so rules are ordered by
// name, and a page is found by rank.
func (k *Catalogue) RulesOf(e *core.Entity) string { return k.rules + e.ID }

// Registry has the keys of the whole store. Only its hash tag has no colon.
type Registry struct{ Namespaces, Names, Remains, Format, Stamp, Gateways string }

func (p Names) Registry() Registry {
	prefix := string(p) + "{ct}"
	return Registry{prefix + "n", prefix + "i", prefix + "r", prefix + "f", prefix + "s", prefix + "g"}
}

// All returns the keys in the order in which the scripts that change entities take them.
func (k *Catalogue) All() []any {
	return []any{k.Entities, k.Names, k.Accessed, k.Versions, k.Fences}
}

func Member(n int64, nonce string) string { return Padded(n) + nonce }

// Padded writes n with 15 digits, enough for 2^48, so that strings sort like numbers.
func Padded(n int64) string {
	var b [15]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = '0' + byte(n%10)
		n /= 10
	}
	return string(b[:])
}

// EntryID returns the stream id of the message with the number n (without the partition's index).
func EntryID(n int64) string { return "0-" + strconv.FormatInt(n, 10) }
