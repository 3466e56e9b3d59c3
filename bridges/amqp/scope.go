package amqp

import (
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/engine"
	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core"
)

// scope is what the transactions of one AMQP session may reach. A client that wants transactions over several entities
// puts its coordinator link and all others into one AMQP session: it may send to every entity there, and receive from
// the first that it used, with all subscriptions where that is a topic, and all sub-queues.
type scope struct {
	transacted bool         // the AMQP session has a coordinator link
	root       string       // the top-level entity that was used first
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

// topLevel is the queue or topic of an address.
func topLevel(addr core.Address) string { return core.EntityOf(core.FoldName(addr.Entity)) }

var errSeveralEntities = core.Refuse(core.NotAllowed, "Local transactions cannot span multiple top-level entities such as queue or topic.")

// checkScope notes that link l uses the entity of addr, and refuses an entity from which its AMQP session may not
// receive.
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

// reaches refuses an operation on the entity of addr that a transaction of the service could not hold. It may touch a
// second entity only within the AMQP session of its coordinator.
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
