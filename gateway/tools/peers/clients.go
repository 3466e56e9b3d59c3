package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// clients returns the load driver with the clients of NATS and RabbitMQ.
func (l *lab) clients(ctx context.Context) (string, error) {
	return l.build(ctx, "clients", "./peers/clients")
}

// build makes a program of the tools' module, once for a lab.
func (l *lab) build(ctx context.Context, name, pkg string) (string, error) {
	dir := filepath.Join(l.dir, "programs")
	program := filepath.Join(dir, name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	l.say("building %s", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, "go", "build", "-o", program, pkg)
	c.Dir = l.tools
	if out, err := c.CombinedOutput(); err != nil {
		return "", skipped(fmt.Sprintf("go build %s: %v: %s", pkg, err, out))
	}
	return program, nil
}
