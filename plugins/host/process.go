package host

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const maxHandshake = 8 << 10 // bytes of the line in which a plugin says where it listens

// process is a plugin's process and its children: one process group. It implements go-plugin's
// runner. It keeps the plugin's output from go-plugin, because some lines make go-plugin panic.
type process struct {
	out *output
	cmd *exec.Cmd // set before Start

	toHandshake *io.PipeWriter // takes the first line of the output
	handshake   *io.PipeReader

	exited chan struct{} // closed when the process has ended and its output is read
	err    error         // how the process ended; read err, ended and failed only after exited is closed
	ended  string
	failed bool // the process ended by itself with a status other than 0

	pid atomic.Int64 // 0: not started

	mu     sync.Mutex
	killed bool   // the process must not start any more
	said   string // first line of the output
}

func newProcess(out *output) *process {
	p := &process{out: out, exited: make(chan struct{})}
	p.handshake, p.toHandshake = io.Pipe()
	return p
}

func (p *process) Start(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return context.Canceled
	}
	var ours, theirs [2]*os.File // standard output and standard error
	for i := range ours {
		var err error
		if ours[i], theirs[i], err = os.Pipe(); err != nil {
			closeFiles(ours[:i]...)
			closeFiles(theirs[:i]...)
			return err
		}
	}
	cmd := p.cmd
	isolate(cmd)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, theirs[0], theirs[1]
	err := cmd.Start()
	closeFiles(theirs[:]...)
	if err != nil {
		closeFiles(ours[:]...)
		return err
	}
	p.pid.Store(int64(cmd.Process.Pid))
	var read sync.WaitGroup
	read.Go(func() { p.followStdout(ours[0]) })
	read.Go(func() { p.out.follow(ours[1]) })
	go func() {
		defer close(p.exited)
		p.err = cmd.Wait()
		p.ended, p.failed = cmd.ProcessState.String(), cmd.ProcessState.ExitCode() > 0
		p.signal(killSignal) // kill the children that the process left behind
		// A daemon that has left the process group may keep the pipes open: close them after a second.
		timer := time.AfterFunc(time.Second, func() { closeFiles(ours[:]...) })
		read.Wait()
		timer.Stop()
		closeFiles(ours[:]...)
	}()
	return nil
}

func (p *process) started() bool { return p.pid.Load() != 0 }

func (p *process) signal(s syscall.Signal) {
	select {
	case <-p.exited:
	default:
		if p.started() {
			signalGroup(int(p.pid.Load()), s)
		}
	}
}

// followStdout passes only the first line to handshake. The log gets the others.
func (p *process) followStdout(r io.Reader) {
	b := bufio.NewReaderSize(r, maxHandshake)
	line, err := b.ReadSlice('\n')
	p.mu.Lock()
	p.said = strings.TrimSpace(string(line))
	p.mu.Unlock()
	_, _ = p.toHandshake.Write(line) // the reader may be closed
	_ = p.toHandshake.Close()
	if err == nil || errors.Is(err, bufio.ErrBufferFull) {
		p.out.follow(b)
	}
}

func (p *process) firstLine() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

func (p *process) Wait(context.Context) error {
	<-p.exited
	return p.err
}

func (p *process) Kill(context.Context) error {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	p.signal(killSignal)
	_ = p.handshake.Close() // nothing reads it any more
	return nil
}

func (p *process) stop(grace time.Duration) {
	if !p.started() {
		return
	}
	p.signal(termSignal)
	select {
	case <-p.exited:
	case <-time.After(grace):
		_ = p.Kill(context.Background())
		<-p.exited
	}
}

// Stdout returns a reader of the first line of output only.
func (p *process) Stdout() io.ReadCloser { return p.handshake }

func (p *process) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

func (p *process) Name() string { return p.cmd.Path }

// ID returns the process id, or "" before the start.
func (p *process) ID() string {
	if !p.started() {
		return ""
	}
	return strconv.FormatInt(p.pid.Load(), 10)
}

// Diagnose returns nothing: output logs what the process writes.
func (p *process) Diagnose(context.Context) string { return "" }

// PluginToHost returns the address unchanged, because plugin and gateway are on one machine.
func (p *process) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

func (p *process) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		_ = f.Close() // closing twice is harmless
	}
}
