package remote

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Options say what a remote is, and how to get in. Only Name and Dial are required.
type Options struct {
	Name    string
	Address string // shown with its state
	// Dial connects to it.
	Dial func(ctx context.Context) (net.Conn, error)
	// TLS is nil where the connection is to be plain.
	TLS *tls.Config
	// Host is the name that the remote is called by when a connection is opened.
	Host string

	// User and Password are for SASL PLAIN.
	User, Password string
	// Policy and Key sign tokens that are put to $cbs, entity by entity; Signature
	// is one that was signed before, for all. Entity is the one whose policy it is, ""
	// if that is not known.
	Policy, Key, Signature, Entity string
	// Access, unless it is nil, tells Policy and Key each time a connection is made.
	Access func(ctx context.Context) (policy, key string, err error)

	// Window is how many messages may be under way to the remote, and from each
	// source of it; default 500.
	Window int
	// Batches says that the remote knows the batches of Service Bus: then messages
	// of one session or partition key travel together, all or none.
	Batches bool

	// Pulls are the sources there.
	Pulls  []Pull
	Logger *slog.Logger // nil: no log

	idle, patience, renewal time.Duration // the idleTimeout, storePatience and renewalPause of tests
}

// Pull is an entity of the remote whose messages are fetched, and the queue or
// topic here that they go to.
type Pull struct{ From, Into string }

// Local is where messages that are pulled go.
type Local struct {
	Broker   core.Broker
	Identity core.Identity // with whose rights
	// ForwardedTo are the entities of the remote of that name that entities here forward to;
	// nil: none is known.
	ForwardedTo func(ctx context.Context, remote string) ([]string, error)
	// Forget drops the keys of messages that need not be known any more.
	Forget func(ctx context.Context, entity string, keys []string) error
}

// DefaultWindow is the Window where none is given.
const DefaultWindow = 500
