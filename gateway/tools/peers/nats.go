package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// nats starts NATS with JetStream.
type nats struct{ always bool }

// natsServer is the package of the server, whose version go.mod pins.
const natsServer = "github.com/nats-io/nats-server/v2"

func (n nats) start(ctx context.Context, l *lab, _ setup) (_ *broker, err error) {
	driver, err := l.clients(ctx)
	if err != nil {
		return nil, err
	}
	server, err := l.build(ctx, "nats-server", natsServer)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(l.dir, "nats-")
	if err != nil {
		return nil, err
	}
	clients, err := address()
	if err != nil {
		return nil, err
	}
	monitor, err := address()
	if err != nil {
		return nil, err
	}
	sync := ""
	if n.always {
		sync = "sync_interval: always"
	}
	config := fmt.Sprintf("listen: %q\nhttp: %q\njetstream { store_dir: %q\n%s }\n", clients, monitor, dir, sync)
	if err := os.WriteFile(filepath.Join(dir, "nats.conf"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	p, err := launch(dir, "nats", nil, server, "-c", filepath.Join(dir, "nats.conf"))
	if err != nil {
		return nil, err
	}
	b := &broker{
		driver: driver, urls: []string{"nats://" + clients}, address: func(queue string) string { return queue }, processes: []*process{p},
		remaining: func(ctx context.Context) (map[string]int64, error) { return streams(ctx, "http://"+monitor) },
	}
	out, err := p.prints(ctx, "Server is ready")
	if err != nil {
		b.stop()
		return nil, err
	}
	b.version = "NATS " + strings.TrimSpace(cut(out, "Version:", "\n"))
	return b, nil
}

// streams asks a server's monitor what its streams hold.
func streams(ctx context.Context, monitor string) (map[string]int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, monitor+"/jsz?streams=true&limit=10000", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("list the streams: %w", err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	var found struct {
		Accounts []struct {
			Streams []struct {
				Name  string
				State struct{ Messages int64 }
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		return nil, fmt.Errorf("list the streams: %w", err)
	}
	held := map[string]int64{}
	for _, account := range found.Accounts {
		for _, s := range account.Streams {
			held[s.Name] = s.State.Messages
		}
	}
	return held, nil
}
