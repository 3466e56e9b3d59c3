package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/built"
	"github.com/crosstown-mq/crosstown/internal/eventually"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

// rogue is the compiled plugin of testdata/rogue.
var rogue string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "host-test-")
	if err != nil {
		panic(err)
	}
	if rogue, err = built.Program(dir, "./testdata/rogue"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// quick are options under which a test need not wait long.
func quick(args ...string) host.Options {
	return host.Options{
		Name: "rogue", Path: rogue, Args: args, CallTimeout: eventually.Bound, StartTimeout: eventually.Bound,
		BackoffMin: 10 * time.Millisecond, BackoffMax: 50 * time.Millisecond, Failures: 1000, HealthInterval: 200 * time.Millisecond,
	}
}

// impatient are those of a test that has to wait for calls to be late.
func impatient(args ...string) host.Options {
	o := quick(args...)
	o.CallTimeout = 500 * time.Millisecond
	return o
}

// env is a host with one plugin.
type env struct {
	*testing.T
	*host.Host
	router *host.Router
	log    *logBuffer
	stop   func() // and wait; twice is fine
}

func start(t *testing.T, o host.Options) *env {
	t.Helper()
	e := &env{T: t, log: &logBuffer{}}
	e.Host = host.New([]host.Options{o}, slog.New(slog.NewTextHandler(e.log, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Host.Run(ctx) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", e.log)
		}
	})
	t.Cleanup(e.stop)
	launched, cancelLaunch := context.WithTimeout(t.Context(), 2*eventually.Bound)
	defer cancelLaunch()
	if err := e.Launched(launched); err != nil {
		t.Fatalf("not launched: %v", err)
	}
	var err error
	if e.router, err = e.Router("rogue"); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *env) state() host.State { return e.States()[0] }

// await waits until the plugin is in the condition.
func (e *env) await(c host.Condition) {
	e.Helper()
	e.until(string(c), func() bool { return e.state().Condition == c })
}

func (e *env) until(what string, holds func() bool) {
	e.Helper()
	if !eventually.Within(eventually.Bound, holds) {
		e.Fatalf("not %s after %v: %+v\nlog:\n%s", what, eventually.Bound, e.state(), e.log)
	}
}

// ask has one message judged.
func (e *env) ask(m *core.Message) (core.Verdict, error) {
	vs, err := e.router.Route(e.Context(), core.Stage{Entity: "orders"}, []*core.Message{m})
	if err != nil {
		return core.Verdict{}, err
	}
	return vs[0], nil
}

func message(t testing.TB, id string, pairs ...any) *core.Message {
	t.Helper()
	var ps []core.Property
	for i := 0; i < len(pairs); i += 2 {
		ps = append(ps, core.Property{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	p, err := core.NewProperties(ps...)
	if err != nil {
		t.Fatal(err)
	}
	return &core.Message{MessageID: core.StringID(id), Properties: p, Body: core.Body{Bytes: []byte("body of " + id)}}
}

func get(v core.Verdict, key string) any {
	got, _ := v.Set.Get(key)
	return got
}

// load asks all the time, through so many callers, until it is ended.
type load struct {
	answered, refused int
	longest           time.Duration // between two answers, whoever got them
	wrong             []string
}

// underLoad has callers ask while f runs and returns what they saw.
func (e *env) underLoad(callers int, f func()) load {
	e.Helper()
	ctx, cancel := context.WithCancel(e.Context())
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		seen load
		last = time.Now()
	)
	for c := range callers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := fmt.Sprintf("%d-%d", c, n)
				vs, err := e.router.Route(context.WithoutCancel(ctx), core.Stage{Entity: "orders"}, []*core.Message{message(e, id), message(e, id+"'")})
				mu.Lock()
				switch {
				case errors.Is(err, core.Busy), errors.Is(err, core.Timeout):
					seen.refused++
				case err != nil:
					seen.wrong = append(seen.wrong, err.Error())
				case len(vs) != 2 || get(vs[0], "echo") != id || get(vs[1], "echo") != id+"'":
					seen.wrong = append(seen.wrong, fmt.Sprintf("%s got %v", id, vs))
				default:
					seen.answered++
					seen.longest = max(seen.longest, time.Since(last))
					last = time.Now()
				}
				mu.Unlock()
				if err != nil {
					time.Sleep(time.Millisecond) // a caller's pause before it asks again
				}
			}
		})
	}
	f()
	cancel()
	all.Wait()
	if len(seen.wrong) > 0 {
		e.Errorf("%d answers were wrong, such as: %s", len(seen.wrong), seen.wrong[0])
	}
	if seen.answered == 0 {
		e.Error("nothing was answered")
	}
	return seen
}

// logBuffer is a log to look into.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) has(s string) bool { return strings.Contains(l.String(), s) }
