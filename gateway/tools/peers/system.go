package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/internal/freeport"
)

// system is what is measured: a broker with its way to keep messages.
type system struct {
	name, title string
	start       func(context.Context, *lab, setup) (*broker, error)
	// share divides the number of messages of a system that syncs each by itself; 0: by 1.
	share int64
}

// baseline is the system whose figures are 1.0 in ratios.
const baseline = "nats"

var systems = []*system{
	{name: "memory", title: "Crosstown, memory", start: crosstown{store: "memory"}.start},
	{name: "file", title: "Crosstown, file", start: crosstown{store: "file", sync: "interval"}.start},
	{name: "file-always", title: "Crosstown, file, synced", start: crosstown{store: "file", sync: "always"}.start},
	{name: "redis", title: "Crosstown, Redis everysec", start: crosstown{fsync: "everysec"}.start},
	{name: "redis-always", title: "Crosstown, Redis always", start: crosstown{fsync: "always"}.start},
	{name: "nats", title: "NATS JetStream, file", start: nats{}.start},
	{name: "nats-always", title: "NATS JetStream, file, synced", start: nats{always: true}.start, share: 20},
	{name: "rabbitmq-quorum", title: "RabbitMQ, quorum queue", start: rabbitmq{queues: "quorum"}.start},
	{name: "rabbitmq-classic", title: "RabbitMQ, classic queue", start: rabbitmq{queues: "classic"}.start},
}

// setup is the structure of a system. The zero setup is one gateway and, if the store needs it, one
// Redis.
type setup struct {
	partitions int // of every queue; 0: not partitioned
	gateways   int // on one store; 0: one
	masters    int // of a Redis Cluster; 0: no cluster
}

// skipped says why a system cannot be measured here.
type skipped string

func (s skipped) Error() string { return "skipped: " + string(s) }

// broker is a system that runs.
type broker struct {
	version   string
	driver    string                    // program with the command bench
	urls      []string                  // for the driver
	address   func(queue string) string // what the driver calls a queue
	processes []*process
	// remaining returns how many messages queues hold, by name.
	remaining func(context.Context) (map[string]int64, error)
}

// stop ends the processes, the last started first.
func (b *broker) stop() {
	for _, p := range slices.Backward(b.processes) {
		p.stop()
	}
}

// charged returns the processes whose CPU time is the broker's, as flags of the driver.
func (b *broker) charged() ([]string, error) {
	var args []string
	for _, p := range b.processes {
		all, err := family(p.cmd.Process.Pid)
		if err != nil {
			return nil, fmt.Errorf("find the broker's processes: %w", err)
		}
		for _, m := range all {
			args = append(args, "--pid", fmt.Sprintf("%s=%d", m.name, m.pid))
		}
	}
	return args, nil
}

// left returns the number of messages in queues once the broker has carried out the last requests,
// for which it has ten seconds.
func (b *broker) left(ctx context.Context) (map[string]int64, error) {
	deadline := time.Now().Add(10 * time.Second)
	for {
		held, err := b.remaining(ctx)
		if err != nil {
			return nil, err
		}
		sum := int64(0)
		for _, n := range held {
			sum += n
		}
		if sum == 0 || time.Now().After(deadline) {
			return held, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// address returns a free address on loopback.
func address() (string, error) {
	port, err := freeport.Take()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}
