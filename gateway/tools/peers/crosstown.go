package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// crosstown starts gateways.
type crosstown struct {
	store string // of --store, where the setup needs no other
	sync  string // of --sync, for the file store
	fsync string // of a Redis that is started for them
}

// credentials are those of the development policy.
const credentials = "RootManageSharedAccessKey:SAS_KEY_VALUE"

// start runs gateways and what their store needs.
func (c crosstown) start(ctx context.Context, l *lab, s setup) (_ *broker, err error) {
	dir, err := os.MkdirTemp(l.dir, "crosstown-")
	if err != nil {
		return nil, err
	}
	b := &broker{driver: l.driver, address: func(queue string) string { return queue }}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	store := c.store
	switch {
	case s.masters > 0:
		store, err = startCluster(ctx, b, dir, s.masters, c.fsync)
	case store == "" || s.gateways > 1 && c.fsync != "":
		store, err = startRedis(ctx, b, dir, c.fsync)
	}
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "crosstown.yaml")
	if err := writeConfig(config, s); err != nil {
		return nil, err
	}
	for i := range max(s.gateways, 1) {
		args := []string{"--config", config, "--store", store, "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--log-level", "warn"}
		if c.sync != "" {
			args = append(args, "--sync", c.sync)
		}
		if s.partitions > 0 {
			args = append(args, "--partitions", fmt.Sprint(s.partitions))
		}
		p, err := launch(dir, fmt.Sprintf("crosstown-%d", i), nil, l.crosstown, args...)
		if err != nil {
			return nil, err
		}
		b.processes = append(b.processes, p)
		out, err := p.prints(ctx, "\n  health ")
		if err != nil {
			return nil, err
		}
		b.version = "Crosstown " + cut(out, "Crosstown ", ",")
		b.urls = append(b.urls, "amqp://"+credentials+"@"+cut(out, "Endpoint=sb://", ";"))
		if i == 0 {
			connection := strings.TrimSpace(cut(out, "\n  connect ", "\n"))
			b.remaining = func(ctx context.Context) (map[string]int64, error) {
				return remaining(ctx, l.crosstown, connection)
			}
		}
	}
	if about := b.redisVersion(); about != "" {
		b.version += ", " + about
	}
	return b, nil
}

// cut returns what is between two texts.
func cut(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}

// maxConnections is more than any scenario opens, because the clients of one policy cannot take all of them.
const maxConnections = 15_000

// writeConfig writes a configuration with the queues of all scenarios.
func writeConfig(path string, s setup) error {
	type queue struct {
		Name         string `yaml:"name"`
		LockDuration string `yaml:"lock-duration"`
		Size         int    `yaml:"max-size-in-megabytes"`
		Partitioned  bool   `yaml:"enable-partitioning"`
		Sessions     bool   `yaml:"requires-session"`
	}
	var queues []queue
	for _, q := range allQueues(s) {
		queues = append(queues, queue{q.name, (5 * time.Minute).String(), 5120, s.partitions > 0, q.sessions})
	}
	text, err := yaml.Marshal(map[string]any{"queues": queues, "amqp": map[string]any{"max-connections": maxConnections}})
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// remaining asks a gateway what its queues hold.
func remaining(ctx context.Context, program, connection string) (map[string]int64, error) {
	out, err := exec.CommandContext(ctx, program, "queue", "list", "--json", "--connection-string", connection).Output()
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	held := map[string]int64{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var q struct {
			Name                                                            string
			Active, Scheduled, DeadLettered, Transfer, TransferDeadLettered int64
		}
		if err := d.Decode(&q); errors.Is(err, io.EOF) {
			return held, nil
		} else if err != nil {
			return nil, fmt.Errorf("list the queues: %w", err)
		}
		held[q.Name] = q.Active + q.Scheduled + q.DeadLettered + q.Transfer + q.TransferDeadLettered
	}
}
