package redisstore

import (
	"strconv"

	"github.com/crosstown-mq/crosstown/core"
)

// stateKeys is how many keys lua/state.lua names.
const stateKeys = 15

// keyset holds the names of a partition's keys. The hash tag in braces puts
// them all into one slot of a cluster; a dead-letter queue lies behind its main
// queue's tag, so moves between them are one step.
type keyset struct {
	prefix string
	stream string
	head   string
	bell   string // a channel
	seen   string // shared by queue and dead letters
	state  []any  // KEYS[1..15] of lua/state.lua
}

// letters name the keys of KEYS[1..12] in order.
const letters = "mhlrdpfqgxyw"

// naming is the prefix in front of all keys and channels of a store.
type naming string

// tag is the hash tag of a partition.
func (p naming) tag(r core.Ref) string {
	return string(p) + "{" + r.Entity + ":" + strconv.Itoa(int(r.Index)) + "}"
}

// prefix begins every key of a queue or sub-queue.
func (p naming) prefix(r core.Ref) string {
	if r.Sub == core.DeadLetter {
		return p.tag(r) + "$"
	}
	return p.tag(r)
}

func (p naming) bell(r core.Ref) string { return p.prefix(r) + "w" }

func (p naming) head(r core.Ref) string { return p.prefix(r) + "h" }

func (p naming) stream(r core.Ref) string { return p.prefix(r) + "m" }

func (p naming) keys(r core.Ref) keyset {
	prefix, dead := p.prefix(r), p.tag(r)+"$"
	k := keyset{prefix: prefix, stream: p.stream(r), head: p.head(r), bell: p.bell(r), seen: p.tag(r) + "u"}
	k.state = make([]any, 0, stateKeys)
	for _, letter := range letters {
		k.state = append(k.state, prefix+string(letter))
	}
	k.state = append(k.state, dead+"m", dead+"h", dead+"w")
	return k
}

// all returns every key that a partition may have, dead letters included.
func (p naming) all(entity string, index uint16) []string {
	var keys []string
	for _, sub := range []core.SubQueue{core.Main, core.DeadLetter} {
		prefix := p.prefix(core.Ref{Entity: entity, Index: index, Sub: sub})
		for _, letter := range letters[:len(letters)-1] { // the last is a channel
			keys = append(keys, prefix+string(letter))
		}
	}
	return append(keys, p.tag(core.Ref{Entity: entity, Index: index})+"u")
}

// changes is the channel on which gateways tell each other of changes of the catalogue.
func (p naming) changes() string { return string(p) + "ct:changes" }

// probe is a key that Probe writes; n spreads it over the slots of a cluster.
func (p naming) probe(n int) string { return string(p) + "{ct:probe:" + strconv.Itoa(n) + "}" }

// catalogueKeys holds the names of a namespace's catalogue keys.
type catalogueKeys struct{ entities, names, accessed string }

func (p naming) catalogue(namespace string) catalogueKeys {
	prefix := string(p) + "{ct:" + namespace + "}"
	return catalogueKeys{prefix + "e", prefix + "i", prefix + "a"}
}

// member is how a message and its lock's nonce stand in the locks.
func member(n int64, nonce string) string { return padded(n) + nonce }

// padded is a number in the 15 digits that make text order and number order
// agree: 2^48 has 15.
func padded(n int64) string {
	var b [15]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = '0' + byte(n%10)
		n /= 10
	}
	return string(b[:])
}

// entryID is the stream entry of a number.
func entryID(n int64) string { return "0-" + strconv.FormatInt(n, 10) }
