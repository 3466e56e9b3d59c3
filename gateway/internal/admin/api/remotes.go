package api

import (
	"time"

	"github.com/crosstown-mq/crosstown/bridges/remote"
)

// Remote is the state of a remote, with the namespace that may use it and the messages that wait for it
// there.
type Remote struct {
	Namespace string `json:"namespace"`
	remote.State
	Waiting []Waiting `json:"waiting"`
}

// Waiting is an entity with messages for a remote.
type Waiting struct {
	Entity      string    `json:"entity"`
	DeadLetters bool      `json:"deadLetters,omitzero"` // the entity forwards its dead letters
	To          string    `json:"to"`
	Messages    int64     `json:"messages"`
	Oldest      time.Time `json:"oldest,omitzero"`
}
