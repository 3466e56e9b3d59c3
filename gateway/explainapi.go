package main

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/account"
)

// explainAPI answers GET with the history of a message, for clients with Manage on the entity.
type explainAPI struct{ adminAPI }

func (n *explainAPI) routes(routes map[string]http.Handler) { routes[account.Path] = n }

// ServeHTTP answers one request.
func (n *explainAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	told, err := n.answer(r)
	n.reply(w, r, told, err)
}

func (n *explainAPI) answer(r *http.Request) (any, error) {
	id, err := n.identity(r)
	if err != nil {
		return nil, err
	}
	if r.Method != http.MethodGet {
		return nil, useMethods(http.MethodGet, "What is remembered of a message can be got.")
	}
	subject := core.Subject{MessageID: r.URL.Query().Get("message-id")}
	if text := r.URL.Query().Get("sequence-number"); text != "" {
		if subject.Number, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, core.Refuse(core.InvalidArgument, "sequence-number '%.40s' is no number.", text)
		}
	}
	a, err := n.directory.Explain(r.Context(), id, strings.Trim(r.URL.Path[len(account.Path):], "/"), subject)
	if core.CodeOf(err) == core.NotAllowed { // nothing is remembered there
		return nil, core.Refuse(core.NotFound, "%s", core.TextOf(err))
	}
	if err != nil {
		return nil, err
	}
	return account.Of(id.Namespace(), &a), nil
}
