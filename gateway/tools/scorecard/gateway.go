package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/internal/redisserver"
)

// The policies that the SDK's deployment script makes, with keys for the run.
const (
	rootPolicy = "RootManageSharedAccessKey"
	rootKey    = "SAS_KEY_VALUE"
	otherKey   = "ScorecardKeyOfNoValue"
)

var otherPolicies = map[string]string{"NoManage": "Send,Listen", "SendOnly": "Send", "ListenOnly": "Listen"}

// gateway is a running gateway.
type gateway struct {
	about   string // its store
	version string
	host    string // localhost:port, for everything
	ca      string
	managed []string // environment of a managed identity
	network *network
	process *exec.Cmd
	done    chan error

	endStore func() // ends a store that is a process of its own
}

// startGateway runs a gateway in a network and creates the queues that the Go SDK's deployment
// script creates.
func startGateway(ctx context.Context, n *network, binary, store, dir string, v variant) (_ *gateway, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	endStore := func() {}
	if store == "redis" {
		if store, endStore, err = redisserver.Serve(ctx); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			endStore()
		}
	}()
	listen := []string{"127.0.0.1:0"}
	if v.ports {
		listen = []string{"127.0.0.1:5671", "127.0.0.1:5672", "127.0.0.1:443", "127.0.0.1:80"}
	}
	args := []string{"--tls-hosts", namespaceHost, "--store", store, "--data", dir, "--dev-identity", "--dev-identity-listen", "127.0.0.1:0", "--log-level", "error"}
	for _, address := range listen {
		args = append(args, "--listen", address)
	}
	for name, rights := range otherPolicies {
		args = append(args, "--policy", name+"="+otherKey+":"+rights)
	}
	// It is stopped by a signal, not by the end of ctx.
	g := &gateway{network: n, process: n.command(context.WithoutCancel(ctx), binary, append(args, v.flags...)...), endStore: endStore, done: make(chan error, 1)}
	g.process.Stderr = os.Stderr
	out, err := g.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.process.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for g.host == "" && lines.Scan() {
		label, text, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		switch text = strings.TrimSpace(text); label {
		case "Crosstown":
			g.version, _, _ = strings.Cut(text, ",")
		case "store":
			g.about, _, _ = strings.Cut(text, " at ")
			g.about, _, _ = strings.Cut(g.about, ":")
			g.about = strings.TrimSuffix(g.about, ", in this process")
			if strings.HasPrefix(g.about, "file,") { // its directory is of this run only
				g.about = "file"
			}
		case "trust":
			g.ca = text
		case "identity":
			g.managed = strings.Fields(text)
		case "health": // the last line
			g.host = strings.TrimSuffix(strings.TrimPrefix(text, "http://"), "/health")
		}
	}
	if v.ports && g.host != "" {
		g.host = namespaceHost
	}
	go func() { g.done <- g.process.Wait() }()
	if g.host == "" {
		return nil, errors.Join(fmt.Errorf("the gateway with store %s did not start", store), g.stop())
	}
	for _, queue := range [][]string{{"testQueue"}, {"testQueueWithSessions", "--requires-session"}} {
		create := n.command(ctx, binary, append([]string{"queue", "create", "--lock-duration", "5m", "--connection-string", g.plain()}, queue...)...)
		if out, err := create.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "scorecard: queue %s: %s", queue[0], out) // the tests that need it will fail
		}
	}
	return g, nil
}

// command is exec.CommandContext where the gateway can be reached.
func (g *gateway) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return g.network.command(ctx, name, args...)
}

// stop ends the gateway, and fails if it did not end well.
func (g *gateway) stop() error {
	defer g.endStore()
	_ = g.process.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case err := <-g.done:
		return err
	case <-time.After(time.Minute):
		return errors.Join(errors.New("the gateway did not stop"), g.process.Process.Kill())
	}
}

func (g *gateway) connection(policy, key string) string {
	return "Endpoint=sb://" + g.host + "/;SharedAccessKeyName=" + policy + ";SharedAccessKey=" + key
}

func (g *gateway) plain() string {
	return g.connection(rootPolicy, rootKey) + ";UseDevelopmentEmulator=true"
}

// token is a signature with all rights.
func (g *gateway) token() string {
	return auth.SignSAS("sb://"+g.host+"/", rootPolicy, rootKey, time.Now().Add(24*time.Hour))
}

// environment has the variables that the suites read, in addition to the inherited ones that they
// need. One namespace serves as both the Standard and the Premium namespace of the suites.
func (g *gateway) environment() []string {
	env := append(inherited(),
		"SSL_CERT_FILE="+g.ca,
		"AZURE_RECORD_MODE=live",
		"AZURE_TOKEN_CREDENTIALS=ManagedIdentityCredential",
		"SERVICEBUS_ENDPOINT="+g.host,
		"SERVICEBUS_ENDPOINT_PREMIUM="+g.host,
		"SERVICEBUS_CONNECTION_STRING="+g.connection(rootPolicy, rootKey),
		"SERVICEBUS_CONNECTION_STRING_PREMIUM="+g.connection(rootPolicy, rootKey),
		"SERVICEBUS_CONNECTION_STRING_NO_MANAGE="+g.connection("NoManage", otherKey),
		"SERVICEBUS_CONNECTION_STRING_SEND_ONLY="+g.connection("SendOnly", otherKey),
		"SERVICEBUS_CONNECTION_STRING_LISTEN_ONLY="+g.connection("ListenOnly", otherKey),
		"AMQP_BROKER_ADDR=amqp://"+rootPolicy+":"+rootKey+"@"+g.host,
		manageVariable+"=http://"+g.host+"/",
		tokenVariable+"="+g.token(),
	)
	return append(env, g.managed...)
}

// inherited is the environment without what would lead the SDK elsewhere.
func inherited() []string {
	env := []string{"TEST_CORPUS=1"} // go-amqp: run those tests too
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "AZURE_") || strings.HasPrefix(name, "SERVICEBUS_") || strings.HasPrefix(name, "CROSSTOWN_") {
			continue
		}
		env = append(env, entry)
	}
	return env
}
