package main

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// plainAMQP is what a client without TLS gets to see.
func plainAMQP(t *testing.T, address string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := amqp.Dial(ctx, "amqp://"+address, &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})
	if err == nil {
		_ = c.Close()
	}
	return err
}

func status(t *testing.T, client *http.Client, url string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	return a.StatusCode
}

func TestTLSIsRequired(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--require-tls")
	if text := g.stdout.String(); !strings.Contains(text, "AMQP and HTTP, over TLS only") || strings.Contains(text, "UseDevelopmentEmulator") || strings.Contains(text, "http://") {
		t.Errorf("the start-up lines suggest plain text:\n%s", text)
	}
	if err := plainAMQP(t, g.address); err == nil {
		t.Error("an AMQP client was served without TLS")
	}
	if !strings.Contains(g.stderr.String(), "connects without TLS, which this gateway requires") {
		t.Errorf("the log has %s", g.stderr)
	}
	for path, want := range map[string]int{"/orders": 426, "/": 426, "/$crosstown/ws": 426, "/$servicebus/websocket": 426, "/health": 200} {
		if got := status(t, http.DefaultClient, "http://"+g.address+path); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	if code, _, stderr := g.try(t, g.secure, "", "queue", "list"); code != exitOK {
		t.Errorf("over TLS: %s", stderr)
	}
}

// listener is one that says where it listens, and does not.
type listener struct {
	net.Listener
	address string
}

func (l listener) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(l.address))
}

// A client that comes by a public address needs TLS; one that comes by loopback does not.
func TestOtherMachinesNeedTLS(t *testing.T) {
	t.Parallel()
	for _, is := range []struct {
		require, listener, shown, connect string
		remote, local, suggestsPlain      bool
	}{
		{"auto", "127.0.0.1:5672", "plain and with TLS", "connect    Endpoint=sb://localhost:5672;", false, true, true},
		{"auto", "0.0.0.0:5672", "over TLS; plain from this machine only", "connect    Endpoint=sb://localhost:5672;", false, true, true},
		{"auto", "192.0.2.1:5672", "over TLS only", "with TLS   Endpoint=sb://192.0.2.1:5672;", false, true, false},
		{"on", "[::]:5672", "over TLS only", "with TLS   Endpoint=sb://localhost:5672;", false, false, false},
		{"off", "0.0.0.0:5672", "plain and with TLS", "warning    clients on other machines may connect without TLS", true, true, true},
		{"off", "192.0.2.1:5672", "plain and with TLS", "with TLS   Endpoint=sb://192.0.2.1:5672;", true, true, false},
	} {
		c := config.Default()
		c.RequireTLS = is.require
		if c.MayBePlain("192.0.2.7:40000") != is.remote || c.MayBePlain("127.0.0.1:40000") != is.local || c.MayBePlain("[::1]:40000") != is.local {
			t.Errorf("require-tls %s: other clients may be plain %t, local ones %t", is.require, c.MayBePlain("192.0.2.7:40000"), c.MayBePlain("127.0.0.1:40000"))
		}
		a := announcement{server: &server{c: c, listeners: []net.Listener{listener{address: is.listener}}, certificate: &certificate{}}}
		text := a.text()
		if !strings.Contains(text, "AMQP and HTTP, "+is.shown+"\n") || !strings.Contains(text, is.connect) {
			t.Errorf("require-tls %s at %s:\n%s", is.require, is.listener, text)
		}
		if plain := strings.Contains(text, "UseDevelopmentEmulator") || strings.Contains(text, "http://"); plain != is.suggestsPlain {
			t.Errorf("require-tls %s at %s suggests plain text: %t\n%s", is.require, is.listener, plain, text)
		}
	}
}

func TestTheEmulatorSaysHowToHaveTheConsole(t *testing.T) {
	t.Parallel()
	for _, is := range []struct {
		args []string
		want string
	}{
		{[]string{"--emulator"}, "console    off, because other machines may connect (CROSSTOWN_CONSOLE=on turns the console on)\n"},
		{[]string{"--emulator", "--console", "on"}, "console    http"},
	} {
		g := startGateway(t, append([]string{"--store=memory", "--listen=0.0.0.0:0"}, is.args...)...)
		if text := g.stdout.String(); !strings.Contains(text, is.want) {
			t.Errorf("%v: lacks %q:\n%s", is.args, is.want, text)
		}
		g.halt(t)
	}
}

// The gateway makes a key for a policy without one, prints it once, and keeps it.
func TestTheGatewayMakesAKey(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--policy=RootManageSharedAccessKey:Send,Listen,Manage")
	made := regexp.MustCompile(`new key +of policy RootManageSharedAccessKey: (\S+)\n +\(the key is stored in (\S+), and not printed again\)`).FindStringSubmatch(g.stdout.String())
	if made == nil {
		t.Fatalf("no key in\n%s", g.stdout)
	}
	if kept, err := os.ReadFile(made[2]); err != nil || strings.TrimSpace(string(kept)) != made[1] || !strings.HasPrefix(made[2], filepath.Join(g.data, "keys")) {
		t.Errorf("%s has %q, %v; printed %s", made[2], kept, err, made[1])
	}
	use := func() {
		t.Helper()
		connection := strings.ReplaceAll(g.connection, "<key of RootManageSharedAccessKey>", made[1])
		if code, _, stderr := g.try(t, connection, "", "queue", "list"); code != exitOK {
			t.Errorf("with the key: %s", stderr)
		}
	}
	use()
	if strings.Contains(g.stderr.String(), made[1]) {
		t.Error("the log has the key")
	}
	g.halt(t)
	g.start(t, "--store=memory", "--policy=RootManageSharedAccessKey:Send,Listen,Manage")
	if strings.Contains(g.stdout.String(), made[1]) {
		t.Error("the key is printed at the second start, too")
	}
	use()
}
