package redisserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Process is a running server. It ends with this process at the latest.
type Process struct {
	cmd    *exec.Cmd
	tail   tail
	exited chan struct{}
	err    error // set before exited is closed
}

func Start(program, dir string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(program, args...), exited: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &p.tail, &p.tail
	p.cmd.Env = []string{"LC_ALL=C"}
	dieWithParent(p.cmd)
	started := make(chan error, 1)
	go func() {
		// The child ends with the thread that started it, so the thread must remain.
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
		return nil, fmt.Errorf("cannot start %s: %w", program, err)
	}
	return p, nil
}

func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
}

// WaitReady waits until the server answers. If the server or ctx ends first, the error says why.
func (p *Process) WaitReady(ctx context.Context, client *redis.Client) error {
	o := client.Options()
	for {
		// The client connects only after the server listens, because its own retries are slow.
		conn, err := new(net.Dialer).DialContext(ctx, o.Network, o.Addr)
		if err == nil {
			_ = conn.Close() // only a probe
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

// stop ends the server and removes its data.
func Serve(ctx context.Context) (url string, stop func(), err error) {
	program, ok := Find()
	if !ok {
		return "", nil, errors.New("no redis-server or valkey-server of version 7 or newer is on the PATH: install one")
	}
	dir, err := os.MkdirTemp("", "ct-redis-")
	if err != nil {
		return "", nil, err
	}
	socket := filepath.Join(dir, "s")
	p, err := Start(program, dir, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "everysec")
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop = func() {
		p.Kill()
		_ = os.RemoveAll(dir)
	}
	client := Client("unix", socket)
	defer func() { _ = client.Close() }()
	if err := p.WaitReady(ctx, client); err != nil {
		stop()
		return "", nil, err
	}
	return "unix://" + socket, stop, nil
}

func Client(network, addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Network: network, Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

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
