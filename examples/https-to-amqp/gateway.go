package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// gateway is a running gateway and what its start-up lines say of it.
type gateway struct {
	command    *exec.Cmd
	connection string // with TLS
	ca         string // file of the development CA
	store      string
}

// start runs a gateway on its embedded default and waits until it is ready.
func start(binary, data string) (*gateway, error) {
	g := &gateway{command: exec.Command(binary, "--listen", "127.0.0.1:0", "--data", data, "--log-level", "warn")}
	g.command.Stderr = os.Stderr
	stdout, err := g.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.command.Start(); err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		label, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), "  ")
		value = strings.TrimSpace(value)
		switch label {
		case "with TLS":
			g.connection = value
		case "trust":
			g.ca = value
		case "store":
			g.store = value
		case "health": // the last line
			return g, nil
		}
	}
	return nil, errors.Join(errors.New("the gateway did not become ready"), g.command.Wait())
}

// stop ends the gateway in good order.
func (g *gateway) stop() error {
	if err := g.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return g.command.Wait()
}
