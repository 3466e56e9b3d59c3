package api

import (
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Account is the history of a message in one entity. Next are the entities to which the message went
// from there.
type Account struct {
	Namespace string   `json:"namespace"`
	Entity    string   `json:"entity"`
	Kind      string   `json:"kind"`
	Events    []Event  `json:"events"`
	Next      []string `json:"next,omitempty"`
	// Missing is the reason why there is no history. Only the command line sets it: a gateway refuses.
	Missing string `json:"missing,omitempty"`
}

// Event is one thing that happened to a message. Members that do not apply are omitted.
type Event struct {
	Time           time.Time      `json:"time"`
	Event          core.EventKind `json:"event"`
	SubQueue       string         `json:"subQueue,omitempty"`
	SequenceNumber int64          `json:"sequenceNumber,omitempty"`
	Other          int64          `json:"otherSequenceNumber,omitempty"`
	MessageID      string         `json:"messageId,omitempty"`
	Failures       uint32         `json:"failedDeliveries,omitempty"`
	Until          *time.Time     `json:"until,omitempty"`
	Reason         string         `json:"reason,omitempty"`
	Policy         string         `json:"policy,omitempty"`
	Peer           string         `json:"peer,omitempty"`
	Entity         string         `json:"entity,omitempty"`
	Rule           string         `json:"rule,omitempty"`
	Plugin         string         `json:"plugin,omitempty"`
	Gateway        string         `json:"gateway,omitempty"`
}

// AccountOf converts the account of a message in a namespace.
func AccountOf(namespace string, a *core.Account) Account {
	told := Account{Namespace: namespace, Entity: a.Entity, Kind: a.Kind.String(), Events: make([]Event, len(a.Events)), Next: a.Next()}
	for i := range a.Events {
		e := &a.Events[i]
		t := &told.Events[i]
		*t = Event{
			Time: e.Time, Event: e.Kind, SubQueue: strings.TrimPrefix(e.Sub.Suffix(), "/"), SequenceNumber: e.Number, Other: e.Other,
			Failures: e.Count, Reason: e.Reason, Policy: e.By.Policy, Peer: e.By.Peer, Entity: e.Entity, Rule: e.Rule, Plugin: e.Plugin,
			Gateway: e.Gateway,
		}
		if !e.MessageID.IsZero() {
			t.MessageID = e.MessageID.String()
		}
		if !e.Until.IsZero() {
			t.Until = &e.Until
		}
	}
	return told
}
