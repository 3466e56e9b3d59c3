package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core/redisstore/internal/server"
)

// SpawnOptions say how to run a Redis server as a child process.
type SpawnOptions struct {
	// Dir keeps the data; it is made if missing. Only one process at a time may use it.
	Dir string
	// Binary is redis-server or valkey-server; "" takes what FindServer finds.
	Binary string
	// Logger may be nil.
	Logger *slog.Logger
}

// Child is a redis-server that belongs to this process. It listens on a unix socket only, keeps an
// append-only file, is started again when it dies, and ends with its parent.
type Child struct {
	options SpawnOptions
	socket  string
	client  *redis.Client
	tempDir string // of the socket, if Dir's path is too long for one

	stop    context.CancelFunc
	stopped sync.WaitGroup
}

// maxSocketPath is how long a socket's path may be: sun_path has 108 bytes on Linux and 104
// elsewhere, including a final zero.
const maxSocketPath = 103

// Times of a child's life.
const (
	spawnTimeout  = 5 * time.Minute // loading a large append-only file takes long
	shutdownGrace = 10 * time.Second
	firstBackoff  = 100 * time.Millisecond
	lastBackoff   = 5 * time.Second
)

// FindServer looks for a redis-server or valkey-server of version 7 or newer on the PATH.
func FindServer() (path string, ok bool) { return server.Find() }

// Spawn starts a child and waits until it answers.
func Spawn(ctx context.Context, o SpawnOptions) (*Child, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Binary == "" {
		var ok bool
		if o.Binary, ok = FindServer(); !ok {
			return nil, errors.New("no redis-server or valkey-server of version 7 or newer is on the PATH: install one, or choose another store")
		}
	} else if err := server.Check(o.Binary); err != nil {
		return nil, err
	}
	c := &Child{options: o}
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("prepare a Redis in %s: %w", o.Dir, err)
	}
	p, err := c.start(ctx)
	if err != nil {
		c.tidy()
		return nil, fmt.Errorf("spawn %s in %s: %w", o.Binary, c.options.Dir, err)
	}
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.stopped.Go(func() { c.supervise(running, p) })
	return c, nil
}

// prepare makes the directories of data and socket.
func (c *Child) prepare() error {
	dir, err := filepath.Abs(c.options.Dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	c.options.Dir = dir
	c.socket = filepath.Join(dir, "redis.sock")
	if len(c.socket) > maxSocketPath {
		if c.tempDir, err = os.MkdirTemp("", "crosstown-"); err != nil {
			return err
		}
		c.socket = filepath.Join(c.tempDir, "redis.sock")
	}
	c.client = server.Client("unix", c.socket)
	if conn, err := net.Dial("unix", c.socket); err == nil {
		_ = conn.Close() // it was only a probe
		c.tidy()
		return fmt.Errorf("a server already listens at %s: another gateway uses this directory, choose another one", c.socket)
	}
	return nil
}

func (c *Child) start(ctx context.Context) (*server.Process, error) {
	p, err := server.Start(c.options.Binary, c.options.Dir,
		"--port", "0", "--unixsocket", c.socket, "--unixsocketperm", "700",
		"--dir", c.options.Dir, "--appendonly", "yes", "--appendfsync", "everysec",
		"--auto-aof-rewrite-min-size", "256mb", // at 64mb, rewriting costs as much as large messages do
		"--zset-max-listpack-entries", "16", // finding a lock in a list of 128 takes longer than the rest of its settlement
		"--save", "", "--maxmemory-policy", "noeviction", "--daemonize", "no")
	if err != nil {
		return nil, err
	}
	ready, cancel := context.WithTimeout(ctx, spawnTimeout)
	defer cancel()
	if err := p.WaitReady(ready, c.client); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// supervise starts the child again whenever it dies, until ctx ends. Then it shuts the child down.
func (c *Child) supervise(ctx context.Context, p *server.Process) {
	backoff := firstBackoff
	for {
		began := time.Now()
		if p != nil {
			select {
			case <-ctx.Done():
				p.Shutdown(c.client, shutdownGrace)
				return
			case <-p.Exited():
				c.options.Logger.Warn("the store's redis-server has ended; starting it again")
			}
		}
		if time.Since(began) > time.Minute {
			backoff = firstBackoff
		}
		if !pause(ctx, backoff) {
			return
		}
		backoff = min(2*backoff, lastBackoff)
		var err error
		if p, err = c.start(ctx); err != nil {
			c.options.Logger.Error("the store's redis-server does not start; trying again", "err", err)
			p = nil
		}
	}
}

// URL is where Open finds the child.
func (c *Child) URL() string { return (&url.URL{Scheme: "unix", Path: c.socket}).String() }

// Stop shuts the child down and returns when it has ended. Close stores first. It is safe to call
// more than once.
func (c *Child) Stop() {
	c.stop()
	c.stopped.Wait()
	c.tidy()
}

// tidy removes what only the running child needs.
func (c *Child) tidy() {
	_ = c.client.Close() // nothing is left to send
	if c.tempDir != "" {
		_ = os.RemoveAll(c.tempDir) // a directory left in the temporary one does no harm
	}
}
