package admin

import (
	"net/http"
	"strconv"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

const (
	defaultTop = 100 // entries in a list
	maxTop     = 1000
)

func (a *API) sessions(c *call) (any, error) {
	e, n, err := a.listened(c, "a queue or subscription", api.SessionsPath)
	if err != nil {
		return nil, err
	}
	switch one := c.URL.Query().Has("session"); {
	case c.Method == http.MethodGet && one:
		return a.session(c, &e, n)
	case c.Method == http.MethodGet:
		return a.listSessions(c, &e, n)
	case c.Method == http.MethodPut && one:
		return a.setState(c, &e, n)
	case one:
		return nil, wrongMethod("GET, PUT")
	default:
		return nil, wrongMethod(http.MethodGet)
	}
}

func (a *API) listSessions(c *call, e *core.Entity, n *Served) (any, error) {
	skip, top, err := c.page("skip", 1<<31-1)
	if err != nil {
		return nil, err
	}
	all, err := n.Broker.Sessions(c.Context(), e.Name, skip, top)
	if err != nil {
		return nil, err
	}
	return api.SessionList{Sessions: a.sessionsOf(c, e, all)}, nil
}

func (c *call) page(first string, most int) (from, top int, err error) {
	if from, err = c.number(first, 0, 0, most); err == nil {
		top, err = c.number("top", defaultTop, 0, maxTop)
	}
	return from, top, err
}

// number returns a parameter of the query, or absent if the query lacks it.
func (c *call) number(name string, absent, least, most int) (int, error) {
	text := c.URL.Query().Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, core.Refuse(core.InvalidArgument, "%s is %.40q: it must be a whole number from %d to %d.", name, text, least, most)
	}
	return n, nil
}

func (a *API) session(c *call, e *core.Entity, n *Served) (any, error) {
	one, err := n.Broker.Session(c.Context(), e.Name, c.URL.Query().Get("session"))
	if err != nil {
		return nil, err
	}
	return a.sessionsOf(c, e, []core.SessionInfo{one})[0], nil
}

// sessionsOf adds the holders of locked sessions, which it finds among the connections.
func (a *API) sessionsOf(c *call, e *core.Entity, all []core.SessionInfo) []api.Session {
	told := make([]api.Session, len(all))
	held := false
	for i := range all {
		x, t := &all[i], &told[i]
		t.SessionInfo = *x
		if x.HasState {
			t.StateBytes = &x.StateBytes
		}
		held = held || !x.LockedUntil.IsZero()
	}
	if !held {
		return told
	}
	holders, err := a.Clients.Holders(c.Context(), c.id, e.Name)
	if err != nil { // the client may not see the connections
		return told
	}
	for i := range told {
		if o, ok := holders[core.KeyOfSession(told[i].ID)]; ok && !told[i].LockedUntil.IsZero() {
			told[i].Holder = &api.Holder{Connection: o.ID, Protocol: o.Protocol, Peer: o.Peer, Product: o.Product, Policies: o.Policies}
		}
	}
	return told
}

// setState locks the session, as a receiver does, and sets its state. Or it ends a receiver's lock.
func (a *API) setState(c *call, e *core.Entity, n *Served) (any, error) {
	var request api.SessionState
	if err := c.readAtMost(maxDeposit, &request, `{"state":"aGVsbG8="}`); err != nil {
		return nil, err
	}
	id := c.URL.Query().Get("session")
	if request.Unlock && !request.Clear && request.State == nil {
		if err := n.Broker.UnlockSession(c.Context(), c.id, e.Name, id); err != nil {
			return nil, err
		}
		return a.session(c, e, n)
	}
	if request.Unlock || request.Clear == (request.State != nil) {
		return nil, core.Refuse(core.InvalidArgument, `The body must have exactly one of "state" (in base64), "clear": true and "unlock": true.`)
	}
	s, err := a.Broker.AcceptSession(c.Context(), c.id, core.Address{Entity: e.Name}, core.SessionOptions{ID: id, ReceiverOptions: core.ReceiverOptions{
		Deliver: func([]core.Delivery) {}, Closed: func(error) {},
	}})
	if err != nil {
		return nil, err
	}
	var state []byte
	if request.State != nil {
		state = append([]byte{}, *request.State...) // an empty state differs from no state
	}
	err = s.SetState(c.Context(), state)
	s.Close()
	if err != nil {
		return nil, err
	}
	return a.session(c, e, n)
}
