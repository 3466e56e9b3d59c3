package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/freeport"
)

// fails runs the gateway, which must end by itself with an error, and returns
// what it said.
func fails(t *testing.T, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), binary, args...)
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	if err == nil {
		t.Fatalf("crosstown %v succeeded: %s", args, out)
	}
	if strings.Contains(string(out), "goroutine ") {
		t.Fatalf("crosstown %v panicked: %s", args, out)
	}
	return string(out)
}

func TestStartUpFailsWithTheReason(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	free, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	listen := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: free}).String()
	write := func(text string) string {
		t.Helper()
		f := filepath.Join(t.TempDir(), "crosstown.yaml")
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	for _, tt := range []struct {
		name string
		args []string
		want []string // all of them in what it says
	}{
		{"port in use", []string{"--listen", taken.Addr().String(), "--store", "memory"}, []string{taken.Addr().String(), "in use"}},
		{"missing config", []string{"--config", missing}, []string{missing}},
		{"config is a directory", []string{"--config", t.TempDir()}, []string{"config"}},
		{"config is not YAML", []string{"--config", write("a: [")}, []string{"crosstown.yaml"}},
		{"unknown keys, all of them", []string{"--config", write("nonsense: 1\nlog:\n  volume: 11\n")}, []string{"nonsense", "volume"}},
		{"bad values, all of them", []string{"--config", write("log:\n  level: loud\ndrain-timeout: soon\n"), "--log-format", "xml"}, []string{"level", "loud", "drain-timeout", "format", "xml"}},
		{"unknown flag", []string{"--nonsense"}, []string{"--nonsense", "--help"}},
		{"bad policy", []string{"--policy", "name-only"}, []string{"policy"}},
		{"redis unreachable", []string{"--listen", listen, "--store", "redis://127.0.0.1:1", "--store-wait", "0s"}, []string{"127.0.0.1:1", "refused"}},
		{"not a store", []string{"--store", "postgres://x"}, []string{"store"}},
		{"development key for everyone", []string{"--listen", "0.0.0.0:0", "--store", "memory"}, []string{"dev-key-anywhere"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			said := fails(t, append(append([]string{"serve"}, tt.args...), "--data", t.TempDir())...)
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("got %q, want %q named", said, want)
				}
			}
		})
	}
}

func TestStartUpTellsWhatToPaste(t *testing.T) {
	t.Parallel()
	g := own(t, "memory")
	said := g.log.String()
	port := strings.TrimPrefix(g.host, "localhost")
	for _, want := range []string{port, "Endpoint=sb://", "SharedAccessKeyName=" + devPolicy, "memory", g.data} {
		if !strings.Contains(said, want) {
			t.Errorf("the start-up lines do not have %q:\n%s", want, said)
		}
	}
	g.stop()
	if g.err != nil {
		t.Errorf("SIGTERM: got %v, want a clean end\n%s", g.err, g.log.String())
	}
}

func TestRedisKeepsEverythingOverARestart(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	g := own(t, r.URL())
	e := &env{T: t, gw: g, plain: true}
	queue := e.queue(nil)
	e.send(queue, "a", "b")
	first := e.receiver(queue)
	m := e.one(first)
	g.stop()
	if g.err != nil {
		t.Errorf("SIGTERM with a client connected: got %v\n%s", g.err, g.log.String())
	}
	r.Restart(t)
	if err := g.start(); err != nil {
		t.Fatal(err)
	}
	again := e.receiver(queue)
	e.completeByToken(queue, m) // whoever took it, before whatever restart
	rest := e.one(again)
	if string(rest.Body) != "b" || *rest.SequenceNumber != 2 {
		t.Errorf("got %q, number %d; want b, number 2", rest.Body, *rest.SequenceNumber)
	}
	e.post(e.sender(queue), &azservicebus.Message{Body: []byte("c")})
	if m := e.one(again); *m.SequenceNumber != 3 {
		t.Errorf("the next number is %d, want 3", *m.SequenceNumber)
	}
}
