package main

import (
	"context"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
)

// tty is a terminal on which somebody types.
type tty struct{ io.Reader }

func (tty) Stat() (fs.FileInfo, error) { return os.Stat("/dev/zero") } // a character device

func TestDeletesAskOnATerminalIfThereAreMessages(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	terminal := func(typed string, args ...string) (int, string) {
		var stdout, stderr strings.Builder
		code := run(t.Context(), append(args, "--connection-string", g.connection), tty{strings.NewReader(typed)}, &stdout, &stderr, []string{"HOME=" + t.TempDir()})
		return code, stdout.String() + stderr.String()
	}
	g.command(t, "", "queue", "create", "q")
	g.command(t, "", "topic", "create", "t")
	g.command(t, "", "subscription", "create", "t", "s")
	g.command(t, "", "send", "q", "a", "b")
	g.command(t, "", "send", "q", "later", "--schedule", "1h")
	g.command(t, "", "send", "t", "c")
	for _, c := range []struct {
		typed string
		args  string
		code  int
		want  string
	}{
		{"n\n", "queue delete q", exitFailure, "permanently delete the queue q with 3 messages. Continue? [y/N] crosstown: not confirmed: nothing was changed"},
		{"\n", "topic delete t", exitFailure, "permanently delete the topic t with 1 message"},
		{"n\n", "subscription delete t s", exitFailure, "delete the subscription t/Subscriptions/s with 1 message"},
		{"", "queue delete q", exitUsage, "confirm with --yes"},
		{"", "topic delete t --yes", exitOK, "deleted topic t\n"},
		{"y\n", "queue purge q", exitOK, "purged 2 messages from q; messages that stay: 1 scheduled (select states with --state)\n"},
		{"y\n", "queue delete q", exitOK, "with 1 message. Continue? [y/N]"},
		{"", "queue delete none", exitFailure, "none"},
	} {
		if code, said := terminal(c.typed, strings.Fields(c.args)...); code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%s: got %d %q, want %d %q", c.args, code, said, c.code, c.want)
		}
	}
	g.command(t, "", "queue", "create", "q")
	g.command(t, "", "send", "q", "a")
	g.command(t, "", "queue", "delete", "q") // a script that deletes means it
	g.command(t, "", "queue", "create", "q")
	g.command(t, "", "send", "q", "a")
	null, err := os.Open(os.DevNull) // as services and cron have it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	var said strings.Builder
	if code := run(t.Context(), []string{"queue", "rm", "q", "--connection-string", g.connection}, null, &said, &said, []string{"HOME=" + t.TempDir()}); code != exitOK {
		t.Errorf("without a terminal: got %d %s", code, &said)
	}
	g.command(t, "", "queue", "create", "empty")
	if code, said := terminal("", "queue", "remove", "empty"); code != exitOK {
		t.Errorf("a queue without messages: got %d %s", code, said)
	}
}

func TestACommandThatReadsEndsWithItsContext(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "q")
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	ctx, interrupt := context.WithCancel(t.Context())
	stderr, ended := newOutput(), make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"send", "q", "--connection-string", g.connection}, &command.Input{Context: ctx, File: in}, io.Discard, stderr, []string{"HOME=" + t.TempDir()})
	}()
	interrupt() // nothing is ever written
	if code := <-ended; code != exitFailure || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("got %d %s", code, stderr)
	}
}

func TestAnInterruptedBenchCallsNothingLost(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	stdout, stderr, ended := newOutput(), newOutput(), make(chan int, 1)
	go func() {
		args := []string{"bench", "--fill-then-drain", "--messages=100000000", "--in-flight=10", "--connection-string", g.connection}
		ended <- run(ctx, args, strings.NewReader(""), stdout, stderr, []string{"HOME=" + t.TempDir()})
	}()
	waitFor(t, stderr, " s  acknowledged ")
	interrupt()
	code := <-ended
	if said := stdout.String() + stderr.String(); code == exitOK || !strings.Contains(said, "had not arrived when the run was interrupted") || strings.Contains(said, "the broker lost") {
		t.Errorf("got %d %s", code, said)
	}
	if left := g.command(t, "", "queue", "list"); strings.Contains(left, "bench") {
		t.Errorf("its queue is left: %s", left)
	}
}
