package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// errNoRedis says that redis-server is not installed.
var errNoRedis = errors.New("redis-server is not on the PATH")

// redisServer is a redis-server process with an append-only file that is
// flushed at every write, so that it may be killed at any time.
type redisServer struct {
	dir  string
	port int

	mu  sync.Mutex
	cmd *exec.Cmd
}

func newRedis(dir string) (*redisServer, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, errNoRedis
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return &redisServer{dir: dir, port: port}, nil
}

// ownRedis returns a Redis server of its own for a test, not yet started.
func ownRedis(t *testing.T) *redisServer {
	t.Helper()
	r, err := newRedis(t.TempDir())
	skipWithoutRedis(t, err)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kill)
	return r
}

// skipWithoutRedis skips a test at home, and fails it in CI, when err says that
// there is no Redis.
func skipWithoutRedis(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, errNoRedis) {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

func (r *redisServer) url() string { return fmt.Sprintf("redis://127.0.0.1:%d", r.port) }

// start runs the server and waits until it has loaded its data.
func (r *redisServer) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	cmd := exec.Command("redis-server",
		"--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--dir", r.dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--aof-load-truncated", "yes")
	if err := cmd.Start(); err != nil {
		return err
	}
	r.cmd = cmd
	c := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", r.port), MaxRetries: -1})
	defer func() { _ = c.Close() }() // only probes
	deadline := time.Now().Add(startTimeout)
	for {
		err := c.Ping(context.Background()).Err()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server is not ready: %w", err)
		}
		time.Sleep(5 * time.Millisecond) // the server's own start: nothing to wait on
	}
}

// kill ends the server at once, as kill -9 does.
func (r *redisServer) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill() // it may have ended by itself
	_ = r.cmd.Wait()         // the error is that it was killed
	r.cmd = nil
}
