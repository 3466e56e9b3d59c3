package api

import "time"

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
	Deferred  int64  `json:"deferred"`  // other deferred messages
	// LockedUntil is the end of its lock, missing if no receiver holds it; Holder that receiver, if it is
	// connected to this gateway.
	LockedUntil *time.Time `json:"lockedUntil,omitempty"`
	Holder      *Holder    `json:"holder,omitempty"`
	StateBytes  *int64     `json:"stateBytes,omitempty"` // missing: it has no state
	State       []byte     `json:"state,omitempty"`      // base64; only where one session is asked for
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
