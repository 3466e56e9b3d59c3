package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	firstPause  = 100 * time.Millisecond
	lastPause   = 10 * time.Second
	dialTimeout = 20 * time.Second
)

var errNotYet = errors.New("not connected yet")

// Remote is another broker, to which this gateway keeps a connection. It implements core.Remote.
type Remote struct {
	o      Options
	here   Local
	log    *slog.Logger
	window *semaphore.Weighted // limits messages in flight to the remote

	wanted wake.Signal // wakes Run when a message needs the remote while it is disconnected

	flying atomic.Int64
	backs  wake.Hooks[struct{}, func()] // called when the remote is connected

	mu         sync.Mutex
	connection *connection // nil while disconnected
	since      time.Time
	err        error
	erred      time.Time
	targets    map[string]*target
	sources    []*source
}

var _ core.Remote = (*Remote)(nil)

func New(o Options) *Remote {
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	r := &Remote{
		o: o, log: o.Logger.With("remote", o.Name), window: semaphore.NewWeighted(int64(o.Window)),
		wanted: wake.New(), since: time.Now(), err: errNotYet, targets: map[string]*target{},
	}
	for _, p := range o.Pulls {
		r.sources = append(r.sources, &source{r: r, Source: Source{From: p.From, Into: p.Into}})
	}
	return r
}

func (r *Remote) Window() int { return r.o.Window }

func (r *Remote) Watch(back func()) (stop func()) {
	return r.backs.Add(struct{}{}, back)
}

// Run keeps the remote connected, and pulls messages, until ctx ends. It may be called once.
func (r *Remote) Run(ctx context.Context, here Local) error {
	here.Memory = cmp.Or(here.Memory, fair.New(0, nil, nil))
	r.here = here
	pause := firstPause
	for ctx.Err() == nil {
		l, err := r.connect(ctx)
		_, refused := errors.AsType[*refusedToken](err)
		switch {
		case refused && len(r.sources) == 0:
			// Connecting again at once would be useless, because the remote closes connections
			// without a token. The next message may name an entity that the policy is for.
			r.lost(err, "the remote refused the token; the gateway tries again when it has a message for the remote")
			select {
			case <-ctx.Done():
			case <-r.wanted:
			}
		case err != nil:
			r.lost(err, awayText)
		default:
			if r.serve(ctx, l); !l.splice.Refused() { // if the splice has refused a frame, the pause grows, because the remote may send the frame again
				pause = firstPause
			}
		}
		wake.After(ctx, pause/2+rand.N(pause)/2)
		pause = min(2*pause, lastPause)
	}
	return nil
}

func (r *Remote) serve(ctx context.Context, l *connection) {
	r.mu.Lock()
	r.connection, r.since = l, time.Now()
	r.mu.Unlock()
	r.log.Info("remote connected", "address", r.o.Address)
	for _, back := range r.backs.Of(struct{}{}) {
		(*back)()
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

const awayText = "the remote is disconnected; connecting again later"

func (r *Remote) lost(err error, text string) {
	err = cmp.Or(err, errors.New("the connection was closed"))
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

func (r *Remote) current() (*connection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.connection == nil {
		r.wanted.Set()
		return nil, &core.Away{Remote: r.o.Name, Err: r.err}
	}
	return r.connection, nil
}

func (r *Remote) away(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.erred = err, time.Now()
	return &core.Away{Remote: r.o.Name, Err: err}
}

type Options struct {
	Name    string
	Address string
	Dial    func(ctx context.Context) (net.Conn, error)
	TLS     *tls.Config
	Host    string

	User, Password string // for SASL PLAIN
	// Policy and Key sign a token for each entity; $cbs gets the tokens. Signature, if set, is one
	// token for all entities, which is used instead. Entity is the entity to which Policy belongs,
	// or "" if it is not known.
	Policy, Key, Signature, Entity string
	// Access, if not nil, returns the policy and the key for each new connection.
	Access func(ctx context.Context) (policy, key string, err error)

	Window int
	// Batches says that the remote supports Service Bus's batches. Messages of one session or
	// partition key are then sent together, and all are accepted or none.
	Batches bool

	Pulls  []Pull
	Logger *slog.Logger // nil: nothing is logged

	idle, patience, renewal time.Duration // replace idleTimeout, storePatience and renewalPause in tests
}

// Pull is an entity of the remote to pull messages from, and the local entity that stores them.
type Pull struct {
	From string `config:"from"`
	Into string `config:"into"`
}

type Local struct {
	Broker   core.Broker
	Identity core.Identity // Pull stores messages with the rights of this identity
	// ForwardedTo, if not nil, returns the entities of remote to which local entities forward.
	ForwardedTo func(ctx context.Context, remote string) ([]string, error)
	Memory      *fair.Pool
	// Forget drops the Transit.Keys of messages that the remote will not deliver again.
	Forget func(ctx context.Context, entity string, keys []string) error
}

const DefaultWindow = 500

type State struct {
	Name      string    `json:"name"`
	Address   string    `json:"address"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since"` // when the remote was connected or disconnected last
	Error     string    `json:"error,omitzero"`
	ErrorAt   time.Time `json:"errorAt,omitzero"`
	Window    int       `json:"window"`
	Targets   []Target  `json:"targets"`
	Sources   []Source  `json:"sources"`
}

type Target struct {
	Entity    string        `json:"entity"`
	Sent      int64         `json:"sent"`
	Parked    int64         `json:"parked"`
	Delayed   int64         `json:"delayed"` // messages that were not accepted for now, or not answered
	UnderWay  int64         `json:"underWay"`
	RoundTrip time.Duration `json:"roundTrip"` // moving average from sending to the answer, in nanoseconds
}

type Source struct {
	From     string        `json:"from"`
	Into     string        `json:"into"`
	Attached bool          `json:"attached"`
	Received int64         `json:"received"`
	Repeated int64         `json:"repeated"` // of these, messages that had been stored before
	Parked   int64         `json:"parked"`   // messages that cannot be stored: they were dead-lettered at the remote
	Behind   time.Duration `json:"behind"`   // age of the last message when it was stored, in nanoseconds
	Error    string        `json:"error,omitzero"`
}

func (r *Remote) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := State{Name: r.o.Name, Address: r.o.Address, Connected: r.connection != nil, Since: r.since, ErrorAt: r.erred, Window: r.o.Window, Targets: []Target{}, Sources: []Source{}}
	if r.err != nil {
		s.Error = r.err.Error()
	}
	for _, t := range r.targets {
		s.Targets = append(s.Targets, t.Target)
	}
	for _, from := range r.sources {
		s.Sources = append(s.Sources, from.Source)
	}
	slices.SortFunc(s.Targets, func(a, b Target) int { return strings.Compare(a.Entity, b.Entity) })
	return s
}

func (r *Remote) count(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}
