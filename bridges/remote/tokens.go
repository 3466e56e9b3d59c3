package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	// A token, valid for tokenLife, is replaced every tokenRenewal.
	tokenLife        = time.Hour
	tokenRenewal     = 40 * time.Minute
	maxIntroductions = 100
)

func (l *connection) openCBS(ctx context.Context) (err error) {
	l.proven = map[string]struct{}{}
	if l.cbs, err = l.node(ctx, "$cbs", "crosstown-cbs", 10); err != nil {
		return err
	}
	return l.introduce(ctx)
}

// introduce sends a token before there are messages, because brokers soon close connections without
// one. The token is for the whole namespace or, if the policy belongs to an entity, for the first
// entity that the remote accepts it for. If there is none, the error is a *refusedToken.
func (l *connection) introduce(ctx context.Context) error {
	tried := map[string]bool{}
	var refusal error
	for entities := range l.r.usedFor(ctx) {
		for _, entity := range entities {
			if tried[entity] || len(tried) >= maxIntroductions {
				continue
			}
			tried[entity] = true
			err := l.prove(ctx, entity)
			if _, refused := errors.AsType[*refusedToken](err); !refused {
				return err
			}
			refusal = err
		}
	}
	return refusal
}

// usedFor returns the entities for which a token is tried: "" for all, those that the configuration
// names, those that messages were sent to, and those that entities of the gateway forward to.
func (r *Remote) usedFor(ctx context.Context) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		named := []string{"", r.o.Entity}
		for _, s := range r.sources {
			named = append(named, s.From)
		}
		if !yield(named) || !yield(r.sentTo()) || r.here.ForwardedTo == nil {
			return
		}
		forwarded, err := r.here.ForwardedTo(ctx, r.o.Name)
		if err != nil { // if the store is unavailable, there are no messages to send
			r.log.Debug("cannot list the entities that forward to a remote", "err", err)
		}
		yield(forwarded)
	}
}

type refusedToken struct{ status, why any }

func (e *refusedToken) Error() string {
	return fmt.Sprintf("the remote answered with status %v: %v", e.status, e.why)
}

func (l *connection) prove(ctx context.Context, entity string) error {
	if l.cbs == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.proven[entity]; ok {
		return nil
	}
	if err := l.put(ctx, entity); err != nil {
		return fmt.Errorf("cannot send a token for '%s': %w", entity, err)
	}
	l.proven[entity] = struct{}{}
	return nil
}

// put sends a token for entity. l.mu is held.
func (l *connection) put(ctx context.Context, entity string) error {
	audience := "amqp://" + l.r.o.Host + "/" + entity
	expires := time.Now().Add(tokenLife)
	token := l.r.o.Signature
	if token == "" {
		token = auth.SignSAS(audience, l.policy, l.key, expires)
	}
	a, err := l.cbs.request(ctx, entity, map[string]any{
		"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": audience, "expiration": expires,
	}, token)
	if err != nil {
		return err
	}
	status, _ := a.Properties.Get("status-code")
	if code, ok := status.(int32); ok && code >= 200 && code < 300 {
		return nil
	}
	why, _ := a.Properties.Get("status-description")
	return &refusedToken{status, why}
}

// renewTokens replaces the tokens in time. If it cannot, it closes the connection.
func (l *connection) renewTokens(ctx context.Context) {
	if l.cbs == nil || l.r.o.Signature != "" {
		return
	}
	for wake.After(ctx, tokenRenewal) {
		if err := l.renew(ctx); err != nil && ctx.Err() == nil {
			l.r.log.Warn("cannot renew the tokens of a remote: connecting again", "err", err)
			_ = l.conn.Close()
			return
		}
	}
}

func (l *connection) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for entity := range l.proven {
		call, cancel := context.WithTimeout(ctx, linkTimeout)
		err := l.put(call, entity)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// encodedOf returns a message that the Splice has passed on undecoded, in its sender's encoding.
func encodedOf(m *goamqp.Message) []byte {
	if len(m.Data) == 1 {
		return m.Data[0]
	}
	return bytes.Join(m.Data, nil)
}
