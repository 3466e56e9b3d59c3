package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that a lab runs; what it prints goes to a file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closes when it has ended
}

// launch starts a program in a directory, with further environment variables.
func launch(dir, name string, environ []string, program string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(program, args...), log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the process has its own
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.Env = append(os.Environ(), environ...)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how a broker ends is in its log
		close(p.done)
	}()
	return p, nil
}

// await returns when ready does not fail any more.
func (p *process) await(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %s", filepath.Base(p.cmd.Path), p.said())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", filepath.Base(p.cmd.Path), err, p.said())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// prints waits for a line that begins with a text, and returns all output so far.
func (p *process) prints(ctx context.Context, text string) (out string, err error) {
	err = p.await(ctx, func() error {
		b, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		at := bytes.Index(b, []byte(text))
		if at < 0 || !bytes.Contains(b[at:], []byte("\n")) {
			return fmt.Errorf("it has not printed %q", strings.TrimSpace(text))
		}
		out = string(b)
		return nil
	})
	return out, err
}

// said returns the end of the output.
func (p *process) said() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b[max(0, len(b)-1000):]))
}

// stopTimeout bounds how long a process may take to end in good order.
const stopTimeout = 20 * time.Second

// stop ends a process and the processes that it started.
func (p *process) stop() {
	all, _ := family(p.cmd.Process.Pid) // without /proc only the process itself ends
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timeout := time.After(stopTimeout)
	select {
	case <-p.done:
	case <-timeout:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	for _, member := range all {
		if now, err := member.stat(); err != nil || now.name != member.name {
			continue // it has ended with its parent
		}
		_ = syscall.Kill(member.pid, syscall.SIGKILL)
	}
}

// member is a process of a family.
type member struct {
	name        string
	pid, parent int
}

// family returns a process and all its descendants that run.
func family(root int) ([]member, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]member{}
	var all []member
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // no process
		}
		m, err := member{pid: pid}.stat()
		if err != nil {
			continue // it has ended meanwhile
		}
		if pid == root {
			all = append(all, m)
		}
		children[m.parent] = append(children[m.parent], m)
	}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i].pid]...)
	}
	return all, nil
}

// stat reads a process's name and parent from /proc; proc(5) has the fields.
func (m member) stat() (member, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.pid))
	if err != nil {
		return m, err
	}
	// The name is in parentheses, and may hold anything.
	from, to := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if from < 0 || to < from {
		return m, errors.New("not a process status")
	}
	m.name = string(b[from+1 : to])
	_, err = fmt.Sscanf(string(b[to+1:]), " %s %d", new(string), &m.parent)
	return m, err
}
