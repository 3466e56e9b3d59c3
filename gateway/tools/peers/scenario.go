package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/gateway/internal/bench"
)

// The groups of scenarios.
const (
	peersGroup     = "peers"
	scaleGroup     = "scale"
	webSocketGroup = "websocket"
)

var groups = []string{peersGroup, scaleGroup, webSocketGroup}

// scenario is a load, and what is reported of it.
type scenario struct {
	name, title, group string
	args               string  // of the driver, without the number of messages
	messages           int64   // 0: the load is timed
	seconds            float64 // that it takes on two cores, about
	metrics            []*metric
	setup              setup
	queues             int // 0: one, named as the scenario
	sessions           bool
	webSocket          bool     // by the gateway's own protocol instead of AMQP
	systems            []string // that it is for; nil: all
}

var (
	ours  = []string{"memory", "file", "file-always", "redis", "redis-always"}
	load  = []*metric{cpu, client, rate}
	paced = []*metric{cpu, client, p50, p99}
)

// Loads of which the scale scenarios differ in one number only.
const (
	manyLinks = "--size 1024 --senders 100 --receivers 100 --connections 4 --in-flight 10 --credit 20"
	spread    = "--size 1024 --senders 12 --receivers 12 --connections 4"
)

var scenarios = []*scenario{
	{name: "1k-4x4", title: "1 KiB, 4 senders, 4 receivers, 4 connections", group: peersGroup, args: "--size 1024", messages: 60_000, seconds: 3, metrics: load},
	{name: "1k-16x16", title: "1 KiB, 16 senders, 16 receivers, 16 connections", group: peersGroup, args: "--size 1024 --senders 16 --receivers 16 --connections 16", messages: 60_000, seconds: 3, metrics: load},
	{name: "64k-4x4", title: "64 KiB, 4 senders, 4 receivers, 4 connections", group: peersGroup, args: "--size 65536", messages: 6_000, seconds: 3, metrics: load},
	{name: "paced-500", title: "1 KiB at a fixed 500 messages/s", group: peersGroup, args: "--size 1024 --mode latency --rate 500 --duration 4s", seconds: 4, metrics: paced},
	{name: "paced-2000", title: "1 KiB at a fixed 2,000 messages/s", group: peersGroup, args: "--size 1024 --mode latency --rate 2000 --duration 4s", seconds: 4, metrics: paced},
	{name: "lone", title: "1 KiB, one message at a time on one connection", group: peersGroup, args: "--size 1024 --mode lone --senders 1 --receivers 1 --connections 1 --duration 3s", seconds: 3, metrics: paced},
	{name: "fill-drain", title: "A backlog of 200,000 messages of 1 KiB: filled by 4 senders, then drained by 4 receivers", group: peersGroup, args: "--size 1024 --fill-then-drain", messages: 200_000, seconds: 10, metrics: []*metric{cpu, client, fill, drain, resident}},
	{
		name: "sessions", title: "One message in each of 10,000 sessions: accept the next session, receive, complete with confirmation, close; figures are per session", group: peersGroup,
		args: "--size 1024 --mode sessions --settle each", messages: 10_000, seconds: 12, metrics: []*metric{cpu, client, rate, p50, p99}, sessions: true, systems: ours,
	},

	{name: "queues-1", title: "100 senders, 100 receivers, 1 queue", group: scaleGroup, args: manyLinks, messages: 60_000, seconds: 4, metrics: load},
	{name: "queues-10", title: "100 senders, 100 receivers, 10 queues", group: scaleGroup, args: manyLinks, messages: 60_000, seconds: 4, metrics: load, queues: 10},
	{name: "queues-100", title: "100 senders, 100 receivers, 100 queues", group: scaleGroup, args: manyLinks, messages: 60_000, seconds: 4, metrics: load, queues: 100},
	{name: "partitions-1", title: "4 senders, 4 receivers, 1 partition", group: scaleGroup, args: "--size 1024", messages: 60_000, seconds: 4, metrics: load, setup: setup{partitions: 1}, systems: ours},
	{name: "partitions-4", title: "4 senders, 4 receivers, 4 partitions", group: scaleGroup, args: "--size 1024", messages: 60_000, seconds: 4, metrics: load, setup: setup{partitions: 4}, systems: ours},
	{name: "partitions-16", title: "4 senders, 4 receivers, 16 partitions", group: scaleGroup, args: "--size 1024", messages: 60_000, seconds: 4, metrics: load, setup: setup{partitions: 16}, systems: ours},
	{
		name: "connections-1000", title: "1,000 senders, 1,000 receivers, 1,000 connections, 100 queues", group: scaleGroup,
		args: "--size 1024 --senders 1000 --receivers 1000 --connections 1000 --in-flight 4 --credit 4", messages: 100_000, seconds: 9, metrics: load, queues: 100,
	},
	{
		name: "idle", title: "10,000 connections, 1,000 waiting receivers on 100 queues, no messages", group: scaleGroup,
		args: "--mode idle --connections 10000 --receivers 1000 --credit 10 --duration 10s", seconds: 25, metrics: []*metric{idleCPU, perConnection}, queues: 100,
		systems: append([]string{baseline}, ours...),
	},
	{name: "one", title: "12 senders, 12 receivers, 12 queues: one gateway, one Redis", group: scaleGroup, args: spread, messages: 60_000, seconds: 5, metrics: load, queues: 12, systems: []string{"redis"}},
	{name: "cluster", title: "12 senders, 12 receivers, 12 queues: one gateway, a Redis Cluster of 3 masters", group: scaleGroup, args: spread, messages: 60_000, seconds: 7, metrics: load, queues: 12, setup: setup{masters: 3}, systems: []string{"redis"}},
	{name: "gateways-2", title: "12 senders, 12 receivers, 12 queues: two gateways, one Redis", group: scaleGroup, args: spread, messages: 60_000, seconds: 6, metrics: load, queues: 12, setup: setup{gateways: 2}, systems: []string{"redis"}},

	{name: "websocket-json", title: "By WebSocket, in JSON: 1 KiB, 4 senders, 4 receivers, 16 connections", group: webSocketGroup, args: "--size 1024 --connections 16", messages: 60_000, seconds: 5, metrics: load, webSocket: true, systems: ours},
	{name: "websocket-msgpack", title: "By WebSocket, in MessagePack: 1 KiB, 4 senders, 4 receivers, 16 connections", group: webSocketGroup, args: "--size 1024 --connections 16 --msgpack", messages: 60_000, seconds: 5, metrics: load, webSocket: true, systems: ours},
}

// runsOn tells whether a scenario is for a system.
func (s *scenario) runsOn(name string) bool {
	return s.systems == nil || slices.Contains(s.systems, name)
}

// command returns the driver's arguments.
func (c cell) command(b *broker, o *options) ([]string, error) {
	charged, err := b.charged()
	if err != nil {
		return nil, err
	}
	args := append([]string{"bench", "--json", "--entity", b.address(c.scenario.name), "--settle", o.settle}, strings.Fields(c.scenario.args)...)
	if n := c.count(o); n > 0 {
		args = append(args, "--messages", strconv.FormatInt(n, 10))
	}
	if c.scenario.queues > 1 {
		args = append(args, "--queues", strconv.Itoa(c.scenario.queues))
	}
	for _, url := range b.urls {
		if c.scenario.webSocket {
			url = "ws" + strings.TrimPrefix(url, "amqp")
		}
		args = append(args, "--url", url)
	}
	return append(args, charged...), nil
}

// count returns how many messages are sent, 0 where the load is timed.
func (c cell) count(o *options) int64 {
	n := c.scenario.messages
	if n > 0 && o.messages > 0 {
		n = o.messages
	}
	if n > 0 && c.system.share > 1 {
		n = max(1, n/c.system.share)
	}
	return n
}

// queue is what a broker needs before a scenario.
type queue struct {
	name     string
	scenario *scenario
	sessions bool
}

// allQueues returns the queues of all scenarios of a setup.
func allQueues(s setup) []queue {
	var all []queue
	for _, sc := range scenarios {
		switch {
		case sc.setup != s:
		case sc.queues > 1:
			for i := range sc.queues {
				all = append(all, queue{fmt.Sprintf("%s-%d", sc.name, i), sc, sc.sessions})
			}
		default:
			all = append(all, queue{sc.name, sc, sc.sessions})
		}
	}
	return all
}

// metric is one figure of a report.
type metric struct {
	key, title string
	ratio      bool // to the baseline is of interest
	of         func(*bench.Report) float64
}

var (
	cpu           = &metric{"cpu", "broker CPU, µs/message", true, func(r *bench.Report) float64 { return micros(r, false) }}
	client        = &metric{"client", "client CPU, µs/message", false, func(r *bench.Report) float64 { return micros(r, true) }}
	rate          = &metric{"rate", "messages/s", false, perSecond}
	p50           = &metric{"p50", "p50, ms", true, func(r *bench.Report) float64 { return latency(r).P50 / 1e3 }}
	p99           = &metric{"p99", "p99, ms", false, func(r *bench.Report) float64 { return latency(r).P99 / 1e3 }}
	fill          = &metric{"fill", "filled, messages/s", true, func(r *bench.Report) float64 { return phaseRate(r, 0) }}
	drain         = &metric{"drain", "drained, messages/s", true, func(r *bench.Report) float64 { return phaseRate(r, 1) }}
	resident      = &metric{"resident", "memory afterwards, MiB", false, func(r *bench.Report) float64 { return memory(r.Processes, now) / (1 << 20) }}
	idleCPU       = &metric{"idle", "broker CPU, ms/s", true, func(r *bench.Report) float64 { return seconds(r.Processes) * 1e3 / r.Seconds }}
	perConnection = &metric{"memory", "memory, KiB/connection", true, func(r *bench.Report) float64 { return memory(r.Processes, grown) / 1024 / float64(r.Conns) }}
)

// isClient tells the driver's own charge from those of the broker's processes.
func isClient(c bench.Charge) bool { return c.Name == "bench" }

// charges returns the charges of the measured interval: all phases or, in mode sessions, the phase
// that accepts them.
func charges(r *bench.Report) []bench.Charge {
	if r.Mode == bench.Sessions && len(r.Phases) == 2 {
		return r.Phases[1].Processes
	}
	return r.Processes
}

func micros(r *bench.Report, client bool) float64 {
	sum := 0.0
	for _, c := range charges(r) {
		if isClient(c) == client {
			sum += c.MicrosPerMessage
		}
	}
	return sum
}

func seconds(all []bench.Charge) float64 {
	sum := 0.0
	for _, c := range all {
		if !isClient(c) {
			sum += c.CPUSeconds
		}
	}
	return sum
}

func now(c bench.Charge) int64   { return c.ResidentBytes }
func grown(c bench.Charge) int64 { return c.GrownBytes }

func memory(all []bench.Charge, of func(bench.Charge) int64) float64 {
	sum := int64(0)
	for _, c := range all {
		if !isClient(c) {
			sum += of(c)
		}
	}
	return float64(sum)
}

func perSecond(r *bench.Report) float64 {
	if r.Mode == bench.Sessions {
		return phaseRate(r, 1)
	}
	return r.ReceiveRate
}

func phaseRate(r *bench.Report, i int) float64 {
	if len(r.Phases) <= i || r.Phases[i].Seconds == 0 {
		return 0
	}
	return float64(r.Phases[i].Messages) / r.Phases[i].Seconds
}

func latency(r *bench.Report) bench.Percentiles {
	if r.Mode == bench.Sessions {
		return r.Sessions
	}
	return r.EndToEnd
}
