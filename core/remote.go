package core

import (
	"context"
	"fmt"
	"reflect"
	"strings"
)

// Remote is another broker to which messages are forwarded. Only its implementation knows its
// protocol and address. All methods are safe for concurrent use.
type Remote interface {
	// Send sends messages to an entity at the remote and returns one error per message: nil after
	// the remote has accepted the message. An *Away means that the remote cannot be reached now;
	// this may become known only after messages have arrived there. NotAllowed, InvalidArgument,
	// OutOfRange and TooLarge mean that the remote will never accept the message. After any other
	// error, it may accept the message later.
	//
	// A message is sent only after all earlier messages with the same PinKey have been accepted or
	// permanently refused; otherwise it is not tried. Send only reads the messages, and only until
	// it returns.
	Send(ctx context.Context, entity string, ms []*Message) []error
	// Window is the number of messages that are worth sending at a time.
	Window() int
	// Watch calls back when the remote can be reached again. back must not block.
	Watch(back func()) (stop func())
}

// Away is the error while a remote cannot be reached.
type Away struct {
	Remote string // the remote's name
	Err    error  // why the remote cannot be reached
}

func (a *Away) Error() string { return fmt.Sprintf("remote %s is disconnected: %v", a.Remote, a.Err) }

// Unwrap returns the Code Busy, because callers need no more.
func (a *Away) Unwrap() error { return Busy }

// AnnotationHops counts, as a ubyte, how often a message has gone from one broker to another, to
// end cycles of brokers.
const AnnotationHops = "x-opt-crosstown-hops"

// CountHop counts one more move to another broker. It returns false if there were too many. A
// client may have written the annotation itself, as any integer; other values, and negative ones,
// count as 0.
func (m *Message) CountHop() bool {
	v, _ := m.Annotations.Get(AnnotationHops)
	var n uint8
	switch v := reflect.ValueOf(v); {
	case v.CanInt():
		n = uint8(min(max(v.Int(), 0), MaxRemoteHops))
	case v.CanUint():
		n = uint8(min(v.Uint(), MaxRemoteHops))
	}
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

// SplitRemote splits a destination of the form REMOTE:ENTITY, also if it follows the host that SDKs
// add. No entity's name contains a colon.
func SplitRemote(to string) (remote, entity string, ok bool) {
	remote, entity, ok = strings.Cut(ResourcePath(to), ":")
	return remote, entity, ok
}
