package api

import (
	"encoding/json"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// MessagesPath is followed by a queue, subscription or sub-queue. POST moves its messages to
// another entity or the dead letters, or removes them. If the entity requires sessions, the gateway
// holds the messages' sessions meanwhile, like a receiver.
const MessagesPath = "/$crosstown/messages/"

const MaxMoved = 1000

type MoveRequest struct {
	Numbers []int64 `json:"numbers"`
	// To is a queue, topic, subscription or dead-letter queue. "" removes the messages.
	To string `json:"to,omitempty"`
	// DropReasons removes the properties that say why a message is a dead letter.
	DropReasons bool `json:"dropReasons,omitempty"`
	// NewMessageIDs gives each message a new id, which stays the same if the move is repeated.
	NewMessageIDs bool `json:"newMessageIds,omitempty"`
	// DeadLetter dead-letters the messages, like a receiver. To must be empty.
	DeadLetter *DeadLetter `json:"deadLetter,omitempty"`
	// Activate makes deferred, delayed, locked and scheduled messages available. With At, scheduled
	// messages become due at that time instead. The other members must be empty.
	Activate bool      `json:"activate,omitempty"`
	At       time.Time `json:"at,omitzero"`
}

type DeadLetter struct {
	Reason      string `json:"reason"`
	Description string `json:"description,omitempty"`
}

type Moved struct {
	Moved int `json:"moved"`
	// Absent has the numbers of messages that do not exist, or that are locked, deferred or
	// scheduled. With Activate, only missing and already available messages are absent.
	Absent []int64 `json:"absent,omitempty"`
	// Refused has the messages that the target refuses, or whose session a receiver holds.
	Refused []NotMoved `json:"refused,omitempty"`
}

type NotMoved struct {
	Number int64  `json:"number"`
	Error  string `json:"error"`
}

// RulesPath is followed by a topic or subscription. POST tests its rules with the message in the
// body, which has the format of crosstown record. Nothing is sent.
const RulesPath = "/$crosstown/rules/"

// Judgements are sorted: first rules that match, then rules that fail, then the rest.
type Judgements struct {
	Judgements []Judgement `json:"judgements"`
	Left       int         `json:"left,omitempty"` // number of omitted rules; an answer has at most 1000
}

type Judgement struct {
	Subscription string   `json:"subscription"`
	Rule         string   `json:"rule"`
	Matched      bool     `json:"matched"`
	Why          []string `json:"why,omitempty"`
	Error        string   `json:"error,omitempty"`
	// Message is what the subscription gets, in the format of crosstown record.
	Message json.RawMessage `json:"message,omitempty"`
}

// DamagedPath is followed by a queue, subscription or sub-queue. GET lists, by sequence number, the
// damaged messages that the file store has put aside, with the parameters from (a sequence number)
// and top (100 by default, at most 1000). Clients need Listen on the entity.
const DamagedPath = "/$crosstown/damaged/"

type DamagedList struct {
	Damaged []Damaged `json:"damaged"`
}

type Damaged struct {
	SequenceNumber int64      `json:"sequenceNumber"`
	Enqueued       time.Time  `json:"enqueued"`
	Expires        *time.Time `json:"expires,omitempty"`
	Deliveries     uint32     `json:"failedDeliveries"`
	Session        string     `json:"session,omitempty"`
	Reason         string     `json:"reason"`
}

// DepositPath is followed by a queue, topic, subscription or dead-letter queue. POST stores
// messages from another broker there, one on each line, in the format of crosstown record. A
// message whose transit.Key was stored within the last day is not stored again.
const DepositPath = "/$crosstown/deposit/"

type Deposited struct {
	Messages []DepositedMessage `json:"messages"` // in the order of the request
}

// DepositedMessage is the result for a message, which is stored if Error is "".
type DepositedMessage struct {
	Known     bool   `json:"known,omitempty"` // the message had been stored before
	Error     string `json:"error,omitempty"`
	Permanent bool   `json:"permanent,omitempty"` // the target will never accept the message
}

// TapPath is followed by a queue or topic. GET streams the messages that clients send to it through
// this gateway, one on each line, in the format of crosstown record, until the client disconnects
// or the seconds in the parameter timeout have passed. A client that reads too slowly gets a line
// with Missed.
const TapPath = "/$crosstown/tap/"

// Missed is a line of a tap with the number of omitted messages.
type Missed struct {
	Missed int `json:"missed"`
}

// SessionsPath is followed by a queue or subscription with sessions. GET lists the sessions with
// messages or state, by id, with the parameters skip and top (100 by default, at most 1000). With
// the parameter session, an id, GET shows that session with its state, and PUT sets the state.
// Clients need Listen on the entity and, to see which clients hold sessions, Manage.
const SessionsPath = "/$crosstown/sessions/"

type SessionList struct {
	Sessions []Session `json:"sessions"`
}

type Session struct {
	core.SessionInfo
	StateBytes *int64  `json:"stateBytes,omitempty"` // missing if the session has no state
	Holder     *Holder `json:"holder,omitempty"`     // set if a receiver at this gateway holds the session
}

type Holder struct {
	Connection string   `json:"connection"`
	Protocol   string   `json:"protocol"`
	Peer       string   `json:"peer"`
	Product    string   `json:"product,omitempty"`
	Policies   []string `json:"policies,omitempty"`
}

// SessionState sets or clears the state of a session that nobody holds, or ends a session's lock.
type SessionState struct {
	State  *[]byte `json:"state,omitempty"` // in base64
	Clear  bool    `json:"clear,omitempty"`
	Unlock bool    `json:"unlock,omitempty"` // the other members must be empty
}
