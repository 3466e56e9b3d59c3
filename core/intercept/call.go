package intercept

import (
	"context"
	"slices"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
)

type Op uint8

// Calls on sessions also have the Ops Peek, ReceiveDeferred and Purge; calls on transactions, those
// from Send to SessionState.
const (
	OpenSender Op = iota
	OpenReceiver
	AcceptSession
	Send
	Settle
	Renew
	RenewSession
	SessionState // read or set the state of a session
	Peek
	ReceiveDeferred
	Cancel
	Purge
	ListSessions
	Commit
	Schedule // in a transaction; outside of one, scheduled messages come with Send
	Create   // an entity or a rule
	Manage   // change or delete an entity or a rule
	Read     // read entities, rules or the namespace, or reset the namespace
)

func (o Op) String() string {
	return [...]string{
		"open-sender", "open-receiver", "accept-session", "send", "settle", "renew", "renew-session", "session-state",
		"peek", "receive-deferred", "cancel", "purge", "list-sessions", "commit", "schedule", "manage", "manage", "read",
	}[o]
}

// An Interceptor must be safe for concurrent use.
type Interceptor interface {
	// Intercept carries out a call by calling c.Next or c.Fail. It must not keep c.
	Intercept(ctx context.Context, c *Call)
}

// Call is one call of a bridge. An interceptor may change the request before Next, and the answer
// after it. After Next it must restore the request, for the interceptors before it.
type Call struct {
	Op      Op
	ID      core.Identity
	Address core.Address
	Link    *Link

	// Parts of the request that interceptors may see and change. The function do has the others.
	Groups      [][]*core.Message // messages of Send and Schedule; in a transaction, one group
	Settlements []core.Settlement
	Tokens      []core.LockToken     // locks of Renew
	Options     *core.SessionOptions // options of OpenSender, OpenReceiver and AcceptSession; for OpenSender, only the field Closed is set

	// The answer has an element for each group, settlement or token. Other operations, and those of
	// a transaction, have only Err.
	Appended   []core.Appended
	Errs       []error
	Renewals   []core.Renewal
	Deliveries []core.Delivery // result of Peek and ReceiveDeferred
	Err        error

	front *Front
	space *Space
	at    int
	do    func(context.Context, *Call)
}

var calls = sync.Pool{New: func() any { return new(Call) }}

// newCall returns a Call that do carries out after all interceptors. The caller must free the Call.
func newCall(op Op, id core.Identity, address core.Address, do func(context.Context, *Call)) *Call {
	c := calls.Get().(*Call)
	c.Op, c.ID, c.Address, c.do = op, id, address, do
	return c
}

func (c *Call) free() {
	*c = Call{}
	calls.Put(c)
}

func (c *Call) run(ctx context.Context, front *Front, space *Space, err error) {
	if c.front, c.space = front, space; err != nil {
		c.space, c.do = &Space{}, func(_ context.Context, c *Call) { c.Fail(err) }
	}
	c.Next(ctx)
}

// Next passes the call to the next interceptor or, after the last one, to the broker.
func (c *Call) Next(ctx context.Context) {
	at := c.at
	c.at++
	switch inner := at - len(c.front.chain); {
	case inner < 0:
		c.front.chain[at].Intercept(ctx, c)
	case inner < len(c.space.Chain):
		c.space.Chain[inner].Intercept(ctx, c)
	default:
		c.do(ctx, c)
	}
	c.at = at
}

func (c *Call) Fail(err error) {
	switch {
	case c.InTransaction():
		c.Err = err
	case c.Op == Send:
		c.Appended = slices.Repeat([]core.Appended{{Err: err}}, len(c.Groups))
	case c.Op == Settle:
		c.Errs = slices.Repeat([]error{err}, len(c.Settlements))
	case c.Op == Renew:
		c.Renewals = slices.Repeat([]core.Renewal{{Err: err}}, len(c.Tokens))
	default:
		c.Err = err
	}
}

func (c *Call) InTransaction() bool { return c.Link != nil && c.Link.transaction }
