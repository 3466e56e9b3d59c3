package api

import (
	"encoding/json"
	"time"
)

// MessagesPath is followed by the name of a queue or subscription, or of a sub-queue of one. POST moves
// messages from there to another entity, to its dead letters, or removes them. For an entity that requires
// sessions the gateway holds the messages' sessions meanwhile, as a receiver does.
const MessagesPath = "/$crosstown/messages/"

// MaxMoved is the number of messages one request may name.
const MaxMoved = 1000

// MoveRequest names the messages.
type MoveRequest struct {
	Numbers []int64 `json:"numbers"`
	// To is a queue, topic or subscription, or the dead-letter queue of one; "": the messages are removed.
	To string `json:"to,omitempty"`
	// DropReasons removes the properties that say why a message is a dead letter.
	DropReasons bool `json:"dropReasons,omitempty"`
	// NewMessageIDs gives each message an id of its own, the same if it is moved again.
	NewMessageIDs bool `json:"newMessageIds,omitempty"`
	// DeadLetter dead-letters the messages, as a receiver does; then there is no To.
	DeadLetter *DeadLetter `json:"deadLetter,omitempty"`
}

// DeadLetter says why messages are dead-lettered.
type DeadLetter struct {
	Reason      string `json:"reason"`
	Description string `json:"description,omitempty"`
}

// Moved is the answer to a MoveRequest.
type Moved struct {
	Moved int `json:"moved"`
	// Absent are numbers of messages that are not there, or not available: a receiver has locked them,
	// or they are deferred or scheduled.
	Absent []int64 `json:"absent,omitempty"`
	// Refused are messages that stay, because the target does not take them, or a receiver holds their
	// session.
	Refused []NotMoved `json:"refused,omitempty"`
}

// NotMoved is a message that stays.
type NotMoved struct {
	Number int64  `json:"number"`
	Error  string `json:"error"`
}

// RulesPath is followed by the name of a topic, or of a subscription. POST tells what their rules make of
// a message: the body has it, as crosstown record prints it. Nothing is sent.
const RulesPath = "/$crosstown/rules/"

// Judgements is the answer: first the rules that match, then those that fail, then the others.
type Judgements struct {
	Judgements []Judgement `json:"judgements"`
	Left       int         `json:"left,omitempty"` // how many more there are: one answer has 1000
}

// Judgement is what a rule makes of a message.
type Judgement struct {
	Subscription string   `json:"subscription"`
	Rule         string   `json:"rule"`
	Matched      bool     `json:"matched"`
	Why          []string `json:"why,omitempty"`
	Error        string   `json:"error,omitempty"`
	// Message is what the subscription gets, as crosstown record prints it.
	Message json.RawMessage `json:"message,omitempty"`
}

// DamagedPath is followed by the name of a queue or subscription, or of its sub-queue. GET lists the
// messages that the file store has put aside because they are damaged, by sequence number, with the
// parameters from (a sequence number) and top (100, at most 1000), for clients with Listen on the entity.
const DamagedPath = "/$crosstown/damaged/"

// DamagedList is a page of damaged messages.
type DamagedList struct {
	Damaged []Damaged `json:"damaged"`
}

// Damaged is what the gateway knows of a damaged message.
type Damaged struct {
	SequenceNumber int64      `json:"sequenceNumber"`
	Enqueued       time.Time  `json:"enqueued"`
	Expires        *time.Time `json:"expires,omitempty"`
	Deliveries     uint32     `json:"failedDeliveries"`
	Session        string     `json:"session,omitempty"`
	Reason         string     `json:"reason"`
}

// DepositPath is followed by the name of a queue, topic or subscription, or of the dead-letter queue of
// one. POST stores messages there that come from another broker: the body has one message a line, as
// crosstown record prints them. A message whose transit.Key was stored within a day is not stored again.
const DepositPath = "/$crosstown/deposit/"

// Deposited is the answer to a deposit.
type Deposited struct {
	Messages []DepositedMessage `json:"messages"` // in the order of the request
}

// DepositedMessage is what became of a message. Without an error it is stored.
type DepositedMessage struct {
	Known     bool   `json:"known,omitempty"` // it had been stored before
	Error     string `json:"error,omitempty"`
	Permanent bool   `json:"permanent,omitempty"` // of an error: another try has the same result
}

// TapPath is followed by the name of a queue or topic. GET prints what clients send to it through this
// gateway, one message a line as crosstown record prints them, until the client goes, or after the
// seconds of the query parameter timeout. A client that reads too slowly gets a line Missed.
const TapPath = "/$crosstown/tap/"

// Missed is a line of a tap: the number of messages that are not in it.
type Missed struct {
	Missed int `json:"missed"`
}

// SessionsPath is followed by the name of a queue or subscription with sessions. GET lists those that have
// messages or state, by id, with the parameters skip and top (100, at most 1000); with the parameter
// session, whose value is an id, it shows that session with its state. PUT with that parameter sets the
// state. All need Listen on the entity, and Manage to learn which clients hold sessions.
const SessionsPath = "/$crosstown/sessions/"

// SessionList is a page of sessions, without their states.
type SessionList struct {
	Sessions []Session `json:"sessions"`
}

// Session is a session of an entity.
type Session struct {
	ID        string `json:"session"`
	Available int64  `json:"available"` // messages that its holder could lock
	Locked    int64  `json:"locked"`    // messages under lock, deferred ones too
	Delayed   int64  `json:"delayed"`   // of these, messages that pause the session until their delays end
	Deferred  int64  `json:"deferred"`  // other deferred messages
	// LockedUntil is the end of its lock, missing if no receiver holds it; Holder that receiver, if it is
	// connected to this gateway.
	LockedUntil *time.Time `json:"lockedUntil,omitempty"`
	Holder      *Holder    `json:"holder,omitempty"`
	StateBytes  *int64     `json:"stateBytes,omitempty"` // missing: it has no state
	State       []byte     `json:"state,omitempty"`      // base64; only if one session is requested
}

// Holder is the connection that holds a session.
type Holder struct {
	Connection string   `json:"connection"` // its id
	Protocol   string   `json:"protocol"`
	Peer       string   `json:"peer"`
	Product    string   `json:"product,omitempty"`
	Policies   []string `json:"policies,omitempty"`
}

// SessionState is the request that sets or clears the state of a session. It is refused while a receiver
// holds the session.
type SessionState struct {
	State *[]byte `json:"state,omitempty"` // base64
	Clear bool    `json:"clear,omitempty"`
}
