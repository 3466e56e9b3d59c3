package amqp

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/value"
)

// conn implements engine.Handler. It passes the events of a link to the link's Data, which is a
// senderLink, receiverLink, browseLink, requestLink, replyLink or coordinatorLink.

// endpoint is what all types of a link's Data have in common.
type endpoint interface {
	// detached is called when the link has ended.
	detached()
}

var _ engine.Handler = (*conn)(nil)

// Opened reacts to the client's open.
func (c *conn) Opened(o *wire.Open) {
	c.until = time.Now().Add(c.bridge.opts.AuthTimeout)
	c.product = productOf(o)
	c.ctx = core.WithDisconnect(core.WithPeer(c.ctx, bridges.Peer(c.protocol(), c.nc.RemoteAddr().String(), c.product)), c.disconnect)
	c.hostname = cmp.Or(o.Hostname, c.hostname)
	if c.host == "" {
		c.host = hostOf(o.Hostname)
	}
}

// Faulted returns the error that closes the connection of a client that has broken the protocol.
func (c *conn) Faulted(err *wire.Error) *wire.Error { return c.closingFor(err) }

// closingFor returns the error for a client whose connection closes because of err, and logs err.
func (c *conn) closingFor(err error) *wire.Error {
	return c.refusal(nil, err, core.Address{}, "product", c.product)
}

// disconnect breaks the connection without telling the client why. If most is 0, the connection
// breaks at once, otherwise during the next write: most is the maximum number of bytes of this
// write that the client still gets. Any goroutine may call disconnect.
func (c *conn) disconnect(most int) {
	if most > 0 {
		c.owner.Post(func() { c.last = most })
		return
	}
	_ = c.nc.Close() // ends the reader
}

// hostOf returns the host in name, without scheme, port and path.
func hostOf(name string) string {
	if _, rest, ok := strings.Cut(name, "://"); ok {
		name = rest
	}
	if i := strings.IndexAny(name, ":/"); i >= 0 {
		name = name[:i]
	}
	if name == "" || len(name) > 255 {
		return "localhost"
	}
	return name
}

// Attached accepts or refuses a link, according to its source or target, and to the limits.
func (c *conn) Attached(l *engine.Link) {
	a := l.Attach()
	if c.drains != "" {
		l.Refuse(&wire.Error{Condition: wire.CondDetachForced, Description: c.drains})
		return
	}
	if err := c.standMore(fair.Link); err != nil {
		l.Refuse(c.refusal(l, err, core.Address{}))
		return
	}
	if a.Coordinator != nil {
		c.attachCoordinator(l)
		return
	}
	var spelled string
	if a.Role == wire.RoleSender && a.Target != nil {
		spelled = a.Target.Address.V
	}
	if a.Role == wire.RoleReceiver && a.Source != nil {
		spelled = a.Source.Address.V
	}
	if strings.EqualFold(strings.Trim(spelled, "/"), cbsNode) {
		c.attachTokens(l)
		return
	}
	var addr core.Address
	err := checkTermini(a)
	if err == nil {
		addr, err = core.ParseAddress(spelled)
	}
	switch {
	case err != nil:
		l.Refuse(c.refusal(l, err, core.Address{Entity: core.ResourcePath(spelled)}))
	case addr.Management:
		c.attachManagement(l, addr)
	case a.Role == wire.RoleSender:
		c.attachSender(l, addr)
	case a.Source.DistributionMode == modeCopy:
		c.attachBrowser(l, addr)
	default:
		c.attachReceiver(l, addr)
	}
}

// The values of a source's distribution-mode, AMQP 1.0 §3.5.5.
const (
	modeMove value.Symbol = "move"
	modeCopy value.Symbol = "copy"
)

const (
	selectorFilter        = "apache.org:selector-filter:string"
	selectorCode   uint64 = 0x0000468c00000004
)

// checkTermini refuses requests that the bridge does not support and that change which messages a
// client gets. Other unsupported requests are only left out of the answer.
func checkTermini(a *wire.Attach) error {
	if a.Source != nil && a.Source.Dynamic || a.Target != nil && a.Target.Dynamic {
		return core.Refuse(core.NotImplemented, "Dynamic nodes, such as temporary queues, are not supported: create a queue and use its name.")
	}
	if a.Role != wire.RoleReceiver || a.Source == nil {
		return nil
	}
	for _, e := range a.Source.Filter {
		key, _ := text(e.Key)
		d, _ := e.Value.(value.Described)
		name, _ := text(d.Descriptor)
		if d.Descriptor == selectorCode || name == selectorFilter || key == selectorFilter {
			return core.Refuse(core.NotImplemented, "Selectors are not supported: receive from a subscription whose rule chooses the messages.")
		}
	}
	return nil
}

func (c *conn) Received(l *engine.Link, m engine.Message) {
	if d, ok := l.Data.(interface{ received(engine.Message) }); ok {
		d.received(m)
	}
}

// TooLarge returns the error for a message that is too large.
func (c *conn) TooLarge(l *engine.Link, size int64) *wire.Error {
	limit := maxRequestSize
	switch d := l.Data.(type) {
	case *senderLink:
		limit = d.sender.MaxMessageSize()
	case *requestLink:
		limit = d.size
	case *coordinatorLink:
		limit = maxRequestBytes
	}
	return c.refusal(l, core.Refuse(core.TooLarge, "The message has %d bytes or more: at most %d are allowed.", size, limit), addressOf(l))
}

// Refused answers a request that the engine has dropped. Few clients look at the outcome of a
// request's delivery, so a response is sent, too.
func (c *conn) Refused(l *engine.Link, head []byte, why *wire.Error) {
	if r, ok := l.Data.(*requestLink); ok {
		r.refused(head, why)
	}
}

// Missed makes a transaction fail, because one of its operations was dropped.
func (c *conn) Missed(state wire.TransactionalState) { c.spoil(state, errMissed) }

// Lapsed returns the error for a settlement that comes after the end of the delivery's lock.
func (c *conn) Lapsed(l *engine.Link) *wire.Error {
	return c.refusal(l, core.LockLost, addressOf(l))
}

func (c *conn) Disposed(l *engine.Link, d engine.Disposal) {
	if r, ok := l.Data.(interface{ disposed(engine.Disposal) }); ok {
		r.disposed(d)
	}
}

func (c *conn) Flowed(l *engine.Link) {
	if d, ok := l.Data.(interface{ flowed() }); ok {
		d.flowed()
	}
}

func (c *conn) Detached(l *engine.Link) {
	if d, ok := l.Data.(endpoint); ok {
		d.detached()
	}
}

type opening[T any] struct {
	opened T
	err    error
}

// open runs call, which opens something for link l, outside the owner. Then it runs attach, or
// refuses the link if call failed. If the link has ended in the meantime, attach returns false, and
// open runs abandon with what was opened.
func open[T any](c *conn, l *engine.Link, addr core.Address, call func(context.Context, core.Identity) (T, error), attach func(T) bool, abandon func(T)) {
	id := c.identity
	c.async(func(ctx context.Context) func() {
		var o opening[T]
		o.opened, o.err = call(ctx, id)
		return func() {
			switch {
			case o.err != nil:
				l.Refuse(c.refusal(l, o.err, addr))
			case !attach(o.opened):
				abandon(o.opened)
			}
		}
	})
}

// linkProperties returns the properties of an answering attach. Clients require a map, even an
// empty one.
func linkProperties(maxSize int64) value.Map {
	if maxSize <= 0 {
		return value.Map{}
	}
	return value.Map{{Key: value.Symbol("com.microsoft:max-message-batch-size"), Value: uint64(min(maxSize, maxBatchSize))}}
}

// maxBatchSize bounds, in bytes, the batches that clients may send, even if messages may be larger.
const maxBatchSize = 1 << 20

// scope says which entities the transactions within one AMQP session may use. For a transaction
// over several entities, a client puts its coordinator link and all other links into one AMQP
// session. There, the client may send to every entity, but receive only from the first queue or
// topic that it used, with all its subscriptions and sub-queues.
type scope struct {
	transacted bool         // the AMQP session has a coordinator link
	root       string       // the first queue or topic that was used
	by         *engine.Link // the link that used it
}

func scopeOf(l *engine.Link) *scope {
	session := l.Session()
	s, _ := session.Data.(*scope)
	if s == nil {
		s = &scope{}
		session.Data = s
	}
	return s
}

// topLevel returns the queue or topic to which the address belongs.
func topLevel(addr core.Address) string { return core.EntityOf(core.FoldName(addr.Entity)) }

var errSeveralEntities = core.Refuse(core.NotAllowed, "Local transactions cannot span multiple top-level entities such as queue or topic.")

// checkScope records that link l uses the entity of addr. It returns an error for an entity from
// which links of the AMQP session may not receive.
func checkScope(l *engine.Link, addr core.Address) error {
	s, top := scopeOf(l), topLevel(addr)
	switch {
	case s.root == "" || s.by.Refused():
		s.root, s.by = top, l
	case s.transacted && s.root != top && l.Attach().Role == wire.RoleReceiver:
		return errSeveralEntities
	}
	return nil
}

// reaches returns an error if Service Bus would not allow link l to use the entity of addr within
// the transaction: every entity but the first requires a link of the coordinator's AMQP session.
func (t *transaction) reaches(l *engine.Link, addr core.Address) error {
	top := topLevel(addr)
	switch {
	case t.entity == "":
		t.entity = top
	case t.conn.bridge.opts.StrictTransactions && t.entity != top && l.Session() != t.coordinator.link.Session():
		return errSeveralEntities
	}
	return nil
}
