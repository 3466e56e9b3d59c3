package main

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/core/payload"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

type pools struct {
	fair.Pools
	gauge    fair.Gauge
	watch    *memory.Watch
	decoding *payload.Room
}

// parts divides the gateway's memory among its uses, in bytes.
type parts struct {
	messages    int64 // messages that the gateway is processing
	connections int64 // state of connections, sessions and links
	cache       int64 // messages that the file store and the Redis store keep in memory
	decoded     int64 // large bodies that are decoded for rules, schemas and receivers
	remembered  int64 // ids and Transit.Keys by which a store detects duplicates; histories get the same amount
}

func partsOf(available int64) parts {
	const leastMessages, leastConnections, mostCache = 16 << 20, 16 << 20, 256 << 20
	return parts{
		messages: max(available/4, leastMessages), connections: max(available/8, leastConnections),
		cache: min(available/8, mostCache), decoded: available / 16, remembered: available / 16,
	}
}

func newPools(c *config.Config, collector *memory.Collector, log *slog.Logger) *pools {
	available, _ := memory.Available(memorySetting(c))
	of := partsOf(available)
	if n, err := memory.Parse(c.MessageMemory); err == nil { // an error means that the setting is empty
		of.messages = n
	}
	log.Debug("memory", "available", available, "messages", of.messages)
	p := &pools{}
	p.Budget = fair.New(of.messages, collector.Released, &p.gauge)
	p.Standing = fair.New(of.connections, nil, &p.gauge).Named("memory for connections, sessions and links", fair.Full+1)
	p.Streams = fair.NewStreams(0, &p.gauge)
	p.decoding = payload.NewRoom(of.decoded)
	p.watch = memory.NewWatch(memory.Options{Gauge: &p.gauge, Setting: memorySetting(c), Evict: p.Budget.Evict, Holders: p.holders, Logger: log})
	return p
}

func memorySetting(c *config.Config) int64 {
	n, _ := memory.Parse(c.Memory) // 0 if the setting is empty
	return n
}

func (p *pools) holders() []slog.Attr {
	var most []string
	for _, h := range p.Budget.Largest(3) {
		most = append(most, fmt.Sprintf("%s%s: %d", h.Who.Policy, h.Who.Namespace, h.Held))
	}
	return []slog.Attr{
		slog.Int64("messages", p.Budget.Stats().Held), slog.Int64("connections", p.Standing.Stats().Held),
		slog.String("most", strings.Join(most, ", ")),
	}
}

const refusedLately = time.Minute

func (p *pools) degraded() string {
	if u := p.watch.Usage(); u.Level >= fair.Tight {
		return fmt.Sprintf("memory is %s: %d of %d bytes are used, and the gateway refuses requests that need more as busy until memory is free", u.Level, u.Used, u.Limit)
	}
	if names := p.gauge.Refusing(time.Now().Add(-refusedLately)); len(names) > 0 {
		return "within the last minute, clients were refused because they had used their share of: " + strings.Join(names, "; ")
	}
	return ""
}

func (p *pools) addHealth(told map[string]any) map[string]any {
	told["memory"] = struct {
		memory.Usage
		Messages    fair.Stats `json:"messages"`
		Connections fair.Stats `json:"connections"`
		Streams     fair.Stats `json:"streams"`
	}{p.watch.Usage(), p.Budget.Stats(), p.Standing.Stats(), p.Streams.Stats()}
	return told
}
