package redis

import "github.com/crosstown-mq/crosstown/core"

type place struct {
	core.Ref
	core.Policy
}

// stored is a message, encoded for the scripts that store it.
type stored struct {
	record []byte // nil: the message is not stored, only id and key are noted
	id     string // for duplicate detection; "": none
	key    string // Transit.Key; "": none
	due    any    // ms; "": not scheduled
	ttl    any    // ms; "": does not expire
	sid    string // sessionName; "": none
}

func (m *stored) size() int {
	size := len(m.record) + 32
	if m.id != "" {
		size += len(m.id) + 100
	}
	if m.ttl != "" {
		size += 110
	}
	if m.due != "" {
		size += 200
	}
	if m.sid != "" {
		size += 2*len(m.sid) + 200
	}
	return size
}

func (m *stored) isPlain() bool {
	return m.id == "" && m.key == "" && m.due == "" && m.ttl == "" && m.sid == ""
}

// outgoing are groups that share an exchange; T is stored or publication.
type outgoing[T any] struct {
	version int64 // version of the topic's subscriptions; 0 for a queue
	groups  []outgoingGroup[T]
	items   int
	bytes   int
	answers []core.Appended // one per group
	err     error
}

type outgoingGroup[T any] struct {
	at       int // index among the groups of the call
	messages []T
	items    int
	bytes    int
	grows    bool     // the quota must allow the bytes
	arriving []stored // the messages that make the entity grow
}

type publication struct {
	stored        // record is nil unless the message is scheduled, or a history needs its id
	noted  bool   // only its id and key are noted
	source string // lock of the message in the topic's own queue from which this comes; "": none
	body   []byte // nil: each copy has its own body
	copies []copied
}

type copied struct {
	to     place
	record []byte
	ttl    any // ms; "": does not expire
	sid    string
}

type settling struct {
	settlements []core.Settlement
	errs        []error
}

type settlingItem struct {
	*core.Settlement
	err *error
}

type renewing struct {
	tokens   []core.LockToken
	renewals []core.Renewal
}
