package api

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
