package listen

import (
	"container/list"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
)

// errEvicted is what is read from a connection that made room for another.
var errEvicted = errors.New("the connection was closed to make room: its client has not proven an identity")

const (
	// defaultDescriptors is taken for the limit of open files where it is not known.
	defaultDescriptors = 1024
	// maxStrangers is the default of AdmissionOptions.Strangers, where descriptors
	// allow for it.
	maxStrangers = 1024
	// strangersBytes bounds what all strangers together have sent and not been
	// answered. Up to their equal share of it they are left alone.
	strangersBytes = 16 << 20
	// rememberedFor is how long the network of a client that has proven an identity is known, and
	// maxRemembered how many networks are.
	rememberedFor = 24 * time.Hour
	maxRemembered = 4096
	// newFor is how long a connection counts as having got as far as it can: it takes a moment
	// to say anything, and to end a handshake.
	newFor = time.Second
)

// AdmissionOptions bound an Admission. Zero fields have their defaults.
type AdmissionOptions struct {
	// Connections is the number of connections that may be open; as many as the limit of open
	// files leaves room for, with a reserve for the store and files.
	Connections int
	// Strangers is how many of them may be those of strangers; a quarter, at most 1024.
	Strangers int
	// Logger may be nil.
	Logger *slog.Logger
}

// Admission knows the connections of strangers: clients without a proven identity. Strangers have
// places of their own. When these are taken, a further stranger takes the place of another: of one
// from an address with more than half of the places, then of one that has got least far, then of one
// from the networks with most strangers, then of the oldest. An eighth
// of the places is for networks from which somebody has proven an identity recently. A client with a
// proven identity never makes room.
type Admission struct {
	o        AdmissionOptions
	share    int64 // bytes that every stranger may have sent
	warnings bridges.Warnings

	bytes   atomic.Int64 // sent by strangers, and not answered
	evicted [reasons]atomic.Uint64

	mu        sync.Mutex
	open      int
	strangers list.List            // of *Conn, the oldest first
	networks  map[netip.Prefix]int // how many strangers there are, of each of a peer's networks
	known     int                  // of the strangers, those of remembered networks
	proven    map[netip.Addr]time.Time
}

// stage is how far a stranger's connection has got.
type stage int32

const (
	saidNothing    stage = iota // nothing was said
	saidPart                    // what was said may be the beginning of anything
	saidHello                   // it is known which protocol it speaks
	endedHandshake              // it has ended the handshake of TLS, and it is known what it speaks inside
)

// reason is why a connection was closed by an Admission.
type reason int

const (
	crowded reason = iota // there were too many strangers
	heavy                 // strangers had sent too much
	full                  // there were too many connections
	reasons               // how many there are
)

func (r reason) String() string { return [...]string{"strangers", "bytes", "connections"}[r] }

// NewAdmission returns an Admission without connections.
func NewAdmission(o AdmissionOptions) *Admission {
	if o.Connections <= 0 {
		o.Connections = connectionsFor(Descriptors())
	}
	if o.Strangers <= 0 {
		o.Strangers = min(maxStrangers, max(1, o.Connections/4))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Admission{o: o, share: strangersBytes / int64(o.Strangers), networks: map[netip.Prefix]int{}, proven: map[netip.Addr]time.Time{}}
}

// connectionsFor is how many of a process' descriptors connections may have: an
// eighth is left, within bounds, for listeners, the store, files and plugins.
func connectionsFor(descriptors int) int {
	return max(descriptors/2, descriptors-min(max(descriptors/8, 64), 4096))
}

// Limits returns how many connections may be open, and how many of them may be
// those of strangers.
func (a *Admission) Limits() (connections, strangers int) { return a.o.Connections, a.o.Strangers }

// AdmissionState is what an Admission counts.
type AdmissionState struct {
	Connections int               // open, those of strangers included
	Strangers   int               // of them
	Closed      map[string]uint64 // to make room, by what there was too much of
}

// State returns what is counted now.
func (a *Admission) State() AdmissionState {
	s := AdmissionState{Closed: map[string]uint64{}}
	for r := range reasons {
		s.Closed[r.String()] = a.evicted[r].Load()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Connections, s.Strangers = a.open, a.strangers.Len()
	return s
}

// Enter admits a stranger's connection, for which another may be closed. It returns nil, and closes
// nc, if every connection has a proven identity.
func (a *Admission) Enter(nc net.Conn) *Conn {
	c := &Conn{Conn: nc, admission: a, peer: addressOf(nc)}
	c.networks, c.since = networksOf(c.peer), time.Now()
	a.mu.Lock()
	var out *Conn
	why := crowded
	if a.strangers.Len() >= a.o.Strangers || a.open >= a.o.Connections {
		if a.strangers.Len() < a.o.Strangers {
			why = full
		}
		if out = a.victim(); out != nil {
			a.forget(out)
		}
	}
	refused := a.open >= a.o.Connections
	if !refused {
		a.open++
		c.counted = true
		c.known = time.Since(a.proven[c.peer]) < rememberedFor
		a.count(c, 1)
		c.element = a.strangers.PushBack(c)
	}
	a.mu.Unlock()
	switch {
	case refused:
		a.tell(full, c)
		_ = nc.Close()
		return nil
	case out != nil:
		out.evict(why)
	}
	return c
}

// victim is the stranger that goes next. nil: there are no strangers. a.mu is held.
func (a *Admission) victim() (out *Conn) {
	now := time.Now()
	spared := a.known <= max(1, a.o.Strangers/8) // those of networks that are known
	for e := a.strangers.Front(); e != nil; e = e.Next() {
		c := e.Value.(*Conn)
		if out == nil || a.goesBefore(c, out, spared, now) {
			out = c
		}
	}
	return out
}

// goesBefore reports whether c makes room before d, which came earlier.
func (a *Admission) goesBefore(c, d *Conn, spared bool, now time.Time) bool {
	if spared && c.known != d.known {
		return d.known
	}
	if of, ofD := a.fills(c), a.fills(d); of != ofD {
		return of
	}
	if of, ofD := c.reachedBy(now), d.reachedBy(now); of != ofD {
		return of < ofD
	}
	for i := range c.networks {
		if n, ofD := a.networks[c.networks[i]], a.networks[d.networks[i]]; n != ofD {
			return n > ofD
		}
	}
	return false
}

// fills reports whether c's address has more than half of the places. Its flood of new connections
// would otherwise outlast a client that takes a second for its handshake. a.mu is held.
func (a *Admission) fills(c *Conn) bool { return a.networks[c.networks[2]] > a.o.Strangers/2 }

// count adds n strangers like c. a.mu is held.
func (a *Admission) count(c *Conn, n int) {
	if c.known {
		a.known += n
	}
	for _, of := range c.networks {
		if a.networks[of] += n; a.networks[of] == 0 {
			delete(a.networks, of)
		}
	}
}

// networksOf are those that one customer may have been given, the largest first.
func networksOf(a netip.Addr) (all [3]netip.Prefix) {
	bits := [3]int{48, 56, 64}
	if a.Is4() {
		bits = [3]int{24, 24, 32}
	}
	for i := range all {
		all[i], _ = a.Prefix(bits[i]) // what is not an address has no network
	}
	return all
}

// leave takes c out of the strangers. a.mu is held.
func (a *Admission) leave(c *Conn) {
	if c.element == nil {
		return
	}
	a.strangers.Remove(c.element)
	c.element = nil
	a.count(c, -1)
}

// remember notes that somebody at c's address has proven an identity. a.mu is held.
func (a *Admission) remember(c *Conn) {
	now := time.Now()
	if _, known := a.proven[c.peer]; !known && len(a.proven) >= maxRemembered {
		var oldest netip.Addr
		for of, at := range a.proven {
			if before, ok := a.proven[oldest]; !ok || at.Before(before) {
				oldest = of
			}
		}
		delete(a.proven, oldest)
	}
	a.proven[c.peer] = now
}

// forget does not count c any more. a.mu is held.
func (a *Admission) forget(c *Conn) {
	a.leave(c)
	if c.counted {
		c.counted = false
		a.open--
	}
}

// tell counts a connection that is closed to make room, and warns now and then.
func (a *Admission) tell(why reason, c *Conn) {
	n := a.evicted[why].Add(1)
	if !a.warnings.Due() {
		return
	}
	about := []any{"peer", c.RemoteAddr().String(), "closed", n}
	switch why {
	case full:
		a.o.Logger.Warn("too many connections for the limit of open files: raise it", append(about, "limit", a.o.Connections)...)
	case heavy:
		a.o.Logger.Warn("clients without a proven identity have sent too much: closing those that sent most", append(about, "limit", strangersBytes)...)
	default:
		a.o.Logger.Warn("too many connections without a proven identity: closing those that have come least far", append(about, "limit", a.o.Strangers)...)
	}
}

// Conn is a connection that an Admission knows.
type Conn struct {
	net.Conn
	admission *Admission
	peer      netip.Addr
	networks  [3]netip.Prefix // of peer
	since     time.Time
	known     bool // somebody there has proven an identity recently

	stage  atomic.Int32
	proven atomic.Bool
	bytes  atomic.Int64 // of Admission.bytes

	element *list.Element // among the strangers; nil: not a stranger. admission.mu guards it
	counted bool          // in admission.open; admission.mu guards it
}

// Proven says that the client has proven an identity: its connection is never closed to make room
// from now on.
func (c *Conn) Proven() {
	if c.proven.Swap(true) {
		return
	}
	c.Answered()
	c.admission.mu.Lock()
	defer c.admission.mu.Unlock()
	c.admission.leave(c)
	c.admission.remember(c)
}

// reachedBy is how far the connection has got, or could have got if it is new.
func (c *Conn) reachedBy(now time.Time) stage {
	if now.Sub(c.since) < newFor {
		return endedHandshake
	}
	return stage(c.stage.Load())
}

// reached records how far the connection has got.
func (c *Conn) reached(s stage) { c.stage.Store(int32(s)) }

// Answered says that nothing is kept of what the client has sent so far.
func (c *Conn) Answered() {
	c.admission.bytes.Add(-c.bytes.Swap(0))
}

// Read counts what a stranger sends.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 || c.proven.Load() {
		return n, err
	}
	c.stage.CompareAndSwap(int32(saidNothing), int32(saidPart))
	mine := c.bytes.Add(int64(n))
	all := c.admission.bytes.Add(int64(n))
	switch {
	case c.proven.Load(): // meanwhile
		c.Answered()
	case all > strangersBytes && mine > c.admission.share:
		c.evict(heavy)
		return 0, errEvicted
	}
	return n, err
}

// Close closes the connection, and gives its place back.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.proven.Store(true) // nothing is counted any more
	c.Answered()
	c.admission.mu.Lock()
	defer c.admission.mu.Unlock()
	c.admission.forget(c)
	return err
}

// evict closes the connection to make room.
func (c *Conn) evict(why reason) {
	c.admission.tell(why, c)
	_ = c.Close()
}

// SyscallConn is the SyscallConn of rewound.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return socketOf(c.Conn) }

// CloseWrite is the CloseWrite of rewound.
func (c *Conn) CloseWrite() error { return closeWrite(c.Conn) }

// addressOf is the IP address of a connection's peer; the zero address if it has none.
func addressOf(nc net.Conn) netip.Addr {
	at, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return bridges.Network(at.AddrPort().Addr())
}

// Guard returns ln with its connections admitted. Use it only for servers that do not authenticate
// clients: their connections remain strangers'.
func (a *Admission) Guard(ln net.Listener) net.Listener { return guarded{ln, a} }

// guarded is a listener of admitted connections.
type guarded struct {
	net.Listener
	admission *Admission
}

func (g guarded) Accept() (net.Conn, error) {
	for {
		nc, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := g.admission.Enter(nc); c != nil {
			return c, nil
		}
	}
}

// SameSite refuses what a browser asks for on behalf of a page of another site:
// browsers say so in Sec-Fetch-Site (Fetch Metadata, §2.4), and older ones in Origin.
func SameSite(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		foreign := site != "" && site != "same-origin" && site != "none"
		if origin != "" && site == "" {
			u, err := url.Parse(origin)
			foreign = err != nil || u.Host != r.Host
		}
		if foreign {
			http.Error(w, "Pages of other sites may not ask for this.", http.StatusForbidden)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		h.ServeHTTP(w, r)
	})
}
