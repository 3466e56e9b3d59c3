package https

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/core"
)

// The headers that bring a token for the entity to forward to.
const (
	forwardHeader           = "ServiceBusSupplementaryAuthorization"
	forwardDeadLetterHeader = "ServiceBusDlqSupplementaryAuthorization"
)

// checkForwarding checks for Send on each entity that newly gets messages: a client that sets a
// destination sends to it. The right comes from the token that the request has for it, which joins
// its identity, else from its own.
func (p *put) checkForwarding(before, after *core.Settings) error {
	for setting, to := range bridges.Destinations(before, after) {
		header := forwardHeader
		if setting != "ForwardTo" {
			header = forwardDeadLetterHeader
		}
		id := p.id
		if token := p.r.Header.Get(header); token != "" {
			grant, err := p.auth.Token(p.r.Context(), bridges.Hosts(p.r), token, "")
			if core.CodeOf(err) == core.Unauthorized {
				return unauthorized("%s: the token in the header %s is refused. %s", setting, header, core.TextOf(err))
			}
			if err != nil {
				return err
			}
			grant.Rights &= core.Send // it speaks for the destination, and for nothing else
			id = core.Identity{grant}
			if p.id.NamespaceID() != grant.NamespaceID {
				return unauthorized("%s: the token in the header %s is for another namespace, to which nothing can be forwarded so.", setting, header)
			}
			p.id = append(slices.Clone(p.id), grant) // beside the request's own, which may have the same policy and scope
		}
		if id.Check(core.Send, to, time.Now()) != nil {
			return unauthorized("%s: Unauthorized access. 'Send' claim(s) are required on '%s': give a token for it in the header %s.", setting, to, header)
		}
	}
	return nil
}

// unauthorized refuses in words that are kept as they are, whatever the target.
func unauthorized(format string, args ...any) error {
	return &statusError{status: http.StatusUnauthorized, text: fmt.Sprintf(format, args...)}
}
