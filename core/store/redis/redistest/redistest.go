// Package redistest runs real Redis servers for tests: a single one on a unix socket, or a cluster.
// They end after a limited time, or with the test binary.
package redistest

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/internal/redisserver"
)

const startTimeout = 5 * time.Minute // limit for starting servers and forming a cluster on a slow machine

type Options struct {
	// AOF is always, everysec or no. With "" there is no append-only file.
	AOF string
}

type Server struct {
	program string
	dir     string
	args    []string
	client  *redis.Client

	mu      sync.Mutex
	process *redisserver.Process // nil while the server is down
}

var found = sync.OnceValue(func() string {
	path, _ := redisserver.Find()
	return path
})

// Installed reports whether tests with a server run. They do in CI, or if a server is on the PATH.
func Installed() bool { return found() != "" || os.Getenv("CI") != "" }

// program returns the server to run. Without a server, it fails the test in CI and skips it
// elsewhere. It skips short runs.
func program(tb testing.TB) string {
	tb.Helper()
	if testing.Short() {
		tb.Skip("a short run starts no redis-server")
	}
	switch {
	case found() != "":
	case os.Getenv("CI") != "":
		tb.Fatal("redis-server 7 or newer is needed on the PATH")
	default:
		tb.Skip("redis-server 7 or newer is not on the PATH")
	}
	return found()
}

func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	s := launch(tb, o)
	tb.Cleanup(s.Stop)
	return s
}

// Shared runs a server for all tests of a package. TestMain must stop it. Call Shared only once,
// for example through sync.OnceValue.
func Shared(tb testing.TB, o Options) *Server {
	tb.Helper()
	return launch(tb, o)
}

func launch(tb testing.TB, o Options) *Server {
	tb.Helper()
	s := &Server{program: program(tb)}
	var err error
	// The path of tb.TempDir may be too long for a socket.
	if s.dir, err = os.MkdirTemp("", "ct-redis-"); err != nil {
		tb.Fatalf("make a directory for redis-server: %v", err)
	}
	socket := filepath.Join(s.dir, "s")
	s.client = redisserver.Client("unix", socket)
	s.args = []string{"--port", "0", "--unixsocket", socket, "--dir", s.dir, "--save", "", "--enable-debug-command", "yes"}
	if o.AOF != "" {
		s.args = append(s.args, "--appendonly", "yes", "--appendfsync", o.AOF)
	}
	if err := s.start(); err != nil {
		s.Stop()
		tb.Fatalf("start redis-server: %v", err)
	}
	return s
}

func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := redisserver.Start(s.program, s.dir, s.args...)
	if err != nil {
		return err
	}
	s.process = p
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return p.WaitReady(ctx, s.client)
}

func (s *Server) URL() string {
	return (&url.URL{Scheme: "unix", Path: filepath.Join(s.dir, "s")}).String()
}

// Client returns a client that bypasses the store.
func (s *Server) Client() *redis.Client { return s.client }

func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Kill()
		s.process = nil
	}
}

func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		tb.Fatalf("restart redis-server: %v", err)
	}
}

func (s *Server) Stop() {
	s.Kill()
	_ = s.client.Close()
	_ = os.RemoveAll(s.dir)
}
