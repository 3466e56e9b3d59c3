// Package e2e tells whole stories to the built binary through stock clients:
// the official Go SDK, go-amqp, plain HTTP and, where node is installed, the
// official JavaScript SDK, also in a web page. A story is told on one engine,
// over plain TCP, TLS or WebSockets: package variants chooses, and E2E_ALL=1
// tells it on all.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/crosstown-mq/crosstown/internal/built"
)

// binary is the gateway that the stories are told to, scratch a directory of this run.
var binary, scratch string

// stopped are called after the last test, in reverse order.
var (
	stoppedMu sync.Mutex
	stopped   []func() error
)

// atEnd has f called after the last test of the package; its error fails the run.
func atEnd(f func() error) {
	stoppedMu.Lock()
	defer stoppedMu.Unlock()
	stopped = append(stopped, f)
}

func TestMain(m *testing.M) {
	// Stories wait for processes and connections: tell more at once than there are processors.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.NumCPU()+4)); err != nil {
		panic(err)
	}
	// A program with the race detector otherwise sleeps for a second before it exits.
	if err := os.Setenv("GORACE", "halt_on_error=1 atexit_sleep_ms=10"); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "crosstown-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }() // a leftover in the temp directory harms nobody
	var flags []string
	if raceEnabled {
		flags = []string{"-race"}
	}
	if binary, err = built.Gateway(scratch, flags...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	for i := len(stopped) - 1; i >= 0; i-- {
		if err := stopped[i](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}
