package api

import (
	"encoding/json"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// MessagesPath requires the name of a queue, subscription or sub-queue after it. POST moves its
// messages to another entity or the dead-letter queue, or removes them. If the entity requires
// sessions, the gateway locks the messages' sessions meanwhile.
const MessagesPath = "/$crosstown/messages/"

const MaxMoved = 1000

type MoveRequest struct {
	Numbers []int64 `json:"numbers"`
	// To is a queue, topic, subscription or dead-letter queue. If it is "", the messages are removed.
	To string `json:"to,omitempty"`
	// DropReasons removes the properties with the reason why a message was dead-lettered.
	DropReasons bool `json:"dropReasons,omitempty"`
	// NewMessageIDs gives each message a new id, which stays the same if the move is repeated.
	NewMessageIDs bool `json:"newMessageIds,omitempty"`
	// DeadLetter moves the messages to the dead-letter queue, as a receiver would. To must be empty.
	DeadLetter *DeadLetter `json:"deadLetter,omitempty"`
	// Activate makes deferred, delayed, locked and scheduled messages available. With At, scheduled
	// messages instead become due at that time. Other members must be empty.
	Activate bool      `json:"activate,omitempty"`
	At       time.Time `json:"at,omitzero"`
}

type DeadLetter struct {
	Reason      string `json:"reason"`
	Description string `json:"description,omitempty"`
}

type Moved struct {
	Moved int `json:"moved"`
	// Absent has the numbers of messages that do not exist, or that are locked, deferred or scheduled.
	// With Activate, it has those that do not exist or are available already.
	Absent []int64 `json:"absent,omitempty"`
	// Refused has messages that the target refuses, or whose session a receiver has locked.
	Refused []NotMoved `json:"refused,omitempty"`
}

type NotMoved struct {
	Number int64  `json:"number"`
	Error  string `json:"error"`
}

// RulesPath requires the name of a topic or subscription after it. POST tests its rules with the
// message in the body, in the format of crosstown record. It sends no message.
const RulesPath = "/$crosstown/rules/"

// Judgements are sorted: first rules that match, then rules that fail, then the rest.
type Judgements struct {
	Judgements []Judgement `json:"judgements"`
	Left       int         `json:"left,omitempty"` // number of omitted judgements; an answer has at most 1000
}

type Judgement struct {
	Subscription string   `json:"subscription"`
	Rule         string   `json:"rule"`
	Matched      bool     `json:"matched"`
	Why          []string `json:"why,omitempty"`
	Error        string   `json:"error,omitempty"`
	// Message is the message as the subscription would get it, in the format of crosstown record.
	Message json.RawMessage `json:"message,omitempty"`
}

// DamagedPath requires the name of a queue, subscription or sub-queue after it. GET lists damaged
// messages that the file store has put aside, by sequence number, with the parameters from (a
// sequence number) and top (default 100, at most 1000). Clients need Listen on the entity.
const DamagedPath = "/$crosstown/damaged/"

type DamagedList struct {
	Damaged []Damaged `json:"damaged"`
}

type Damaged struct {
	SequenceNumber int64     `json:"sequenceNumber"`
	Enqueued       time.Time `json:"enqueued"`
	Expires        time.Time `json:"expires,omitzero"`
	Deliveries     uint32    `json:"failedDeliveries"`
	Session        string    `json:"session,omitempty"`
	Reason         string    `json:"reason"`
}

// DepositPath requires the name of a queue, topic, subscription or dead-letter queue. POST stores
// messages from another broker there, one on each line, in the format of crosstown record. It
// ignores a message whose transit.Key it stored within the last day.
const DepositPath = "/$crosstown/deposit/"

type Deposited struct {
	Messages []DepositedMessage `json:"messages"` // in the order of the request
}

// DepositedMessage is the result for one message, which is stored if Error is "".
type DepositedMessage struct {
	Known     bool   `json:"known,omitempty"` // the message had been stored before
	Error     string `json:"error,omitempty"`
	Permanent bool   `json:"permanent,omitempty"` // the target will never accept the message
}

// TapPath requires the name of a queue or topic after it. GET streams the messages that clients
// send to it through this gateway, one on each line, in the format of crosstown record. The stream
// ends when the client disconnects, or after timeout, a parameter in seconds. A client that reads
// too slowly gets a line with Missed.
const TapPath = "/$crosstown/tap/"

// Missed is a line of a tap: the number of messages that the tap has left out.
type Missed struct {
	Missed int `json:"missed"`
}

// SessionsPath requires the name of a queue or subscription with sessions after it. GET lists the
// sessions with messages or state, by id, with the parameters skip and top (default 100, at most
// 1000). With the parameter session, an id, GET shows that session with its state, and PUT sets the
// state. Clients need Listen on the entity and, to see which clients have locked sessions, Manage.
const SessionsPath = "/$crosstown/sessions/"

type SessionList struct {
	Sessions []Session `json:"sessions"`
}

type Session struct {
	core.SessionInfo
	StateBytes *int64  `json:"stateBytes,omitempty"` // missing if the session has no state
	Holder     *Holder `json:"holder,omitempty"`     // set if a receiver at this gateway has locked the session
}

type Holder struct {
	Connection string   `json:"connection"`
	Protocol   string   `json:"protocol"`
	Peer       string   `json:"peer"`
	Product    string   `json:"product,omitempty"`
	Policies   []string `json:"policies,omitempty"`
}

// SessionState sets or clears the state of an unlocked session, or ends a session's lock.
type SessionState struct {
	State  *[]byte `json:"state,omitempty"` // in base64
	Clear  bool    `json:"clear,omitempty"`
	Unlock bool    `json:"unlock,omitempty"` // ends a receiver's lock; the other members must be empty
}
