package e2e

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func TestBenchBalancesItsBooks(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		for _, args := range [][]string{
			{"--messages", "500"},
			{"--messages", "300", "--fill-then-drain", "--settle", "each"},
			{"--messages", "300", "--settle", "first", "--senders", "3", "--receivers", "2", "--connections", "1", "--credit", "7"},
			{"--messages", "60", "--settle", "none", "--size", "70000"},
			{"--mode", "latency", "--rate", "500", "--duration", "1s"},
			{"--mode", "lone", "--messages", "50"},
		} {
			e.bench(queue, append([]string{"--connection-string", e.gw.connection(devPolicy, devKey, e.plain)}, args...)...)
		}
		sessions := e.queue(&admin.QueueProperties{RequiresSession: new(true)})
		e.bench(sessions, "--connection-string", e.gw.connection(devPolicy, devKey, e.plain), "--mode", "sessions", "--messages", "50")
	})
}

func TestBenchBalancesItsBooksByWebSocket(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		scheme := "ws://"
		if !e.plain {
			scheme = "wss://"
		}
		for _, args := range [][]string{
			{"--messages", "500"},
			{"--messages", "500", "--msgpack"},
			{"--messages", "300", "--fill-then-drain", "--settle", "each", "--msgpack"},
			{"--messages", "300", "--settle", "first", "--senders", "3", "--receivers", "2", "--connections", "1", "--credit", "7"},
			{"--messages", "60", "--settle", "none", "--size", "70000"},
		} {
			e.bench(queue, append([]string{"--url", scheme + devPolicy + ":" + devKey + "@" + e.gw.host}, args...)...)
		}
	})
}

// bench drives a load and checks that its books balance.
func (e *env) bench(queue string, args ...string) {
	e.Helper()
	args = append([]string{"bench", "--entity", queue, "--ca", e.gw.caFile(), "--json", "--patience", patience.String()}, args...)
	ctx, cancel := context.WithTimeout(e.Context(), 3*patience)
	defer cancel()
	c := exec.CommandContext(ctx, binary, args...)
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		e.Fatalf("%v: %v\n%s%s", args, err, said.String(), out)
	}
	var report struct {
		Acknowledged, Received, Lost, Doubled, Stale int64
		Verified                                     bool
	}
	if err := json.Unmarshal(out, &report); err != nil {
		e.Fatalf("%v: %v in %s", args, err, out)
	}
	if !report.Verified || report.Acknowledged == 0 || report.Received != report.Acknowledged || report.Lost+report.Doubled+report.Stale != 0 {
		e.Errorf("%v: got %+v", args, report)
	}
}

func TestBenchSaysWhatIsWrong(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "somebody's")
		good := e.gw.connection(devPolicy, devKey, true)
		for _, tt := range []struct {
			args []string
			want string
		}{
			{[]string{"--connection-string", good, "--entity", "no-such-queue"}, "could not be found"},
			{[]string{"--connection-string", e.gw.connection(devPolicy, "wrong", true), "--entity", queue}, "InvalidSignature"},
			{[]string{"--connection-string", e.gw.connection(sendOnly, sendOnlyKey, true), "--entity", queue}, "'Listen' claim(s)"},
			{[]string{"--url", "amqp://127.0.0.1:1", "--entity", queue}, "connection refused"},
			{[]string{"--connection-string", good, "--entity", queue}, "that this command did not send"},
		} {
			said := fails(e.T, append([]string{"bench", "--messages", "10"}, tt.args...)...)
			if !strings.Contains(said, tt.want) {
				e.Errorf("%v: got %s, want %q", tt.args, said, tt.want)
			}
		}
		seen := false
		for _, m := range e.peek(e.receiver(queue), 0, 50) {
			seen = seen || string(m.Body) == "somebody's"
		}
		if !seen {
			e.Error("bench has eaten somebody's message")
		}
	})
}
