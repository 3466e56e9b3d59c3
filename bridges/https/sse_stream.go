package https

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/clients"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
)

const (
	streamBeat    = 15 * time.Second // longest silence of a stream, after which the bridge sends a comment
	streamTimeout = 30 * time.Second
	streamRetry   = 3 * time.Second // the client's pause before it connects again
	// streamWait is streamRetry for a stream that was refused because too many were open.
	streamWait = 10 * time.Second
)

// stream sends messages as server-sent events: those that the entity holds and then those that
// arrive. With mode=receiveanddelete, it also removes them. It ends when the client disconnects. If
// it ends for another reason, the last event says why.
func (b *Bridge) stream(w http.ResponseWriter, r *http.Request, c runtimeCall) error {
	q, err := readStreamQuery(r)
	if err != nil {
		return err
	}
	if err := skipBody(w, r); err != nil {
		return err
	}
	closePlaces, err := b.opts.Streams.Open(fair.Of(c.id), fair.EventStreamPlaces)
	if err != nil {
		w.Header().Set("Retry-After", strconv.Itoa(int(streamWait.Seconds())))
		return err
	}
	defer closePlaces()
	out := newEvents(w, r, c.id, c.address)
	defer out.close()
	out.about = bridges.Connection{
		ID: refusals.NewID(), Protocol: "event stream", Peer: r.RemoteAddr, Since: time.Now(), Namespace: c.id.Namespace(),
		Policies: c.id.Policies(), Product: bridges.Product(r),
		Links: []bridges.Link{bridges.Receiving(c.entity, q.mode, nil)},
	}
	b.opts.Clients.Add(out)
	defer b.opts.Clients.Remove(out)
	leave, err := b.auth.Enter(c.id, out.expel)
	if err != nil {
		return err
	}
	defer leave()
	if q.mode == core.ReceiveAndDelete {
		err = b.take(r.Context(), out, q)
	} else {
		err = b.follow(r.Context(), out, q)
	}
	if !out.begun {
		return err
	}
	tracking := refusals.NewTracking()
	if !errors.Is(err, errGone) {
		b.told(r, c.entity, tracking, err)
	}
	out.end(err, tracking)
	return nil
}

type streamQuery struct {
	mode   core.ReceiveMode
	binary bool
	accept string
	from   string // where to begin: a position, "new", or "" for the first message
	after  string // the position of the last message that the client got, or ""
}

func readStreamQuery(r *http.Request) (streamQuery, error) {
	q := streamQuery{mode: core.PeekLock, after: r.Header.Get("Last-Event-ID")}
	for name, values := range r.URL.Query() {
		text := values[len(values)-1]
		switch strings.ToLower(name) {
		case "mode":
			switch strings.ToLower(text) {
			case "peek":
			case "receiveanddelete":
				q.mode = core.ReceiveAndDelete
			default:
				return q, core.Refuse(core.InvalidArgument, "mode is %.40q: it must be peek or receiveanddelete.", text)
			}
		case "bodies":
			switch strings.ToLower(text) {
			case "auto":
			case "binary":
				q.binary = true
			default:
				return q, core.Refuse(core.InvalidArgument, "bodies is %.40q: it must be auto or binary.", text)
			}
		case "from":
			q.from = text
		case "accept":
			q.accept = text
		case "api-version":
		default:
			return q, core.Refuse(core.InvalidArgument, "A stream does not have the parameter %.40q: use mode, from, bodies or accept. (A token belongs in the Authorization header.)", name)
		}
	}
	if q.mode == core.ReceiveAndDelete && q.from != "" {
		return q, core.Refuse(core.InvalidArgument, "The parameter 'from' is only allowed with mode=peek: mode=receiveanddelete always takes the next message.")
	}
	if q.mode == core.PeekLock && q.accept != "" {
		return q, core.Refuse(core.InvalidArgument, "The parameter 'accept' is only allowed with mode=receiveanddelete: mode=peek shows bodies unchanged.")
	}
	return q, nil
}

// Owned implements clients.Member, as do Describe and Evacuate.
func (s *events) Owned() (id string, owner clients.Owner) { return s.about.ID, s.owner }

func (s *events) Describe() bridges.Connection { return s.about }

func (s *events) Evacuate(reason string) { s.expel(core.Refuse(core.Busy, "%s", reason)) }
