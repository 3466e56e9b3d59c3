package api

import "encoding/json"

// MessagesPath is followed by the name of a queue or subscription, or of a sub-queue of one. POST moves
// messages from there to another entity, to its dead letters, or removes them. Of an entity that requires
// sessions the gateway holds the messages' sessions meanwhile, as a receiver does.
const MessagesPath = "/$crosstown/messages/"

// MaxMoved is how many messages one request may name.
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
