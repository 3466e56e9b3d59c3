package redis

import (
	"strconv"

	"github.com/crosstown-mq/crosstown/core"
)

// stateKeys is the number of keys lua/state.lua names.
const stateKeys = 16

// keyset holds the names of a partition's keys. The hash tag in braces puts them into one slot of a
// cluster, together with those of a topic's subscriptions. A queue and its dead letters share the
// tag, too, so moves between them are one step.
type keyset struct {
	prefix   string
	stream   string
	head     string
	doorbell string // a channel
	seen     string // shared by the queue and its dead letters
	moved    string // shared in the same way
	state    []any  // KEYS[1..16] of lua/state.lua
	shared   []any  // the keys of lua/shared_bodies.lua; nil except for subscriptions
	sessions []any  // the keys of lua/sessions.lua
	history  string // the key of lua/history.lua; shared by all sub-queues
}

// keySuffixes are the ends of KEYS[1..12] of lua/state.lua, in order. Each is one letter.
const keySuffixes = "mhlrdpfqgxyw"

// Ends of other keys. Those for the bodies that subscriptions share, and for the ids that a topic
// has seen, follow the hash tag directly.
const (
	targetSuffixes      = "mhw" + sharedSuffix // of every queue that publications fill: stream, head, doorbell, shares
	streamSuffix        = "m"
	locksSuffix         = "l"
	blocksSuffix        = "L"
	expirySuffix        = "x"
	sessionSuffixes     = "nobtjiavP"   // the keys of lua/sessions.lua in order
	arrivalSuffixes     = "nobjvPl"     // those that arrivals need: of, waits, open, holders, waiting, paused; and locks
	sessionOfSuffix     = "n"           // of these, the session of each message
	holdersSuffix       = "j"           // of these, the holders of sessions
	stateSuffixes       = "ces"         // states of sessions
	messageDataSuffixes = "lLrdpfqgxyz" // a queue's data beside stream and head, without sessions
	sharedSuffix        = "z"           // of a subscription: messages with shared bodies
	movedSuffix         = "k"           // Transit.Keys
	seenSuffix          = "u"
	bodiesSuffix        = "B"
	refsSuffix          = "R"
	subscriptionsSuffix = "S"
	historySuffix       = "H"
	rateSuffix          = "T"
	receiptSuffix       = "A" // of receipts; a gateway's mark and a number follow
)

// naming is the prefix of all keys and channels of a store.
type naming string

// tag returns the hash tag of a partition.
func (p naming) tag(r core.Ref) string {
	return string(p) + "{" + r.Entity + ":" + strconv.Itoa(int(r.Index)) + "}"
}

// base returns the start of all keys of a queue, topic or subscription.
func (p naming) base(r core.Ref) string {
	if r.Subscription == "" {
		return p.tag(r)
	}
	return p.tag(r) + r.Subscription + ":"
}

// subPrefixes follow the base, for each sub-queue.
var subPrefixes = [core.SubQueues]string{core.DeadLetter: "$", core.Transfer: ">", core.TransferDeadLetter: ">$"}

// prefix returns the start of all keys of a queue or sub-queue.
func (p naming) prefix(r core.Ref) string { return p.base(r) + subPrefixes[r.Sub] }

func (p naming) doorbell(r core.Ref) string { return p.prefix(r) + "w" }

func (p naming) head(r core.Ref) string { return p.prefix(r) + "h" }

func (p naming) stream(r core.Ref) string { return p.prefix(r) + "m" }

// history returns the key of the history of a queue and its sub-queues.
func (p naming) history(r core.Ref) string { return p.base(r) + historySuffix }

// bodies and refs return the keys of the data that the subscriptions of a topic's partition share.
func (p naming) bodies(r core.Ref) string { return p.tag(r) + bodiesSuffix }

func (p naming) refs(r core.Ref) string { return p.tag(r) + refsSuffix }

// subscriptions returns the key of the set of IDs of a topic's subscriptions.
func (p naming) subscriptions(r core.Ref) string { return p.tag(r) + subscriptionsSuffix }

func (p naming) keys(r core.Ref) keyset {
	dead := r
	dead.Sub = r.Sub.DeadLetters()
	prefix, deadPrefix := p.prefix(r), p.prefix(dead)
	k := keyset{
		prefix: prefix, stream: p.stream(r), head: p.head(r), doorbell: p.doorbell(r),
		seen: p.base(r) + seenSuffix, moved: p.base(r) + movedSuffix, history: p.history(r),
	}
	k.state = make([]any, 0, stateKeys)
	k.state = append(append(k.state, withSuffixes(prefix, keySuffixes)...), deadPrefix+"m", deadPrefix+"h", deadPrefix+"w", prefix+blocksSuffix)
	if r.Subscription != "" {
		k.shared = []any{prefix + sharedSuffix, deadPrefix + sharedSuffix, p.bodies(r), p.refs(r)}
	}
	k.sessions = withSuffixes(prefix, sessionSuffixes)
	return k
}

// withSuffixes returns a key for each suffix.
func withSuffixes(prefix, suffixes string) []any {
	keys := make([]any, len(suffixes))
	for i := range keys {
		keys[i] = prefix + suffixes[i:i+1]
	}
	return keys
}

// all returns every key that a partition of an entity with its sub-queues may have and, for a
// topic, the keys that its subscriptions share.
func (p naming) all(r core.Ref) []string {
	var keys []string
	for r.Sub = range core.SubQueues {
		prefix := p.prefix(r)
		for _, suffix := range keySuffixes[:len(keySuffixes)-1] + blocksSuffix + sessionSuffixes + stateSuffixes + sharedSuffix { // keySuffixes ends with a channel
			keys = append(keys, prefix+string(suffix))
		}
	}
	keys = append(keys, p.base(r)+seenSuffix, p.base(r)+movedSuffix, p.history(r), p.base(r)+rateSuffix)
	if r.Subscription == "" {
		keys = append(keys, p.bodies(r), p.refs(r), p.subscriptions(r))
	}
	return keys
}

// changes returns the channel on which gateways publish changes of the catalogue.
func (p naming) changes() string { return string(p) + "ct:changes" }

// probe returns the key that Probe writes; n spreads it over the slots of a cluster.
func (p naming) probe(n int) string { return string(p) + "{ct:probe:" + strconv.Itoa(n) + "}" }

// catalogueKeys holds the names of a namespace's catalogue keys. seal exists for a while after the
// namespace has been deleted.
type catalogueKeys struct {
	entities, names, accessed, versions, fences, seal string
	rules                                             string // start of the keys of subscriptions' rules
}

func (p naming) catalogue(namespace string) catalogueKeys {
	prefix := string(p) + "{ct:" + namespace + "}"
	return catalogueKeys{prefix + "e", prefix + "i", prefix + "a", prefix + "v", prefix + "f", prefix + "d", prefix + "r:"}
}

// registryKeys holds the keys of the registry of namespaces. Unlike all others, their hash tag has
// no colon.
type registryKeys struct{ namespaces, names, remains, format, stamp, gateways string }

func (p naming) registry() registryKeys {
	prefix := string(p) + "{ct}"
	return registryKeys{prefix + "n", prefix + "i", prefix + "r", prefix + "f", prefix + "s", prefix + "g"}
}

// all returns the keys in the order in which the scripts that change the catalogue take them.
func (k *catalogueKeys) all() []any {
	return []any{k.entities, k.names, k.accessed, k.versions, k.fences}
}

// member returns the member that stands in locks for a message under a lock with this nonce.
func member(n int64, nonce string) string { return padded(n) + nonce }

// padded returns a number with 15 digits, enough for 2^48, so that strings sort like the numbers.
func padded(n int64) string {
	var b [15]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = '0' + byte(n%10)
		n /= 10
	}
	return string(b[:])
}

// entryID returns the ID of the stream entry with a number.
func entryID(n int64) string { return "0-" + strconv.FormatInt(n, 10) }
