package main

import (
	"log/slog"
	"time"

	"github.com/crosstown-mq/crosstown/core/payload"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/plugins/builtin"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

func chain(names []string, plugins *host.Host, room *payload.Room) (*payload.Chain, error) {
	if len(names) == 0 {
		return nil, nil
	}
	members := make([]payload.Named, len(names))
	for i, name := range names {
		members[i] = payload.Named{Name: name, Serializer: builtin.Named(name)}
		if members[i].Serializer != nil {
			continue
		}
		plugin, err := plugins.Serializer(name)
		if err != nil {
			return nil, err
		}
		members[i].Serializer = plugin
	}
	return payload.NewChain(room, members...), nil
}

// bodyDecoder returns serializers that decode bodies for rules and schemas; by default only JSON.
func bodyDecoder(c *config.Serializers, plugins *host.Host, room *payload.Room) (*payload.Chain, error) {
	names := c.Chain
	if len(names) == 0 {
		names = []string{builtin.JSON}
	}
	return chain(names, plugins, room)
}

func transcoder(c *config.Serializers, plugins *host.Host, room *payload.Room, now func() time.Time, log *slog.Logger) (*payload.Transcoder, error) {
	shared, err := chain(c.Chain, plugins, room)
	if err != nil {
		return nil, err
	}
	o := payload.Options{Chain: shared, Entities: make(map[string]payload.Entity), Now: now, Logger: log}
	for _, e := range c.Entities {
		own, err := chain(e.Chain, plugins, room)
		if err != nil {
			return nil, err
		}
		o.Entities[e.Name] = payload.Entity{Chain: own, Deliver: e.Deliver}
	}
	return payload.New(o), nil
}

func newPlugins(c *config.Config, log *slog.Logger) *host.Host {
	var all []host.Options
	for _, p := range c.Plugins {
		p.Memory = int64(p.MaxMemory) << 20
		all = append(all, p.Options)
	}
	return host.New(all, log)
}

func pluginHealth(h *host.Host) map[string]any {
	conditions := map[string]host.Condition{}
	for _, s := range h.States() {
		conditions[s.Name] = s.Condition
	}
	if len(conditions) == 0 {
		return map[string]any{}
	}
	return map[string]any{"plugins": conditions}
}
