// Package bridges defines the Bridge: the server of one protocol, which calls the broker.
package bridges

import (
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

type Front interface {
	core.Broker
	core.Admin
}

type Connection struct {
	ID        string    `json:"id"`
	Protocol  string    `json:"protocol"` // "amqp", "amqp over websocket", "websocket" or "event stream"
	Peer      string    `json:"peer"`
	Namespace string    `json:"namespace"` // "" until the client has proven an identity
	Since     time.Time `json:"since"`
	Policies  []string  `json:"policies,omitempty"` // shared access policies, or the subjects of tokens
	Product   string    `json:"product,omitempty"`  // what the client calls itself
	Links     []Link    `json:"links"`
	Sessions  int       `json:"-"` // AMQP sessions; 0 with other protocols
}

type Link struct {
	Entity    string  `json:"entity"`
	Direction string  `json:"direction"`
	Mode      string  `json:"mode,omitempty"`
	Session   *string `json:"session,omitempty"` // the id of the session that the client holds
}

const (
	Sends    = "send"
	Receives = "receive"
)

// Receiving describes a link that receives from an entity. session may be nil.
func Receiving(entity string, mode core.ReceiveMode, session core.Session) Link {
	l := Link{Entity: entity, Direction: Receives, Mode: "peekLock"}
	if mode == core.ReceiveAndDelete {
		l.Mode = "receiveAndDelete"
	}
	if session != nil {
		l.Session = new(session.ID())
	}
	return l
}

func (l *Link) SessionID() string {
	if l.Session == nil {
		return ""
	}
	return *l.Session
}

const ForcedText = "An operator has closed the connection. Connect again."

func Default[T int | int64 | uint32 | time.Duration](option *T, otherwise T) {
	if *option <= 0 {
		*option = otherwise
	}
}

// warningPause is the time between two warnings of a kind: clients must not fill the log.
const warningPause = 10 * time.Second

// Warnings limits the warnings of a kind to one in warningPause. It is safe for concurrent use.
type Warnings struct{ next atomic.Int64 } // Unix nanoseconds

// Due reports whether to log a warning now. If so, it returns false for the next warningPause.
func (w *Warnings) Due() bool {
	now, next := time.Now().UnixNano(), w.next.Load()
	return now >= next && w.next.CompareAndSwap(next, now+int64(warningPause))
}
