package link

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/clients"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

const maxGrants = 5000

// Shared is what all connections of a bridge use.
type Shared struct {
	fair.Pools
	Authority core.Authority
	Logger    *slog.Logger
	Refusals  *refusals.Log
	Places    *fair.Pool // limits the connections of clients with a proven identity
}

// Conn is the part of a connection that does not depend on the protocol. Any goroutine may use ID,
// Log, NC, Owner, Memory, Standing and Refusals, because they never change. Only jobs of Owner use
// the other fields.
type Conn struct {
	ID       string // in the log
	Log      *slog.Logger
	NC       net.Conn
	Owner    *Owner         // runs all jobs: of the reader, of writes, of timers and of broker calls
	Tasks    sync.WaitGroup // goroutines that must end before the connection does
	Timer    *Timer
	Calls    *Calls
	Memory   *fair.Share // work in progress
	Standing *fair.Share // the connection itself
	Refusals *refusals.Share
	Since    time.Time
	Product  string // what the client calls itself
	Identity core.Identity
	Last     int // how many bytes of the next write are sent before a fault breaks the connection; 0 if none does

	shared *Shared
	cancel context.CancelFunc
	leave  func() // stops counting the connection in its namespace; nil if it is not counted
}

// Protocol is a connection with its protocol. Its Conn calls these as jobs of the Owner.
type Protocol interface {
	Pass()          // runs after the queued jobs
	Fail(err error) // a job has panicked, and no further jobs run
	Panicked()      // a broker call has panicked
	Evict()         // memory is full, and this connection uses the most
}

func (c *Conn) Open(s *Shared, nc net.Conn, p Protocol) {
	c.shared, c.NC, c.ID, c.Since, c.Refusals = s, nc, refusals.NewID(), time.Now(), s.Refusals.Share()
	c.Log = s.Logger.With("conn", c.ID, "peer", nc.RemoteAddr().String())
	c.Owner = New(p.Pass, p.Fail)
	c.Memory = s.Budget.Share(func() { c.Owner.Post(func() {}) })
	c.Memory.Evictable(func() { c.Owner.Post(p.Evict) })
	c.Standing = s.Standing.Share(nil)
	c.Calls = NewCalls(&c.Tasks, c.Owner, c.Memory, func(err error) {
		c.Log.Error("panic in an operation of a client: the gateway closes the connection", "err", err)
		p.Panicked()
	})
	c.Calls.Ctx, c.cancel = context.WithCancel(core.WithDisconnect(context.Background(), c.disconnect))
	c.Timer = NewTimer(c.Owner)
}

// Allow adds a grant to the client's identity. The first grant counts the connection for the
// identity, and takes cost bytes of Standing. expelled then runs when the connection must close.
func (c *Conn) Allow(g core.Grant, cost int64, expelled func(reason error)) error {
	id, err := c.Identity.With(g, maxGrants, time.Now())
	if err != nil {
		return err
	}
	if c.leave == nil {
		if err := c.enter(id, cost, expelled); err != nil {
			return err
		}
	}
	c.Identity = id
	c.Memory.Join(fair.Of(id))
	c.Standing.Join(fair.Of(id))
	return nil
}

func (c *Conn) enter(id core.Identity, cost int64, expelled func(error)) error {
	vacate, err := c.shared.Places.Open(fair.Of(id), 1)
	if err != nil {
		return err
	}
	c.Standing.Join(fair.Of(id))
	if !c.Standing.Take(cost) {
		vacate()
		return c.Standing.Refuse(cost)
	}
	leave, err := c.shared.Authority.Enter(id, expelled)
	if err != nil {
		c.Standing.Release()
		vacate()
		return err
	}
	c.leave = func() {
		leave()
		vacate()
	}
	bridges.Prove(c.NC)
	return nil
}

// disconnect breaks the connection without telling the client why: at once if most is 0, otherwise
// in the next write, after at most that many bytes. Any goroutine may call it.
func (c *Conn) disconnect(most int) {
	if most > 0 {
		c.Owner.Post(func() { c.Last = most })
		return
	}
	_ = c.NC.Close() // ends the reader
}

// Dispose frees what the connection uses, once its Owner has ended. See End for letGo.
func (c *Conn) Dispose(letGo func()) {
	c.cancel()
	c.Timer.Stop()
	_ = c.NC.Close()
	End(&c.Tasks, c.Owner, c.Log, letGo)
	if c.leave != nil {
		c.leave()
	}
	c.Memory.Close()
	c.Standing.Close()
}

// Owned implements a method of clients.Member.
func (c *Conn) Owned() (id string, owner clients.Owner) { return c.ID, c.Owner }

// About describes the connection without its links.
func (c *Conn) About(protocol string) bridges.Connection {
	return bridges.Connection{
		ID: c.ID, Protocol: protocol, Peer: c.NC.RemoteAddr().String(), Since: c.Since, Namespace: c.Identity.Namespace(),
		Product: c.Product, Policies: c.Identity.Policies(), Links: []bridges.Link{},
	}
}
