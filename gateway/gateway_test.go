package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/internal/eventually"
	"github.com/crosstown-mq/crosstown/internal/freeport"
)

// patience bounds what a test waits for; nothing takes nearly as long, on a busy machine either.
const patience = eventually.Bound

// output is a buffer that one side writes while the other waits for a text.
type output struct {
	mu      sync.Mutex
	buffer  bytes.Buffer
	written chan struct{} // holds at most one
}

func newOutput() *output { return &output{written: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.written <- struct{}{}:
	default:
	}
	return o.buffer.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

// gateway is a gateway in this process.
type gateway struct {
	data, address, connection, secure string
	stdout, stderr                    *output
	stop                              context.CancelFunc
	exit                              <-chan int
}

var (
	addressLine    = regexp.MustCompile(`listening +(\S+)`)
	connectionLine = regexp.MustCompile(`(?m)connect +(.+)$`)
	secureLine     = regexp.MustCompile(`with TLS +(.+)`)
	readyLine      = regexp.MustCompile(`health +http`)
)

// startGateway runs a gateway on a free port with a data directory of its own
// and waits until it is ready. The test's end stops it.
func startGateway(t *testing.T, args ...string) *gateway {
	t.Helper()
	g := &gateway{data: t.TempDir()}
	return g.start(t, args...)
}

func (g *gateway) start(t *testing.T, args ...string) *gateway {
	t.Helper()
	args = append([]string{"--listen", "127.0.0.1:0", "--data", g.data, "--drain-timeout", "5s"}, args...)
	ctx, cancel := context.WithCancel(context.Background())
	exit := make(chan int, 1)
	g.stdout, g.stderr, g.stop, g.exit = newOutput(), newOutput(), cancel, exit
	go func() { exit <- run(ctx, args, strings.NewReader(""), g.stdout, g.stderr, nil) }()
	t.Cleanup(func() { g.halt(t) })
	deadline := time.After(patience)
	for !readyLine.MatchString(g.stdout.String()) {
		select {
		case <-g.stdout.written:
		case code := <-exit:
			exit <- code
			t.Fatalf("the gateway left with %d:\n%s", code, g.stderr)
		case <-deadline:
			t.Fatalf("the gateway was not ready in time:\n%s%s", g.stdout, g.stderr)
		}
	}
	text := g.stdout.String()
	g.address = addressLine.FindStringSubmatch(text)[1]
	if plain := connectionLine.FindStringSubmatch(text); plain != nil { // there is none where TLS is required
		g.connection = plain[1]
	}
	g.secure = secureLine.FindStringSubmatch(text)[1]
	return g
}

// halt stops the gateway, if it still runs, and checks that it left in order.
func (g *gateway) halt(t *testing.T) {
	t.Helper()
	if g.exit == nil {
		return
	}
	g.stop()
	select {
	case code := <-g.exit:
		if code != exitOK {
			t.Errorf("exit code: got %d, want %d:\n%s", code, exitOK, g.stderr)
		}
	case <-time.After(patience):
		t.Errorf("the gateway did not stop in time:\n%s", g.stderr)
	}
	g.exit = nil
}

// command runs a client command against the gateway and returns what it printed.
func (g *gateway) command(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	code, stdout, stderr := g.try(t, g.connection, stdin, args...)
	if code != exitOK {
		t.Fatalf("crosstown %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

func (g *gateway) try(t *testing.T, connection, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, problems := newOutput(), newOutput()
	environ := []string{"CROSSTOWN_CONNECTION_STRING=" + connection, "CROSSTOWN_DATA=" + g.data, "CROSSTOWN_CONTEXTS=" + filepath.Join(g.data, "contexts.json")}
	code = run(ctx, args, strings.NewReader(stdin), out, problems, environ)
	return code, out.String(), problems.String()
}

func (g *gateway) get(t *testing.T, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + g.address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// freePort returns a port on which no server listens.
func freePort(t *testing.T) string {
	t.Helper()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}
