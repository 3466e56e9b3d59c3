package core

import (
	"context"
	"fmt"
	"reflect"
	"strings"
)

// Remote is another broker to which messages are forwarded. It is safe for concurrent use.
type Remote interface {
	// Send sends messages to an entity of the remote and returns one error per message: nil if the
	// remote has accepted it. *Away means that the remote cannot be reached, although it may have
	// got messages. NotAllowed, InvalidArgument, OutOfRange and TooLarge mean that the remote will
	// never accept the message. After any other error, it may accept the message later.
	// To keep the order, a message is not sent, but gets an error, while an earlier message with
	// its PinKey is neither accepted nor refused for ever. Send only reads the messages, and only
	// until it returns.
	Send(ctx context.Context, entity string, ms []*Message) []error
	// Window returns the number of messages with which a call of Send is most efficient.
	Window() int
	// Watch registers back, which must not block: the remote calls it each time it connects.
	Watch(back func()) (stop func())
}

// Away is the error of a remote that cannot be reached.
type Away struct {
	Remote string
	Err    error
}

func (a *Away) Error() string { return fmt.Sprintf("remote %s is disconnected: %v", a.Remote, a.Err) }

// Unwrap returns Busy, for callers that only look at the Code.
func (a *Away) Unwrap() error { return Busy }

// AnnotationHops is the annotation, a ubyte, that counts how often a message has gone to another
// broker, so that messages cannot circulate for ever.
const AnnotationHops = "x-opt-crosstown-hops"

// CountHop counts a move to another broker, and returns false beyond MaxRemoteHops. A client may
// have set the annotation to any integer; other types, and negative numbers, count as 0.
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

// MaxRemoteHops is how often a message may go to another broker.
const MaxRemoteHops = 8

// SplitRemote splits a destination of the form REMOTE:ENTITY, without the host that SDKs may add
// before it. No entity's name contains a colon.
func SplitRemote(to string) (remote, entity string, ok bool) {
	remote, entity, ok = strings.Cut(ResourcePath(to), ":")
	return remote, entity, ok
}
