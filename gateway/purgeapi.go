package main

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// purgePath has the name of an entity, or of its sub-queue, behind it. No entity's
// name begins with a dollar sign.
const purgePath = "/$crosstown/purge/"

// leastPurge is how many messages any limits let one call remove: after fewer there
// are no more but those that have just arrived.
const leastPurge = 500

// purgeAPI answers POST by removing all messages of an entity that can be received,
// for clients with Listen on it.
type purgeAPI struct{ adminAPI }

// purged is the answer.
type purged struct {
	Purged int `json:"purged"`
}

func (p *purgeAPI) routes(routes map[string]http.Handler) { routes[purgePath] = p }

// ServeHTTP answers one request.
func (p *purgeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := p.answer(r)
	p.reply(w, r, answer, err)
}

func (p *purgeAPI) answer(r *http.Request) (any, error) {
	if r.Method != http.MethodPost {
		return nil, core.Refuse(core.NotAllowed, "Only POST purges an entity.")
	}
	id, err := p.identity(r)
	if err != nil {
		return nil, err
	}
	entity := strings.Trim(r.URL.Path[len(purgePath):], "/")
	later := time.Now().Add(core.KeyLife) // all messages were enqueued before
	total := 0
	for {
		n, err := p.directory.Purge(r.Context(), id, entity, later, math.MaxInt)
		if total += n; err != nil && total == 0 {
			return nil, err
		}
		if err != nil || n < leastPurge || r.Context().Err() != nil {
			return purged{total}, nil
		}
	}
}
