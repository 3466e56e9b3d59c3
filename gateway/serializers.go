package main

import (
	"log/slog"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/payload"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/plugins/builtin"
)

// chain makes a chain of configured serializers, nil if there are none.
func chain(names []string) *payload.Chain {
	if len(names) == 0 {
		return nil
	}
	members := make([]payload.Named, len(names))
	for i, name := range names {
		members[i] = payload.Named{Name: name, Serializer: builtin.Named(name)}
	}
	return payload.NewChain(members...)
}

// bodyDecoder decodes bodies for rules: by the configured chain, else JSON.
func bodyDecoder(c *config.Serializers) func(*core.Message) (any, error) {
	if ours := chain(c.Chain); ours != nil {
		return ours.Body
	}
	return chain([]string{builtin.JSON}).Body
}

// withSerializers puts the configured serializers before a broker.
func withSerializers(b core.Broker, c *config.Serializers, log *slog.Logger) *payload.Broker {
	o := payload.Options{Chain: chain(c.Chain), Entities: make(map[string]payload.Entity), Logger: log}
	for _, e := range c.Entities {
		o.Entities[e.Name] = payload.Entity{Chain: chain(e.Chain), Deliver: e.Deliver}
	}
	return payload.New(b, o)
}
