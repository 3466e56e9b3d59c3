package listen

import (
	"cmp"
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

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/crosstown-mq/crosstown/bridges"
)

// errEvicted is the error of reads from a connection that the gateway closed to admit another.
var errEvicted = errors.New("the gateway closed the connection to make room for others, because the client had not sent a valid token")

const (
	defaultDescriptors = 1024
	maxStrangers       = 1024
	// strangersBytes limits the unanswered bytes of all strangers (clients without a proven identity).
	// Headers of other clients' HTTP requests also count, until their token is checked. At the limit,
	// the gateway closes connections that have sent more than an equal share.
	strangersBytes = 16 << 20
	// rememberedFor is how long Admission remembers the network of a client that proved an identity.
	rememberedFor = 24 * time.Hour
	maxRemembered = 4096
	// For the time newFor, a new connection counts as having reached the last stage, because its first
	// bytes and its handshake take a moment.
	newFor = time.Second
)

type AdmissionOptions struct {
	// Connections is by default the limit of open files, minus a reserve for other files.
	Connections int
	// Strangers is by default a quarter of Connections, but at most 1024.
	Strangers int
	Logger    *slog.Logger
}

// Admission limits the connections of strangers (clients without a proven identity). At the limit,
// a new stranger replaces another: first one whose address has more than half of the limit, then
// the one with the least progress, then one from the network with most strangers, then the oldest.
// An eighth of the limit is reserved for networks from which a client has recently proven an
// identity. Admission never replaces a client that has proven an identity.
type Admission struct {
	o        AdmissionOptions
	share    int64 // bytes that each stranger may have sent without an answer
	warnings bridges.Warnings

	bytes   atomic.Int64 // sent by strangers and not answered yet
	evicted [reasons]atomic.Uint64

	mu        sync.Mutex
	open      int
	strangers list.List             // of *Conn, oldest first
	networks  map[netip.Prefix]*int // numbers of strangers
	known     int                   // number of strangers from remembered networks
	proven    *lru.Cache[netip.Addr, time.Time]
}

// stage is the progress of a connection whose client has not proven an identity.
type stage int32

const (
	saidNothing    stage = iota // the client has sent nothing
	saidPart                    // the first bytes do not show the protocol yet
	saidHello                   // the first bytes show the protocol
	endedHandshake              // the TLS handshake is complete, and the protocol inside is known
)

type reason int

const (
	crowded reason = iota // too many strangers
	heavy                 // too many bytes
	full                  // too many connections
	reasons
)

func (r reason) String() string { return [...]string{"strangers", "bytes", "connections"}[r] }

func NewAdmission(o AdmissionOptions) *Admission {
	o.Connections = cmp.Or(o.Connections, connectionsFor(Descriptors()))
	o.Strangers = cmp.Or(o.Strangers, min(maxStrangers, max(1, o.Connections/4)))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	proven, _ := lru.New[netip.Addr, time.Time](maxRemembered) // the size is valid
	return &Admission{o: o, share: strangersBytes / int64(o.Strangers), networks: map[netip.Prefix]*int{}, proven: proven}
}

// connectionsFor returns how many descriptors are for connections: all but an eighth, within
// limits.
func connectionsFor(descriptors int) int {
	return max(descriptors/2, descriptors-min(max(descriptors/8, 64), 4096))
}

func (a *Admission) Limits() (connections, strangers int) { return a.o.Connections, a.o.Strangers }

type AdmissionState struct {
	Connections int // including those of strangers
	Strangers   int
	Closed      map[string]uint64 // number of connections closed to admit others, by reason
}

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

// Enter admits nc. At a limit, it first closes the connection of another stranger. At the limit of
// connections, if there is no other stranger, it closes nc and returns nil.
func (a *Admission) Enter(nc net.Conn) *Conn {
	c := &Conn{Conn: nc, admission: a, peer: addressOf(nc)}
	c.since = time.Now()
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
		at, _ := a.proven.Peek(c.peer)
		c.known = time.Since(at) < rememberedFor
		a.join(c)
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

// victim returns the stranger whose connection to close next, or nil. The caller holds a.mu.
func (a *Admission) victim() (out *Conn) {
	now := time.Now()
	spared := a.known <= max(1, a.o.Strangers/8) // keep strangers from known networks
	for e := a.strangers.Front(); e != nil; e = e.Next() {
		c := e.Value.(*Conn)
		if out == nil || a.goesBefore(c, out, spared, now) {
			out = c
		}
	}
	return out
}

// goesBefore reports whether to close c rather than d, which is older. If spared is true,
// connections from known networks stay.
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
		if n, ofD := *c.networks[i], *d.networks[i]; n != ofD {
			return n > ofD
		}
	}
	return false
}

// fills reports whether c's address has more than half of the connections for strangers. Without
// this rule, a flood of new connections would replace clients whose handshake takes a second. The
// caller holds a.mu.
func (a *Admission) fills(c *Conn) bool { return *c.networks[2] > a.o.Strangers/2 }

// join adds c to the strangers. The caller holds a.mu.
func (a *Admission) join(c *Conn) {
	if c.known {
		a.known++
	}
	for i, prefix := range networksOf(c.peer) {
		of := a.networks[prefix]
		if of == nil {
			of = new(int)
			a.networks[prefix] = of
		}
		*of++
		c.networks[i] = of
	}
	c.element = a.strangers.PushBack(c)
}

// networksOf returns the networks around a that may belong to one customer, the largest first.
func networksOf(a netip.Addr) (all [3]netip.Prefix) {
	bits := [3]int{48, 56, 64}
	if a.Is4() {
		bits = [3]int{24, 24, 32}
	}
	for i := range all {
		all[i], _ = a.Prefix(bits[i]) // an invalid address has no network
	}
	return all
}

// leave removes c from the strangers. The caller holds a.mu.
func (a *Admission) leave(c *Conn) {
	if c.element == nil {
		return
	}
	a.strangers.Remove(c.element)
	c.element = nil
	if c.known {
		a.known--
	}
	for i, prefix := range networksOf(c.peer) {
		if *c.networks[i]--; *c.networks[i] == 0 {
			delete(a.networks, prefix)
		}
	}
}

// forget removes c from all counts. The caller holds a.mu.
func (a *Admission) forget(c *Conn) {
	a.leave(c)
	if c.counted {
		c.counted = false
		a.open--
	}
}

func (a *Admission) tell(why reason, c *Conn) {
	n := a.evicted[why].Add(1)
	if !a.warnings.Due() {
		return
	}
	about := []any{"peer", c.RemoteAddr().String(), "closed", n}
	switch why {
	case full:
		a.o.Logger.Warn("the connections have reached the limit of open files, so the gateway closes some: raise this limit (ulimit -n)", append(about, "limit", a.o.Connections)...)
	case heavy:
		a.o.Logger.Warn("clients without a valid token have sent too much data: the gateway closes the connections that sent most", append(about, "limit", strangersBytes)...)
	default:
		a.o.Logger.Warn("too many connections without a valid token: the gateway closes those whose handshakes have progressed least", append(about, "limit", a.o.Strangers)...)
	}
}

type Conn struct {
	net.Conn
	admission *Admission
	peer      netip.Addr
	networks  [3]*int // strangers in the networks of peer while c is a stranger's connection
	since     time.Time
	known     bool // a client in one of these networks has recently proven an identity

	stage  atomic.Int32
	proven atomic.Bool
	bytes  atomic.Int64 // c's part of Admission.bytes

	charging sync.Mutex
	release  func()      // releases what Charge took, or nil; guarded by charging
	closed   atomic.Bool // set while charging is locked; when true, c no longer counts

	element *list.Element // c's element in strangers, or nil; guarded by admission.mu
	counted bool          // c is counted in admission.open; guarded by admission.mu
}

// Proven records that the client has proven an identity, after which c is never closed for another
// connection.
func (c *Conn) Proven() {
	known := c.proven.Swap(true)
	c.Answered()
	if known {
		return
	}
	c.admission.mu.Lock()
	defer c.admission.mu.Unlock()
	c.admission.leave(c)
	c.admission.proven.Add(c.peer, time.Now())
}

// Charge calls take unless it has already succeeded. Close calls the release that take returned.
func (c *Conn) Charge(take func() (release func(), err error)) error {
	c.charging.Lock()
	defer c.charging.Unlock()
	if c.release != nil || c.closed.Load() {
		return nil
	}
	release, err := take()
	if err == nil {
		c.release = release
	}
	return err
}

// reachedBy returns the stage that c has reached. For a new connection, it returns the last stage.
func (c *Conn) reachedBy(now time.Time) stage {
	if now.Sub(c.since) < newFor {
		return endedHandshake
	}
	return stage(c.stage.Load())
}

func (c *Conn) reached(s stage) { c.stage.Store(int32(s)) }

// Answered records that the gateway no longer holds data of the client in memory.
func (c *Conn) Answered() {
	c.admission.bytes.Add(-c.bytes.Swap(0))
}

func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 || c.proven.Load() {
		return n, err
	}
	c.stage.CompareAndSwap(int32(saidNothing), int32(saidPart))
	tooMuch := c.hold(n)
	switch {
	case c.proven.Load(): // proven in the meantime
		c.Answered()
	case tooMuch:
		c.evict(heavy)
		return 0, errEvicted
	}
	return n, err
}

// hold counts n bytes from a stranger, or of a header whose token is not checked yet. It returns
// true if all such bytes are too many, and those of c are more than its share.
func (c *Conn) hold(n int) bool {
	mine := c.bytes.Add(int64(n))
	all := c.admission.bytes.Add(int64(n))
	if c.closed.Load() {
		c.Answered()
	}
	return all > strangersBytes && mine > c.admission.share
}

func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.charging.Lock()
	if !c.closed.Swap(true) && c.release != nil {
		c.release()
	}
	c.charging.Unlock()
	c.Answered()
	c.admission.mu.Lock()
	defer c.admission.mu.Unlock()
	c.admission.forget(c)
	return err
}

func (c *Conn) evict(why reason) {
	c.admission.tell(why, c)
	_ = c.Close()
}

func (c *Conn) SyscallConn() (syscall.RawConn, error) { return socketOf(c.Conn) }

func (c *Conn) CloseWrite() error { return closeWrite(c.Conn) }

func addressOf(nc net.Conn) netip.Addr {
	at, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return bridges.Network(at.AddrPort().Addr())
}

// Guard admits connections to servers that do not authenticate: all clients count as strangers.
func (a *Admission) Guard(ln net.Listener) net.Listener { return guarded{ln, a} }

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

// SameSite refuses requests that browsers send on behalf of pages of another site. Browsers send
// the site in Sec-Fetch-Site (Fetch Metadata, §2.4), older ones in Origin.
func SameSite(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		foreign := site != "" && site != "same-origin" && site != "none"
		if origin != "" && site == "" {
			u, err := url.Parse(origin)
			foreign = err != nil || u.Host != r.Host
		}
		if foreign {
			http.Error(w, "Pages from other origins may not send this request.", http.StatusForbidden)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		h.ServeHTTP(w, r)
	})
}
