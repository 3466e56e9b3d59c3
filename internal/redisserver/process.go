package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Process is a running server. It ends with this process, at the latest.
type Process struct {
	cmd    *exec.Cmd
	tail   tail
	exited chan struct{}
	err    error // set before exited closes
}

// Start runs the program with the given arguments, in dir.
func Start(program, dir string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(program, args...), exited: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &p.tail, &p.tail
	p.cmd.Env = []string{"LC_ALL=C"}
	dieWithParent(p.cmd)
	started := make(chan error, 1)
	go func() {
		// The kernel ends the child with the thread that made it, so that thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return p, nil
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Kill ends the process at once, and waits until it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.exited
}

// Shutdown asks the server to end in good order, which completes its append-only file. After grace
// it kills the server.
func (p *Process) Shutdown(client *redis.Client, grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = client.ShutdownNoSave(ctx).Err() // a server that ends breaks the connection
	select {
	case <-p.exited:
	case <-ctx.Done():
		p.Kill()
	}
}

// WaitReady returns when the server answers, or the reason why it does not.
func (p *Process) WaitReady(ctx context.Context, client *redis.Client) error {
	o := client.Options()
	for {
		// The client is asked only once the server listens: its own retries are slow.
		conn, err := new(net.Dialer).DialContext(ctx, o.Network, o.Addr)
		if err == nil {
			_ = conn.Close() // it was only a probe
			err = client.Ping(ctx).Err()
		}
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("the server ended: %w: %s", errors.Join(p.err, err), p.tail.String())
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w: %s", err, p.tail.String())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Client connects to one server for commands about itself.
func Client(network, addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Network: network, Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// tail keeps the end of what a server prints.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > tailSize {
		t.buf = bytes.Clone(t.buf[len(t.buf)-tailSize:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
