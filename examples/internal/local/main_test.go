//go:build unix

package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// variable makes this test's program an example, which waits to be ended.
const variable = "EXAMPLE_TO_BE_ENDED"

func TestMain(m *testing.M) {
	if os.Getenv(variable) == "" {
		os.Exit(m.Run())
	}
	Main("example", func(ctx context.Context, _ string, out io.Writer) error {
		_, _ = fmt.Fprintln(out, "begun")
		<-ctx.Done()
		_, _ = fmt.Fprintln(out, "cleaned up")
		return errors.New("the story was not told to its end")
	})
}

func TestExamplesStopCleanlyOnASignal(t *testing.T) {
	t.Parallel()
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			example := exec.Command(os.Args[0])
			example.Env = append(os.Environ(), variable+"=1")
			stdout, err := example.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := example.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			lines.Scan()
			if err := example.Process.Signal(s); err != nil {
				t.Error(err)
			}
			lines.Scan()
			if got := lines.Text(); got != "cleaned up" {
				t.Errorf("last line: got %q, want that it has cleaned up", got)
			}
			if err := example.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}
