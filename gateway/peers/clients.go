package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// clients returns the load driver with the clients of NATS and RabbitMQ.
func (l *lab) clients(ctx context.Context) (string, error) { return l.build(ctx, "clients", ".") }

// build makes a program of the module of other brokers' clients, once for a lab.
func (l *lab) build(ctx context.Context, name, pkg string) (string, error) {
	dir := filepath.Join(l.dir, "programs")
	program := filepath.Join(dir, name)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	l.say("building %s from %s", name, l.source)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	mod, err := copyModule(l.source, dir)
	if err != nil {
		return "", skipped(fmt.Sprintf("%v: run it in the repository's root, or with -source", err))
	}
	c := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-modfile="+mod, "-o", program, pkg)
	c.Dir = l.source
	if out, err := c.CombinedOutput(); err != nil {
		return "", skipped(fmt.Sprintf("go build %s: %v: %s", pkg, err, out))
	}
	return program, nil
}

// copyModule copies the module's go.mod and go.sum, so that a build may follow what
// the gateway's go.mod requires. It returns the path of the copy.
func copyModule(source, dir string) (string, error) {
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		root := filepath.Join(source, "../../..")
		text = []byte(strings.Replace(string(text), "=> ../../..", "=> "+root, 1))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "go.mod"), nil
}
