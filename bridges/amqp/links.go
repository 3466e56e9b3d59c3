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

// conn implements engine.Handler. It passes the events of a link to the link's Data: a senderLink,
// receiverLink, browseLink, requestLink, replyLink or coordinatorLink.

type endpoint interface {
	address() core.Address
	detached()
}

type end struct {
	conn   *conn
	link   *engine.Link
	addr   core.Address // zero if the link has no entity
	closed error        // why close was called, or nil
}

func (e *end) address() core.Address { return e.addr }

// close detaches the link, because the broker has ended what the link uses.
func (e *end) close(err error) {
	e.closed = err
	if e.link.Open() {
		e.link.Detach(e.conn.refusal(e.link, err, e.addr))
		e.conn.Detached(e.link)
	}
}

func addressOf(l *engine.Link) (addr core.Address) {
	if d, ok := l.Data.(endpoint); ok {
		addr = d.address()
	}
	return addr
}

var _ engine.Handler = (*conn)(nil)

func (c *conn) Opened(o *wire.Open) {
	c.until = time.Now().Add(authTimeout)
	c.Product = productOf(o)
	c.Calls.Ctx = core.WithPeer(c.Calls.Ctx, bridges.Peer(c.protocol(), c.NC.RemoteAddr().String(), c.Product))
	c.hostname = cmp.Or(o.Hostname, c.hostname)
	c.host = hostOf(o.Hostname)
}

func (c *conn) Faulted(err *wire.Error) *wire.Error { return c.closingFor(err) }

func (c *conn) closingFor(err error) *wire.Error {
	return c.refusal(nil, err, core.Address{}, "product", c.Product)
}

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

// checkTermini refuses dynamic nodes and selectors, because without them the client would get other
// messages than it expects. The answer leaves out other unsupported requests.
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

// Refused responds to a dropped request, because few clients look at the outcome of its delivery.
func (c *conn) Refused(l *engine.Link, head []byte, why *wire.Error) {
	if r, ok := l.Data.(*requestLink); ok {
		r.refused(head, why)
	}
}

func (c *conn) Missed(state wire.TransactionalState) { c.spoil(state, errMissed) }

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

// open runs call in a goroutine, to open something for link l. Then it runs attach, or refuses the
// link if call failed. If attach returns false, the link has ended, and open runs abandon.
func open[T any](c *conn, l *engine.Link, addr core.Address, call func(context.Context, core.Identity) (T, error), attach func(T) bool, abandon func(T)) {
	id := c.Identity
	c.Calls.Begin(func(ctx context.Context) func() {
		opened, err := call(ctx, id)
		return func() {
			switch {
			case err != nil:
				l.Refuse(c.refusal(l, err, addr))
			case !attach(opened):
				abandon(opened)
			}
		}
	})
}

// linkProperties returns a map, even an empty one, because clients require it.
func linkProperties(maxSize int64) value.Map {
	if maxSize <= 0 {
		return value.Map{}
	}
	return value.Map{{Key: value.Symbol("com.microsoft:max-message-batch-size"), Value: uint64(min(maxSize, maxBatchSize))}}
}

// maxBatchSize bounds, in bytes, the batches that clients may send, even if messages may be larger.
const maxBatchSize = 1 << 20

// scope says which entities the transactions of one AMQP session may use. In a session with a
// coordinator link, the client may send to every entity, but receive only from the first queue or
// topic that it used, with its subscriptions and sub-queues.
type scope struct {
	transacted bool         // the AMQP session has a coordinator link
	root       string       // the first queue or topic that a link used
	by         *engine.Link // the link that has set root
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

func topLevel(addr core.Address) string { return core.EntityOf(core.FoldName(addr.Entity)) }

var errSeveralEntities = core.Refuse(core.NotAllowed, "Local transactions cannot span multiple top-level entities such as queue or topic.")

// checkScope records that link l uses the entity of addr, or returns an error if the AMQP session's
// transactions do not allow this.
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

// reaches returns an error if t may not include addr. With StrictTransactions, it refuses every
// entity but the first, as Service Bus does, unless l is in the coordinator's AMQP session.
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
