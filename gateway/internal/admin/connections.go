package admin

import (
	"net/http"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

// connections lists the connections that the client may see, and closes one of them.
func (a *API) connections(c *call) (any, error) {
	switch {
	case c.path == "" && c.Method == http.MethodGet:
		all, err := a.Clients.Connections(c.Context(), c.id)
		if err != nil {
			return nil, err
		}
		list := api.ConnectionList{Connections: make([]api.Connection, len(all))}
		for i := range all {
			list.Connections[i] = connectionOf(&all[i])
		}
		return list, nil
	case c.path == "":
		return nil, wrongMethod(http.MethodGet)
	case c.Method != http.MethodDelete:
		return nil, wrongMethod(http.MethodDelete)
	default:
		closed, err := a.Clients.Close(c.Context(), c.id, c.path)
		if err != nil {
			return nil, err
		}
		return connectionOf(&closed), nil
	}
}

// connectionOf is a connection as the API shows it.
func connectionOf(o *bridges.Connection) api.Connection {
	told := api.Connection{
		ID: o.ID, Protocol: o.Protocol, Peer: o.Peer, Namespace: o.Namespace, Since: o.Since, Policies: o.Policies, Product: o.Product,
		Links: make([]api.Link, len(o.Links)),
	}
	for i := range o.Links {
		l, t := &o.Links[i], &told.Links[i]
		t.Entity, t.Direction = l.Entity, "send"
		if l.Receives {
			t.Direction, t.Mode = "receive", "peekLock"
			if l.Deletes {
				t.Mode = "receiveAndDelete"
			}
		}
		if l.Holds {
			t.Session = &l.Session
		}
	}
	return told
}
