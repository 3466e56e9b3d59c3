package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/freeport"
)

// The development policy, and those that every gateway of these tests knows
// besides.
const (
	devPolicy    = "RootManageSharedAccessKey"
	devKey       = "SAS_KEY_VALUE"
	sendOnly     = "send-only"
	listenOnly   = "listen-only"
	sendOnlyKey  = "send-only-key"
	listenKey    = "listen-only-key"
	startTimeout = patience
)

// gateway is a running gateway process.
type gateway struct {
	host string // localhost:PORT, for every protocol
	data string // its data directory
	args []string
	ca   *x509.CertPool

	files int // how many descriptors it has; 0: as many as the test

	log lockedBuffer

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closes when cmd has ended
	err   error         // how it ended
}

// lockedBuffer collects a process' output while tests may read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newGateway prepares a gateway on a free port with the given store.
func newGateway(dir, store string, args ...string) (*gateway, error) {
	port, err := freeport.Take()
	if err != nil {
		return nil, err
	}
	g := &gateway{host: fmt.Sprintf("localhost:%d", port), data: dir}
	g.args = append([]string{
		"serve", "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--data", dir, "--store", store,
		"--websocket-origins", "http://127.0.0.1:*", "--cors-origins", "http://127.0.0.1:*",
		"--policy", sendOnly + "=" + sendOnlyKey + ":Send", "--policy", listenOnly + "=" + listenKey + ":Listen",
	}, args...)
	return g, nil
}

// start runs the process and waits until it is ready.
func (g *gateway) start() error {
	if err := g.launch(); err != nil {
		return err
	}
	deadline := time.Now().Add(startTimeout)
	for {
		if err := g.health(); err == nil {
			break
		} else if time.Now().After(deadline) {
			g.kill()
			return fmt.Errorf("the gateway is not ready: %w\n%s", err, g.log.String())
		}
		select {
		case <-g.ended:
			return fmt.Errorf("the gateway has ended: %w\n%s", g.err, g.log.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	if g.ca == nil {
		return g.trust()
	}
	return nil
}

// launch runs the process without waiting.
func (g *gateway) launch() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cmd = exec.Command(binary, g.args...)
	if g.files > 0 {
		g.cmd = exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, g.files), binary}, g.args...)...)
	}
	g.cmd.Stdout, g.cmd.Stderr = &g.log, &g.log
	if err := g.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	g.ended = ended
	go func(c *exec.Cmd) {
		err := c.Wait()
		g.mu.Lock()
		g.err = err
		g.mu.Unlock()
		close(ended)
	}(g.cmd)
	return nil
}

// trust reads the development CA as `crosstown ca` prints it.
func (g *gateway) trust() error {
	pem, err := exec.Command(binary, "ca", "--data", g.data).Output()
	if err != nil {
		return fmt.Errorf("crosstown ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("crosstown ca printed no certificate: %q", pem)
	}
	g.ca = pool
	return os.WriteFile(g.caFile(), pem, 0o600)
}

func (g *gateway) caFile() string { return filepath.Join(g.data, "printed-ca.pem") }

// health asks GET /health once.
func (g *gateway) health() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.host+"/health", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // only its status matters
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("health: %s", answer.Status)
	}
	return nil
}

// hasEnded reports whether the process is no more.
func (g *gateway) hasEnded() bool {
	g.mu.Lock()
	ended := g.ended
	g.mu.Unlock()
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// kill ends the process at once, as kill -9 does, and waits until it is gone.
func (g *gateway) kill() { g.signal(syscall.SIGKILL) }

// stop asks the process to drain and end, and waits until it is gone.
func (g *gateway) stop() { g.signal(syscall.SIGTERM) }

func (g *gateway) signal(s os.Signal) {
	g.mu.Lock()
	cmd, ended := g.cmd, g.ended
	g.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(s) // it may have ended by itself
	<-ended
}

// connection returns a connection string for a policy. Plain is AMQP without TLS.
func (g *gateway) connection(policy, key string, plain bool) string {
	s := fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=%s", g.host, policy, key)
	if plain {
		s += ";UseDevelopmentEmulator=true"
	}
	return s
}

// shared are the gateways that most stories are told to, one per engine,
// started when first needed.
var shared struct {
	sync.Mutex
	gateways map[string]*gateway
	stores   map[string]string // by engine, what the gateways are given
}

// sharedGateway returns the gateway on an engine: memory, file, redis or cluster. One
// that has died is replaced, lest all stories fail that come after the one that
// it died of; its end fails the run.
func sharedGateway(t *testing.T, engine string) *gateway {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if g := shared.gateways[engine]; g != nil && !g.hasEnded() {
		return g
	}
	if shared.gateways == nil {
		shared.gateways, shared.stores = map[string]*gateway{}, map[string]string{"memory": "memory", "file": "file"}
	}
	if shared.stores[engine] == "" {
		shared.stores[engine] = sharedStore(t, engine)
	}
	g, err := startShared(shared.stores[engine])
	if err != nil {
		t.Fatal(err)
	}
	shared.gateways[engine] = g
	return g
}

// sharedStore starts the store of an engine that is redis or cluster.
func sharedStore(t *testing.T, engine string) string {
	t.Helper()
	if engine == "cluster" {
		c := redistest.SharedCluster(t)
		atEnd(func() error { c.Stop(); return nil })
		return c.URL()
	}
	r := redistest.Shared(t, redistest.Options{AOF: "always"})
	atEnd(func() error { r.Stop(); return nil })
	return r.URL()
}

func startShared(store string) (*gateway, error) {
	dir, err := os.MkdirTemp(scratch, "data-")
	if err != nil {
		return nil, err
	}
	g, err := newGateway(dir, store)
	if err != nil {
		return nil, err
	}
	if err := g.start(); err != nil {
		return nil, err
	}
	atEnd(func() error {
		g.stop()
		if g.err != nil {
			return fmt.Errorf("the gateway on %s ended badly: %w\n%s", store, g.err, g.log.String())
		}
		return g.sane()
	})
	return g, nil
}

// sane returns an error if the log tells of a fault of the program.
func (g *gateway) sane() error {
	log := g.log.String()
	for _, fault := range []string{"DATA RACE", "panic", "goroutine "} {
		if strings.Contains(log, fault) {
			return fmt.Errorf("the gateway's log has %q:\n%s", fault, log)
		}
	}
	return nil
}

// own starts a gateway of its own for a test.
func own(t *testing.T, store string, args ...string) *gateway {
	t.Helper()
	g, err := newGateway(t.TempDir(), store, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.kill()
		if err := g.sane(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the gateway's log:\n%s", g.log.String())
		}
	})
	if err := g.start(); err != nil {
		t.Fatal(err)
	}
	return g
}
