package https

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// settle handles the lock in the path: DELETE completes, PUT abandons, POST renews. It answers 200.
func (b *Bridge) settle(w http.ResponseWriter, r *http.Request, c runtimeCall) error {
	id, address := c.id, c.address
	last := len(c.below) - 1
	message, lock := strings.Join(c.below[:last], "/"), c.below[last] // a message id may contain slashes
	token, err := core.ParseLockToken(lock)
	if err != nil {
		return core.Refuse(core.InvalidArgument, "The lock token '%.60s' is not valid: %v.", lock, err)
	}
	if err := b.verifyLocked(r, id, address, message, token); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodPost:
		for _, renewal := range b.front.Renew(r.Context(), id, address, []core.LockToken{token}) {
			err = renewal.Err
		}
	case http.MethodDelete:
		err = b.end(r, id, address, core.Settlement{Token: token, Outcome: core.Complete})
	default:
		err = b.unlock(r, id, address, token)
	}
	if err == nil {
		_ = respond(w, http.StatusOK, nil)
	}
	return err
}

// unlock abandons a message. It sets properties from the headers that delay the next delivery.
func (b *Bridge) unlock(r *http.Request, id core.Identity, address core.Address, token core.LockToken) error {
	var pairs []core.Property
	for _, name := range [...]string{core.PropertyRetryAfter, core.PropertyRetryAt} {
		if text := r.Header.Get(name); text != "" {
			pairs = append(pairs, core.Property{Key: name, Value: parseHeaderValue(text)})
		}
	}
	when, err := core.NewProperties(pairs...)
	if err != nil {
		return err
	}
	return b.end(r, id, address, core.Settlement{Token: token, Outcome: core.Abandon, Properties: when})
}

func (b *Bridge) end(r *http.Request, id core.Identity, address core.Address, s core.Settlement) error {
	return cmp.Or(b.front.Settle(r.Context(), id, address, []core.Settlement{s})...)
}

// verifyLocked checks that the token is for the message that the path names, by its sequence number
// or its message id. For a message id, verifyLocked reads the message.
func (b *Bridge) verifyLocked(r *http.Request, id core.Identity, address core.Address, message string, token core.LockToken) error {
	n, err := strconv.ParseInt(message, 10, 64)
	if err != nil || n == token.SequenceNumber() {
		return nil
	}
	ds, err := b.front.Peek(r.Context(), id, address, nil, token.SequenceNumber(), 1)
	if err != nil {
		return err
	}
	for _, d := range ds {
		if d.SequenceNumber == token.SequenceNumber() && d.MessageID.String() == message {
			return nil
		}
	}
	return core.Refuse(core.LockLost, "The lock supplied is invalid: the token '%s' does not belong to the message '%s'.", token, message)
}
