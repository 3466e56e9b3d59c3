package core

import (
	"context"
	"fmt"
	"strings"
)

// Remote is another broker, to which messages are forwarded. What it speaks, and
// where it is, only its implementation knows. All methods are safe for concurrent use.
type Remote interface {
	// Send hands messages to an entity there, and answers one element per message:
	// nil once the remote has taken charge of it. An *Away says that the remote
	// cannot be asked now, which may be found out when messages have arrived there;
	// NotAllowed, InvalidArgument, OutOfRange and TooLarge that it will never take
	// this message; any other error that it may later.
	//
	// Of messages that have a PinKey in common none is handed over before all in
	// front of it have been taken, or refused for ever: where one was not, those
	// behind it are not tried. The messages are only read, and no longer once Send
	// has returned.
	Send(ctx context.Context, entity string, ms []*Message) []error
	// Window is how many messages are worth sending at a time.
	Window() int
	// Watch calls back, which must not block, when a remote that was away is so no more.
	Watch(back func()) (stop func())
}

// Away says that a remote cannot be asked now.
type Away struct {
	Remote string // its name
	Err    error  // why
}

func (a *Away) Error() string { return fmt.Sprintf("remote %s is away: %v", a.Remote, a.Err) }

// Unwrap makes the Code Busy: nobody else needs to know more.
func (a *Away) Unwrap() error { return Busy }

// PinKey is what binds messages to each other: those with one key keep their
// order. It is the key of the session, else that of a session of which the
// partition key is the id, else "".
func (m *Message) PinKey() string {
	if key := m.SessionKey(); key != "" || m.PartitionKey == "" {
		return string(key)
	}
	return string(KeyOfSession(m.PartitionKey))
}

// AnnotationHops counts, as a ubyte, how often a message has gone from one broker
// to another, so that a circle of them ends.
const AnnotationHops = "x-opt-crosstown-hops"

// CountHop counts that the message goes to another broker once more; it reports
// false where that is too often.
func (m *Message) CountHop() bool {
	v, _ := m.Annotations.Get(AnnotationHops)
	n, _ := v.(uint8)
	if n >= MaxRemoteHops {
		return false
	}
	if counted, err := NewProperties(Property{Key: AnnotationHops, Value: n + 1}); err == nil { // it never fails
		m.Annotations = m.Annotations.Merge(counted)
	}
	return true
}

// MaxRemoteHops is how often a message may go to another broker.
const MaxRemoteHops = 8

// SplitRemote takes a destination apart that is at a remote: REMOTE:ENTITY, also
// behind the host that SDKs put before it. No entity's name holds a colon.
func SplitRemote(to string) (remote, entity string, ok bool) {
	remote, entity, ok = strings.Cut(ResourcePath(to), ":")
	return remote, entity, ok
}
