package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

const (
	// firstPause and lastPause bound the pause between attempts to connect to a remote.
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
	// dialTimeout bounds an attempt to connect, including TLS and authentication.
	dialTimeout = 20 * time.Second
)

var errNotYet = errors.New("not connected yet")

// Remote is another broker. It implements core.Remote.
type Remote struct {
	o      Options
	here   Local // set by Run
	log    *slog.Logger
	window *semaphore.Weighted // the window: messages in flight to the remote

	wanted chan struct{} // receives when a message finds the remote away

	flying atomic.Int64 // messages that are sent and not yet answered

	mu         sync.Mutex
	connection *connection // nil: the remote is away
	since      time.Time
	err        error // why the remote is away, or was last
	erred      time.Time
	backs      map[*func()]struct{}
	targets    map[string]*target
	sources    []*source
}

var _ core.Remote = (*Remote)(nil)

// New makes a Remote, which connects when Run is called.
func New(o Options) *Remote {
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	r := &Remote{
		o: o, log: o.Logger.With("remote", o.Name), window: semaphore.NewWeighted(int64(o.Window)),
		wanted: make(chan struct{}, 1), since: time.Now(), err: errNotYet, backs: map[*func()]struct{}{}, targets: map[string]*target{},
	}
	for _, p := range o.Pulls {
		r.sources = append(r.sources, &source{r: r, Pull: p})
	}
	return r
}

// Window implements core.Remote.
func (r *Remote) Window() int { return r.o.Window }

// Watch implements core.Remote.
func (r *Remote) Watch(back func()) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backs[&back] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.backs, &back)
	}
}

// Run keeps a connection to the remote and pulls messages, until ctx ends. Then it returns nil.
// Call it once.
func (r *Remote) Run(ctx context.Context, here Local) error {
	here.Memory = cmp.Or(here.Memory, fair.New(0, nil, nil))
	r.here = here
	pause := firstPause
	for ctx.Err() == nil {
		l, err := r.connect(ctx)
		_, refused := errors.AsType[*refusedToken](err)
		switch {
		case refused && len(r.sources) == 0:
			// The remote would soon close the connection again. A message will name another entity.
			r.lost(err, "the remote refused the token; the gateway tries again when it has a message for the remote")
			select {
			case <-ctx.Done():
			case <-r.wanted:
			}
		case err != nil:
			r.lost(err, awayText)
		default:
			if r.serve(ctx, l); !l.splice.Refused() { // the pause grows if the splice refused a frame: the remote may send the same again
				pause = firstPause
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)/2):
		}
		pause = min(2*pause, lastPause)
	}
	return nil
}

// serve uses a connection until it breaks or ctx ends.
func (r *Remote) serve(ctx context.Context, l *connection) {
	r.mu.Lock()
	r.connection, r.since = l, time.Now()
	var backs []func()
	for b := range r.backs {
		backs = append(backs, *b)
	}
	r.mu.Unlock()
	r.log.Info("remote connected", "address", r.o.Address)
	for _, back := range backs {
		back()
	}
	var tasks sync.WaitGroup
	inner, cancel := context.WithCancel(ctx)
	tasks.Go(func() { l.renewTokens(inner) })
	for _, s := range r.sources {
		tasks.Go(func() { s.run(inner, l) })
	}
	select {
	case <-ctx.Done():
	case <-l.conn.Done():
	}
	cancel()
	err := l.conn.Err()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	r.lost(err, awayText)
	tasks.Wait()
	l.close()
}

// awayText is the log text for a remote that cannot be reached, or whose connection was lost.
const awayText = "the remote is disconnected; connecting again later"

// lost records that there is no connection, and the reason. text is for the log.
func (r *Remote) lost(err error, text string) {
	if err == nil {
		err = errors.New("the connection was closed")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.connection != nil || r.err == nil || r.err.Error() != err.Error() {
		r.log.Warn(text, "address", r.o.Address, "err", err)
	}
	if r.connection != nil {
		r.since = time.Now()
	}
	r.connection, r.err, r.erred = nil, err, time.Now()
}

// current returns the connection, or the reason why there is none.
func (r *Remote) current() (*connection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.connection == nil {
		select {
		case r.wanted <- struct{}{}:
		default:
		}
		return nil, &core.Away{Remote: r.o.Name, Err: r.err}
	}
	return r.connection, nil
}

// away records err and returns the answer for a sender.
func (r *Remote) away(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.erred = err, time.Now()
	return &core.Away{Remote: r.o.Name, Err: err}
}

// Options describe a remote, and how to connect to it. Only Name and Dial are required.
type Options struct {
	Name    string
	Address string // shown with its state
	// Dial opens a connection to the remote.
	Dial func(ctx context.Context) (net.Conn, error)
	// TLS is nil for a plain connection.
	TLS *tls.Config
	// Host is the remote's host name in the open frame.
	Host string

	// User and Password are for SASL PLAIN.
	User, Password string
	// Policy and Key sign tokens for $cbs, one for each entity. Signature is an existing token for
	// all entities. Entity is the entity that the policy belongs to, or "" if that is not known.
	Policy, Key, Signature, Entity string
	// Access, if not nil, returns Policy and Key for each new connection.
	Access func(ctx context.Context) (policy, key string, err error)

	// Window is the maximum number of messages in flight to the remote, and from each source;
	// default 500.
	Window int
	// Batches means that the remote supports the batches of Service Bus. The messages of one
	// session or partition key are then sent together, all or none.
	Batches bool

	// Pulls are the remote's entities to pull from.
	Pulls  []Pull
	Logger *slog.Logger // nil: no log

	idle, patience, renewal time.Duration // for tests, instead of idleTimeout, storePatience and renewalPause
}

// Pull is an entity of the remote to pull messages from, and the queue or topic here that stores
// them.
type Pull struct {
	From string `config:"from"` // a queue, or TOPIC/Subscriptions/NAME
	Into string `config:"into"`
}

// Local is the gateway's side, which stores pulled messages.
type Local struct {
	Broker   core.Broker
	Identity core.Identity // the identity whose rights apply
	// ForwardedTo returns the entities of the remote with that name to which local entities
	// forward; nil: none is known.
	ForwardedTo func(ctx context.Context, remote string) ([]string, error)
	// Memory counts pulled messages while they are being stored; nil: they do not count.
	Memory *fair.Pool
	// Forget removes the keys of messages that need not be recognized any more.
	Forget func(ctx context.Context, entity string, keys []string) error
}

// DefaultWindow is the default of Window.
const DefaultWindow = 500
