package core

import (
	"context"
	"fmt"
	"reflect"
	"strings"
)

// Remote is another broker to which messages are forwarded. Only its implementation knows the
// protocol and the address. All methods are safe for concurrent use.
type Remote interface {
	// Send sends messages to an entity of the remote and returns one error per message: nil if the
	// remote has accepted it. *Away means that the remote cannot be reached; it may nevertheless
	// have got messages. NotAllowed, InvalidArgument, OutOfRange and TooLarge mean that the remote
	// will never accept the message. After any other error, it may accept the message later.
	// A message is only sent when all earlier messages with the same PinKey have been accepted, or
	// refused for ever; otherwise it gets an error without being sent. Send only reads the
	// messages, and only until it returns.
	Send(ctx context.Context, entity string, ms []*Message) []error
	// Window returns the number of messages with which a call of Send is most efficient.
	Window() int
	// Watch registers back, which is called when the remote can be reached again, and must not
	// block.
	Watch(back func()) (stop func())
}

// Away is the error of a remote that cannot be reached.
type Away struct {
	Remote string // the remote's name
	Err    error
}

func (a *Away) Error() string { return fmt.Sprintf("remote %s is disconnected: %v", a.Remote, a.Err) }

// Unwrap returns Busy, because most callers need no more than a Code.
func (a *Away) Unwrap() error { return Busy }

// AnnotationHops is the annotation that counts, as a ubyte, how often a message has gone to another
// broker, so that messages cannot circulate for ever.
const AnnotationHops = "x-opt-crosstown-hops"

// CountHop counts one more move to another broker. It returns false if there were already
// MaxRemoteHops. A client may have set the annotation to any integer; other values, and negative
// ones, count as 0.
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
	if counted, err := NewProperties(Property{Key: AnnotationHops, Value: n + 1}); err == nil { // never fails
		m.Annotations = m.Annotations.Merge(counted)
	}
	return true
}

// MaxRemoteHops is the maximum number of times that a message may go to another broker.
const MaxRemoteHops = 8

// SplitRemote splits a destination of the form REMOTE:ENTITY, which may follow the host that SDKs
// add. No entity's name contains a colon.
func SplitRemote(to string) (remote, entity string, ok bool) {
	remote, entity, ok = strings.Cut(ResourcePath(to), ":")
	return remote, entity, ok
}
