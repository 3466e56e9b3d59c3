// Package webhooks connects queues and topics with HTTP services. Requests to a hook, a URL of the
// gateway, become messages. A push sends the messages of a queue or subscription to a URL.
package webhooks

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

const Path = "/$crosstown/hooks/"

type Hook struct {
	Name      string        `config:"name"`
	Namespace string        `config:"-"` // the namespace of Entity: its ID, which is the configured name
	Entity    string        `config:"entity"`
	Scheme    Scheme        `config:"verify"`    // how senders prove that they know a key: url, github, stripe or standard
	Keys      [][]byte      `config:"-"`         // made by Scheme.Key; a sender must know one of them
	Tolerance time.Duration `config:"tolerance"` // largest difference between the signature's time and the clock
	IDHeader  string        `config:"id-header"` // header with the delivery's id; "": the scheme's own header
	Headers   []string      `config:"headers"`   // headers that become application properties
}

type Options struct {
	Broker core.Broker
	Hooks  []Hook
	Budget *fair.Pool
	Logger *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// Inbound handles the requests to all hooks. It is safe for concurrent use.
type Inbound struct {
	Options
	hooks    atomic.Pointer[[]Hook]
	refusals *refusals.Log
	proofs   *proofs
}

func NewInbound(o Options) *Inbound {
	in := &Inbound{Options: o, refusals: refusals.New(), proofs: newProofs()}
	if in.Now == nil {
		in.Now = time.Now
	}
	in.Set(o.Hooks)
	return in
}

// Set replaces the hooks, but not for requests in flight.
func (in *Inbound) Set(hooks []Hook) { in.hooks.Store(&hooks) }

func (in *Inbound) List() []Hook { return *in.hooks.Load() }

func (in *Inbound) hook(name string) *Hook {
	all := in.List()
	i := slices.IndexFunc(all, func(h Hook) bool { return strings.EqualFold(h.Name, name) })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// ServeHTTP tells a sender without a valid proof nothing, and closes its connection. So each guess
// of a secret needs a new connection, and connections without an identity are limited.
func (in *Inbound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.Trim(r.URL.Path[len(Path):], "/")
	h := in.hook(name)
	err, status := error(nil), 0
	proven := false
	switch {
	case h == nil:
		err, status = core.Refuse(core.NotFound, "No hook has the name '%.80s'.", name), http.StatusNotFound
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		err, status = core.Refuse(core.NotAllowed, "The hook accepts only POST requests."), http.StatusMethodNotAllowed
	default:
		if pause := in.proofs.begin(proverOf(r, h), in.Now()); pause > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(pause.Seconds())))
			err, status = core.Refuse(core.Busy, "Too many requests from this address failed the hook's verification. Try again later."), http.StatusTooManyRequests
			break
		}
		memory := in.Budget.Share(nil)
		defer memory.Close()
		if proven, err = in.take(w, r, h, memory); !proven && core.CodeOf(err) == core.Busy {
			in.proofs.untried(proverOf(r, h))
		}
	}
	if err == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if r.Context().Err() != nil {
		return
	}
	code := core.CodeOf(err)
	switch {
	case status != 0:
	case code == core.TooLarge:
		status = http.StatusRequestEntityTooLarge // Service Bus's REST API answers 403 instead
	default:
		status = refusals.HTTPStatus(code)
	}
	tracking := refusals.NewTracking()
	told := refusals.Told{Tracking: tracking, Code: code, Err: err, Stranger: !proven}
	if h != nil {
		told.Entity = h.Entity
	}
	in.refusals.Write(in.Logger, told, "peer", r.RemoteAddr, "hook", refusals.Cut(name), "status", status)
	if !proven {
		w.Header().Set("Connection", "close")
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "10")
	}
	text := cmp.Or(core.TextOf(err), "The message could not be stored. The gateway's log has the details.")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text, "tracking": tracking}) // the client may have disconnected
}

func (in *Inbound) take(w http.ResponseWriter, r *http.Request, h *Hook, memory *fair.Share) (proven bool, err error) {
	id := core.Identity{{Namespace: h.Namespace, NamespaceID: h.Namespace, Policy: "hook " + h.Name, Rights: core.Send, Scope: core.FoldName(h.Entity)}}
	if h.Scheme == URL {
		if err := in.verify(r, h, nil); err != nil {
			return false, err
		}
	}
	limit := int64(core.MaxMessageSizeKB << 10)
	tx, closed := in.Broker.OpenSender(r.Context(), id, core.At(h.Entity), nil) // closed is returned only after the proof: nobody else may learn it
	if closed == nil {
		defer tx.Close()
		if n := tx.MaxMessageSize(); n > 0 {
			limit = n
		}
	}
	body, err := bridges.ReadBody(w, r, memory, limit)
	if errors.Is(err, fair.ErrTooSlow) {
		err = core.Refuse(core.InvalidArgument, "The request body did not arrive completely in time: send it without long pauses.")
	}
	if err != nil {
		return h.Scheme == URL, err
	}
	if h.Scheme != URL {
		if err := in.verify(r, h, body); err != nil {
			return false, err
		}
	}
	if err := bridges.ProveIn(r.Context(), id); err != nil {
		return true, err
	}
	memory.Join(fair.Of(id))
	if closed != nil {
		return true, hidden(closed)
	}
	m, err := h.message(r, body)
	if err != nil {
		return true, err
	}
	for _, appended := range tx.Send(r.Context(), [][]*core.Message{{m}}) {
		if appended.Err != nil {
			return true, hidden(appended.Err)
		}
	}
	return true, nil
}

// hidden returns err if the sender can repair the cause, or if it is Internal. Any other error
// becomes Busy: the sender must try again, perhaps until an operator has removed the cause.
func hidden(err error) error {
	switch core.CodeOf(err) {
	case core.TooLarge, core.InvalidArgument, core.OutOfRange, core.Internal:
		return err
	default:
		return core.Refuse(core.Busy, "The message cannot be stored now: %s Try again.", core.TextOf(err))
	}
}

func (in *Inbound) verify(r *http.Request, h *Hook, body []byte) error {
	now := in.Now()
	err := h.Scheme.verify(r, body, h.Keys, now, h.Tolerance)
	if err != nil {
		return core.Refuse(core.Unauthorized, "The request failed the hook's verification: %s.", err.Error())
	}
	in.proofs.right(proverOf(r, h), now)
	return nil
}

func (h *Hook) message(r *http.Request, body []byte) (*core.Message, error) {
	m := &core.Message{
		ContentType: text(r.Header.Get("Content-Type")), ContentEncoding: text(r.Header.Get("Content-Encoding")),
		MessageID: core.StringID(h.deliveryID(r, body)), Body: core.Body{Bytes: body},
	}
	var pairs []core.Property
	for _, name := range h.Headers {
		if values := r.Header.Values(name); len(values) > 0 {
			pairs = append(pairs, core.Property{Key: name, Value: text(strings.Join(values, ", "))})
		}
	}
	var err error
	if m.Properties, err = core.NewProperties(pairs...); err != nil {
		return nil, core.Refuse(core.InvalidArgument, "%v.", err)
	}
	return m, nil
}

func (h *Hook) deliveryID(r *http.Request, body []byte) string {
	header := h.IDHeader
	switch {
	case h.Scheme == Standard:
		header = headerID // the signature covers this header
	case header != "":
	case h.Scheme == GitHub:
		header = "X-Github-Delivery"
	case h.Scheme == Stripe:
		var event struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(body, &event) // a body of another form has no id
		return event.ID
	}
	if header == "" {
		return ""
	}
	return text(r.Header.Get(header))
}

func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

const (
	failedAtOnce    = 20
	failedPerSecond = 1.0
	provenFor       = 24 * time.Hour
	maxProvers      = 4096
)

// proofs limits how fast secrets can be guessed: at each hook, each address may give only a few
// wrong proofs. An address that has lately given a right one is not limited, because other clients
// behind the same address must not stop the true sender.
type proofs struct {
	mu sync.Mutex
	of *lru.Cache[prover, *proofCount]
}

func newProofs() *proofs {
	of, _ := lru.New[prover, *proofCount](maxProvers) // the size is valid
	return &proofs{of: of}
}

type prover struct {
	address netip.Addr
	hook    string
}

type proofCount struct {
	failed float64 // wrong proofs, as counted at the time in the field at; the count decreases with time
	at     time.Time
	proven time.Time
}

func proverOf(r *http.Request, h *Hook) prover {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // an invalid address becomes the zero value, which is limited, too
	return prover{bridges.Network(at.Addr()), h.Name}
}

// begin counts a proof as wrong before it is checked, so that trying many at once has no advantage.
// If the client has sent too many wrong ones, begin returns how long it will check none.
func (p *proofs) begin(of prover, now time.Time) (pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.entry(of)
	if !c.proven.IsZero() && now.Sub(c.proven) < provenFor {
		return 0
	}
	if over := math.Ceil((c.left(now) - failedAtOnce + 1) / failedPerSecond); over > 0 {
		return time.Duration(over) * time.Second
	}
	c.failed, c.at = c.left(now)+1, now
	return 0
}

func (p *proofs) right(of prover, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.entry(of)
	c.proven, c.failed = now, 0
}

// untried undoes begin for a proof that was not checked.
func (p *proofs) untried(of prover) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.entry(of)
	c.failed = max(0, c.failed-1)
}

func (c *proofCount) left(now time.Time) float64 {
	return max(0, c.failed-now.Sub(c.at).Seconds()*failedPerSecond)
}

// entry returns the count of a client. p.mu is held.
func (p *proofs) entry(of prover) *proofCount {
	c, known := p.of.Get(of)
	if !known {
		c = new(proofCount)
		p.of.Add(of, c)
	}
	return c
}
