package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// invoke runs a command line that is expected to end by itself.
func invoke(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, problems := newOutput(), newOutput()
	code = run(ctx, args, strings.NewReader(""), out, problems, environ)
	if ctx.Err() != nil {
		t.Fatalf("crosstown %s did not end by itself:\n%s%s", strings.Join(args, " "), out, problems)
	}
	return code, out.String(), problems.String()
}

func TestStartUpSaysWhatANewcomerNeeds(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "serve", "--store=memory")
	_, port, _ := net.SplitHostPort(g.address)
	for _, want := range []string{
		"namespace sbemulatorns\n",
		"listening  127.0.0.1:" + port + "  AMQP and HTTP, plain and with TLS\n",
		"store      memory, ", "messages are lost at a restart\n",
		"connect    Endpoint=sb://localhost:" + port + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true\n",
		"with TLS   Endpoint=sb://localhost:" + port + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE\n",
		"trust      " + filepath.Join(g.data, "ca.pem") + "\n", "crosstown ca", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
		"health     http://localhost:" + port + "/health\n",
	} {
		if !strings.Contains(g.stdout.String(), want) {
			t.Errorf("lacks %q:\n%s", want, g.stdout)
		}
	}
	if code, body := g.get(t, "/health"); code != http.StatusOK || !strings.Contains(body, `"healthy"`) {
		t.Errorf("health: got %d %s", code, body)
	}
}

func TestAKeyOfTheUsersOwnIsNotPrinted(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--policy=RootManageSharedAccessKey=secret:Manage", "--log-level=debug")
	if all := g.stdout.String() + g.stderr.String(); strings.Contains(all, "secret") || !strings.Contains(all, "SharedAccessKey=<key of RootManageSharedAccessKey>") {
		t.Errorf("got:\n%s", all)
	}
	connection := fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=secret;UseDevelopmentEmulator=true", g.address)
	if code, _, stderr := g.try(t, connection, "", "queue", "list"); code != exitOK {
		t.Errorf("the user's key does not open the gateway: %s", stderr)
	}
}

func TestEveryConfigurationProblemIsReportedAndTheExitCodeIsUsage(t *testing.T) {
	t.Parallel()
	code, _, stderr := invoke(t, []string{"CROSSTOWN_STORE=disk"}, "--data="+t.TempDir(), "--listen=0.0.0.0:5672", "--log-level=loud")
	if code != exitUsage {
		t.Errorf("exit code: got %d, want %d", code, exitUsage)
	}
	for _, want := range []string{"CROSSTOWN_STORE: ", "--listen: ", "--dev-key-anywhere", "--log-level: "} {
		if !strings.Contains(stderr, want) {
			t.Errorf("lacks %q:\n%s", want, stderr)
		}
	}
}

func TestAPortInUseIsNamed(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	code, _, stderr := invoke(t, nil, "--store=memory", "--data="+t.TempDir(), "--listen="+g.address)
	_, port, _ := net.SplitHostPort(g.address)
	if code != exitFailure || !strings.Contains(stderr, "port "+port+" is in use") || !strings.Contains(stderr, "--listen") {
		t.Errorf("got %d:\n%s", code, stderr)
	}
}

func TestAnUnreachableRedisIsNamedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	code, _, stderr := invoke(t, nil, "--data="+t.TempDir(), "--listen=127.0.0.1:0", "--store=redis://user:secret@127.0.0.1:"+port, "--store-wait=0s")
	if code != exitFailure || !strings.Contains(stderr, "127.0.0.1:"+port) || !strings.Contains(stderr, "--store") || strings.Contains(stderr, "secret") {
		t.Errorf("got %d:\n%s", code, stderr)
	}
}

func TestACertificateThatCannotBeLoadedIsNamed(t *testing.T) {
	t.Parallel()
	code, _, stderr := invoke(t, nil, "--data="+t.TempDir(), "--listen=127.0.0.1:0", "--store=memory", "--tls-cert=/none/cert.pem", "--tls-key=/none/key.pem")
	if code != exitFailure || !strings.Contains(stderr, "/none/cert.pem") || !strings.Contains(stderr, "PEM") {
		t.Errorf("got %d:\n%s", code, stderr)
	}
}

func TestDeclaredQueuesExistAndAreKeptAsTheyAre(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config=../configs/crosstown.yaml")
	list := g.command(t, "", "queue", "list")
	c, err := config.Load(nil, []string{"CROSSTOWN_CONFIG=../configs/crosstown.yaml", "HOME=/"})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Queues) == 0 {
		t.Fatal("the sample declares no queue")
	}
	for _, q := range c.Queues {
		if !strings.Contains(list, q.Name) {
			t.Errorf("queue %s is missing:\n%s", q.Name, list)
		}
	}
}

func TestEverySampleLoads(t *testing.T) {
	t.Parallel()
	samples, err := os.ReadDir("../configs")
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) < 2 {
		t.Fatalf("samples: got %v", samples)
	}
	for _, sample := range samples {
		if sample.IsDir() { // what other programs read
			continue
		}
		path := filepath.Join("../configs", sample.Name())
		variable := "CROSSTOWN_CONFIG="
		if filepath.Ext(path) == ".json" {
			variable = "CROSSTOWN_EMULATOR_CONFIG="
		}
		if _, err := config.Load(nil, []string{variable + path, "HOME=/home/somebody"}); err != nil {
			t.Errorf("%s:\n%v", path, err)
		}
	}
}

func TestTheEmulatorsEntitiesAreCreated(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--emulator-config=../configs/emulator-config.json")
	for _, c := range []struct{ command, want string }{
		{"queue list", "queue.1"},
		{"queue show session-queue", "RequiresSession                      true"},
		{"topic show topic.1", "PT1H"},
		{"subscription show topic.1 subscription.1", "MaxDeliveryCount                           3"},
		{"rule list topic.1 subscription.1 --json", `{"name":"app-prop-filter-1","filter":"correlation","correlation":{"content-type":"application/json"}}` + "\n"},
		{"rule list topic.1 subscription.2", "SET sys.To = 'Entity'"},
	} {
		if got := g.command(t, "", strings.Fields(c.command)...); !strings.Contains(got, c.want) {
			t.Errorf("%s: got\n%s\nwant %s", c.command, got, c.want)
		}
	}
	if log := g.stderr.String(); strings.Contains(log, "skipped") {
		t.Errorf("something was skipped:\n%s", log)
	}
}

// Configured entities may forward to each other in any order, and in circles.
func TestDeclaredEntitiesForwardToEachOther(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(`
queues:
  - {name: intake, forward-to: events}
  - {name: ring-a, forward-to: ring-b}
  - {name: ring-b, forward-to: ring-a, forward-dead-lettered-messages-to: graves}
  - {name: graves}
topics:
  - name: events
    subscriptions:
      - name: large
        forward-to: graves
        rules:
          - {name: one, sql: size = 1}
          - {name: two, sql: size = 2, action: SET size = 3}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, "--store=memory", "--config="+file)
	for _, c := range []struct{ command, want string }{
		{"queue show intake", "/events"},
		{"queue show ring-a", "/ring-b"},
		{"queue show ring-b", "/ring-a"},
		{"queue show ring-b", "/graves"},
		{"subscription show events large", "/graves"},
		{"rule list events large", "two   size = 2  SET size = 3"},
	} {
		if got := g.command(t, "", strings.Fields(c.command)...); !strings.Contains(got, c.want) {
			t.Errorf("%s: got\n%s\nwant %s", c.command, got, c.want)
		}
	}
}

func TestDrainingFinishesWhatIsInFlightAndLetsNobodyIn(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	g.command(t, "", "queue", "create", "q")
	bodyEnd, answer := halfPost(t, g.address, "q")
	g.stop()
	for accepts(g.address) { // until draining has begun
		runtime.Gosched()
	}
	if _, err := io.WriteString(bodyEnd, "in flight"); err != nil {
		t.Fatal(err)
	}
	_ = bodyEnd.Close()
	if got := within(t, "the answer", answer); got != "201 Created" {
		t.Errorf("the request in flight: got %s, want 201 Created", got)
	}
	g.halt(t)
}

// halfPost posts a message up to its body, and returns when the gateway waits
// for that. The answer comes once the body was written and closed.
func halfPost(t *testing.T, address, queue string) (body *io.PipeWriter, answer <-chan string) {
	t.Helper()
	reading := make(chan struct{})
	trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(reading) }})
	bodyRead, body := io.Pipe()
	url := "http://" + address + "/" + queue
	req, err := http.NewRequestWithContext(trace, http.MethodPost, url+"/messages", bodyRead)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Expect", "100-continue")
	req.Header.Set("Authorization", auth.SignSAS(url, config.DevPolicy, config.DevKey, time.Now().Add(time.Hour)))
	answered := make(chan string, 1)
	go func() {
		resp, err := (&http.Transport{ExpectContinueTimeout: patience}).RoundTrip(req)
		if err != nil {
			answered <- err.Error()
			return
		}
		_ = resp.Body.Close()
		answered <- resp.Status
	}()
	within(t, "the gateway to read the request", reading)
	return body, answered
}

// accepts reports whether somebody listens at address.
func accepts(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// within receives from c, or fails the test when nothing comes.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited too long for %s", what)
		panic("unreachable")
	}
}

func TestCAPrintsTheSameCertificateThatTheGatewayUses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, before, stderr := invoke(t, nil, "ca", "--data", dir)
	if block, _ := pem.Decode([]byte(before)); code != exitOK || block == nil || block.Type != "CERTIFICATE" {
		t.Fatalf("got %d: %s%s", code, before, stderr)
	}
	g := &gateway{data: dir}
	g.start(t, "--store=memory")
	if _, after, _ := invoke(t, []string{"CROSSTOWN_DATA=" + dir}, "ca"); after != before {
		t.Error("the gateway uses another CA")
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, stdout, _ := invoke(t, nil, "version")
	if code != exitOK || !strings.HasPrefix(stdout, "crosstown ") {
		t.Errorf("got %d %q", code, stdout)
	}
	if code, same, _ := invoke(t, nil, "--version"); code != exitOK || same != stdout {
		t.Errorf("--version: got %d %q, want %q", code, same, stdout)
	}
}

func TestHelpListsEveryCommand(t *testing.T) {
	t.Parallel()
	_, stdout, _ := invoke(t, nil, "--help")
	for _, command := range []string{"serve", "ca", "version", "send", "receive", "peek", "queue", "bench"} {
		if !strings.Contains(stdout, "\n  "+command+" ") {
			t.Errorf("help lacks %s:\n%s", command, stdout)
		}
	}
	if strings.Contains(stdout, "--listen") {
		t.Errorf("the gateway's flags hide the commands:\n%s", stdout)
	}
	for _, c := range rootCommand(nil).Commands() {
		if c.GroupID == "" {
			t.Errorf("%s is in no group of the help: see Commands of gateway/cli", c.Name())
		}
	}
}

// The default store keeps messages in the data directory, over a restart in order and over a kill.
func TestMessagesSurviveARestart(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	if !strings.Contains(g.stdout.String(), "store      file, "+filepath.Join(g.data, "messages")+", synced every 100ms: messages survive a restart") {
		t.Errorf("start-up lines:\n%s", g.stdout)
	}
	g.command(t, "", "queue", "create", "kept")
	g.command(t, "", "send", "kept", "m", "--count=100")
	g.halt(t)
	g.start(t, "--sync=always")
	if !strings.Contains(g.stdout.String(), "synced before each acknowledgement") {
		t.Errorf("start-up lines:\n%s", g.stdout)
	}
	if got := strings.Count(g.command(t, "", "receive", "kept", "--count=0", "--wait=5s"), "\nm\n"); got != 100 {
		t.Errorf("after the restart: got %d messages, want 100", got)
	}
}

// A second gateway does not start on the same directory, and says what to do.
func TestADirectoryBelongsToOneGateway(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	code, _, stderr := invoke(t, nil, "--listen=127.0.0.1:0", "--data="+g.data)
	if code != exitFailure || !strings.Contains(stderr, "is in use by another gateway") || !strings.Contains(stderr, "another directory") {
		t.Errorf("got %d\n%s", code, stderr)
	}
	code, _, stderr = invoke(t, []string{"CROSSTOWN_DATA=" + g.data}, "backup", filepath.Join(t.TempDir(), "b"))
	if code != exitFailure || !strings.Contains(stderr, "is in use by another gateway") || !strings.Contains(stderr, "to back up a running gateway, use --connection-string STRING or --context NAME") {
		t.Errorf("a backup: got %d\n%s", code, stderr)
	}
}

// A directory that cannot hold the store is refused with what to do about it.
func TestABadDirectoryIsRefusedWithARemedy(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--data=" + file}, file},
		{[]string{"--sync=sometimes"}, "use always, interval or never"},
		{[]string{"--store=memory", "--sync=always"}, "leave out sync, or use --store file"},
		{[]string{"--store=memory", "--repair"}, "repair is not allowed"},
	} {
		code, _, stderr := invoke(t, nil, append([]string{"--listen=127.0.0.1:0"}, tt.args...)...)
		if code == exitOK || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: got %d\n%s", tt.args, code, stderr)
		}
	}
}
