package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asProgram makes the test binary behave as the program.
const asProgram = "BE_CROSSTOWN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program is the program in a process of its own.
type program struct {
	command *exec.Cmd
	address string
	log     *bufio.Reader
}

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	p := &program{command: exec.CommandContext(ctx, executable, append([]string{"--listen", "127.0.0.1:0", "--store", "memory", "--data", t.TempDir()}, args...)...)}
	p.command.Env = append(os.Environ(), asProgram+"=1")
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := p.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.log = bufio.NewReader(stderr)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.command.Process.Kill() })
	for lines := bufio.NewScanner(stdout); lines.Scan() && !readyLine.MatchString(lines.Text()); {
		if m := addressLine.FindStringSubmatch(lines.Text()); m != nil {
			p.address = m[1]
		}
	}
	if p.address == "" {
		t.Fatal("the program did not become ready")
	}
	return p
}

// until reads the log up to a line with text.
func (p *program) until(t *testing.T, text string) {
	t.Helper()
	p.line(t, text)
}

// line reads the log up to a line with text, and returns it.
func (p *program) line(t *testing.T, text string) string {
	t.Helper()
	for {
		line, err := p.log.ReadString('\n')
		if strings.Contains(line, text) {
			return line
		}
		if err != nil {
			t.Fatalf("waiting for %q: %v", text, err)
		}
	}
}

func (p *program) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exitCode reads the rest of the log and waits for the end.
func (p *program) exitCode() int {
	_, _ = io.Copy(io.Discard, p.log)
	_ = p.command.Wait()
	return p.command.ProcessState.ExitCode()
}

func TestASignalStopsInOrder(t *testing.T) {
	t.Parallel()
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := startProgram(t)
		p.signal(t, s)
		if code := p.exitCode(); code != exitOK {
			t.Errorf("%v: got exit code %d, want %d", s, code, exitOK)
		}
	}
}

func TestASecondSignalLeavesAtOnce(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "--drain-timeout=10m", "--config=../configs/crosstown.yaml")
	// A request whose body does not end keeps the drain waiting.
	body, _ := halfPost(t, p.address, "orders")
	defer func() { _ = body.Close() }()
	p.signal(t, syscall.SIGTERM)
	p.until(t, "stopping")
	began := time.Now()
	p.signal(t, syscall.SIGTERM)
	p.until(t, "exiting at once")
	if code := p.exitCode(); code != exitFailure || time.Since(began) > patience {
		t.Errorf("got exit code %d after %v, want %d at once", code, time.Since(began), exitFailure)
	}
}
