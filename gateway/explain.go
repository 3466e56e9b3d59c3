package main

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// explainPath has an entity's name behind it. No entity's name begins with a
// dollar sign.
const explainPath = "/$crosstown/explain/"

// narrator answers GET of what is remembered of a message, to who has Manage on
// the entity.
type narrator struct{ desk }

func (n *narrator) routes(routes map[string]http.Handler) { routes[explainPath] = n }

// ServeHTTP answers one request.
func (n *narrator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	told, err := n.answer(r)
	n.reply(w, r, told, err)
}

// toldAccount is an account as JSON tells it. Next are the entities in which the
// same message is found, by this account.
type toldAccount struct {
	Namespace string      `json:"namespace"`
	Entity    string      `json:"entity"`
	Kind      string      `json:"kind"`
	Events    []toldEvent `json:"events"`
	Next      []string    `json:"next,omitempty"`
}

// toldEvent is an event as JSON tells it; what is not known is left out.
type toldEvent struct {
	Time           time.Time  `json:"time"`
	Event          string     `json:"event"`
	SubQueue       string     `json:"subQueue,omitempty"`
	SequenceNumber int64      `json:"sequenceNumber,omitempty"`
	Other          int64      `json:"otherSequenceNumber,omitempty"`
	MessageID      string     `json:"messageId,omitempty"`
	Failures       uint32     `json:"failedDeliveries,omitempty"`
	Until          *time.Time `json:"until,omitempty"`
	Reason         string     `json:"reason,omitempty"`
	Policy         string     `json:"policy,omitempty"`
	Peer           string     `json:"peer,omitempty"`
	Entity         string     `json:"entity,omitempty"`
	Rule           string     `json:"rule,omitempty"`
	Plugin         string     `json:"plugin,omitempty"`
	Gateway        string     `json:"gateway,omitempty"`
}

func (n *narrator) answer(r *http.Request) (any, error) {
	id, err := n.identity(r)
	if err != nil {
		return nil, err
	}
	if r.Method != http.MethodGet {
		return nil, core.Refuse(core.NotAllowed, "What is remembered of a message can be got.")
	}
	subject := core.Subject{MessageID: r.URL.Query().Get("message-id")}
	if text := r.URL.Query().Get("sequence-number"); text != "" {
		if subject.Number, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, core.Refuse(core.InvalidArgument, "sequence-number '%.40s' is no number.", text)
		}
	}
	a, err := n.directory.Explain(r.Context(), id, strings.Trim(r.URL.Path[len(explainPath):], "/"), subject)
	if core.CodeOf(err) == core.NotAllowed { // nothing is remembered there
		return nil, core.Refuse(core.NotFound, "%s", core.TextOf(err))
	}
	if err != nil {
		return nil, err
	}
	return tell(id.Namespace(), &a), nil
}

func tell(namespace string, a *core.Account) toldAccount {
	told := toldAccount{Namespace: namespace, Entity: a.Entity, Kind: a.Kind.String(), Events: make([]toldEvent, len(a.Events)), Next: a.Next()}
	for i := range a.Events {
		e := &a.Events[i]
		t := &told.Events[i]
		*t = toldEvent{
			Time: e.Time, Event: string(e.Kind), SubQueue: strings.TrimPrefix(e.Sub.Suffix(), "/"), SequenceNumber: e.Number, Other: e.Other,
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
