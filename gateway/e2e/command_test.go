package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// crosstown runs the binary against the env's gateway and wants it to succeed.
func (e *env) crosstown(args ...string) string {
	e.Helper()
	args = append(args, "--connection-string", e.connection(), "--ca", e.gw.caFile())
	c := exec.CommandContext(e.ctx(), binary, args...)
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		e.Fatalf("crosstown %v: %v\n%s%s", args, err, said.String(), out)
	}
	return string(out)
}

func TestTheCommandLineHasAQuickLook(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.name()
		e.crosstown("queue", "create", queue, "--max-delivery-count", "4")
		e.crosstown("send", queue, "hello", "--property", "region=eu", "--subject", "greeting")
		if out := e.crosstown("peek", queue); !strings.Contains(out, "hello") {
			e.Errorf("peek: got %s", out)
		}
		if out := e.crosstown("queue", "show", queue); !strings.Contains(out, "4") {
			e.Errorf("queue show: got %s", out)
		}
		if out := e.crosstown("queue", "list"); !strings.Contains(out, queue) {
			e.Errorf("queue list: got %s", out)
		}
		out := e.crosstown("receive", queue, "--json")
		if !json.Valid([]byte(out)) || !strings.Contains(out, "hello") || !strings.Contains(out, "region") || !strings.Contains(out, "greeting") {
			e.Errorf("receive --json: got %s", out)
		}
		if c := e.runtime(queue); c.TotalMessageCount != 0 {
			e.Errorf("receive left %d messages", c.TotalMessageCount)
		}
		e.crosstown("queue", "delete", queue)
		if got, err := e.admin().GetQueue(e.ctx(), queue, nil); err != nil || got != nil {
			e.Errorf("after queue delete: got %v, error %v", got, err)
		}
	})
}

// A batch has at most 1 MB, a single message as much as the entity allows.
func TestTheCommandLineSendsALargeFileAsOneMessage(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{MaxMessageSizeInKilobytes: new(int64(20 << 10))})
		file := filepath.Join(e.TempDir(), "large")
		body := bytes.Repeat([]byte("large file "), 1<<18) // 2.9 MB
		if err := os.WriteFile(file, body, 0o600); err != nil {
			e.Fatal(err)
		}
		out := e.crosstown("send", queue, "--file", file)
		out += e.crosstown("send", queue, "--file", file, "--schedule", "1ms")
		if strings.Count(out, "sent 1 message to") != 2 {
			e.Errorf("send: got %s", out)
		}
		for _, m := range e.take(e.receiver(queue), 2) {
			if !bytes.Equal(m.Body, body) {
				e.Errorf("received a body of %d bytes, want the file's %d", len(m.Body), len(body))
			}
		}
	})
}

// The engines lock dead letters by number: those in the middle are brought back, the others stay.
func TestTheCommandLineBringsDeadLettersBack(t *testing.T) {
	tell(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{EnablePartitioning: new(true)})
		for i := range 9 {
			e.crosstown("send", queue, strconv.Itoa(i), "--property", "n="+strconv.Itoa(i), "--partition-key", strconv.Itoa(i%3))
		}
		e.crosstown("receive", queue, "--count=9", "--dead-letter", "--reason=wrong")
		if out := e.crosstown("deadletter", "list", queue, "--where", "DeadLetterReason = 'wrong' AND n > 2"); strings.Count(out, "wrong") != 6 {
			e.Errorf("list: got %s", out)
		}
		if out := e.crosstown("deadletter", "resubmit", queue, "--where", "n >= 3 AND n < 6"); !strings.HasPrefix(out, "resubmitted 3 messages") {
			e.Errorf("resubmit: got %s", out)
		}
		for _, m := range e.take(e.receiver(queue), 3) {
			if n, ok := m.ApplicationProperties["n"].(int64); !ok || n < 3 || n > 5 || m.DeadLetterReason != nil {
				e.Errorf("resubmitted: got %+v", m)
			}
		}
		e.crosstown("deadletter", "move", queue, "--property=n=8", "--to", queue)
		if out := e.crosstown("deadletter", "purge", queue, "--yes"); !strings.HasPrefix(out, "purged 5 messages") {
			e.Errorf("purge: got %s", out)
		}
		if c := e.runtime(queue); c.DeadLetterMessageCount != 0 || c.ActiveMessageCount == 0 {
			e.Errorf("left: %+v", c)
		}
	}, "file/tcp", "redis/tls", "cluster/tcp")
}

// emulatorConfig is in the form of the official emulator's Config.json.
const emulatorConfig = `{
  "UserConfig": {
    "Namespaces": [{
      "Name": "sbemulatorns",
      "Queues": [{
        "Name": "queue.1",
        "Properties": {
          "DeadLetteringOnMessageExpiration": true,
          "DefaultMessageTimeToLive": "PT1H",
          "DuplicateDetectionHistoryTimeWindow": "PT20S",
          "ForwardDeadLetteredMessagesTo": "",
          "ForwardTo": "",
          "LockDuration": "PT30S",
          "MaxDeliveryCount": 3,
          "RequiresDuplicateDetection": false,
          "RequiresSession": false
        }
      }]
    }],
    "Logging": {"Type": "File"}
  }
}`

func TestTheEmulatorsConfigIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "Config.json")
	if err := os.WriteFile(file, []byte(emulatorConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, gw: own(t, "memory", "--emulator-config", file), plain: true}
	got, err := e.admin().GetQueue(e.ctx(), "queue.1", nil)
	if err != nil || got == nil {
		t.Fatalf("get: %v %v", got, err)
	}
	if *got.LockDuration != "PT30S" || *got.MaxDeliveryCount != 3 || *got.DefaultMessageTimeToLive != "PT1H" || !*got.DeadLetteringOnMessageExpiration {
		t.Errorf("got %+v", got.QueueProperties)
	}
	if n, err := e.admin().GetNamespaceProperties(e.ctx(), &admin.GetNamespacePropertiesOptions{}); err != nil || n.Name != "sbemulatorns" {
		t.Errorf("namespace: got %+v %v", n, err)
	}
	e.send("queue.1", "hello")
	r := e.receiver("queue.1")
	e.complete(r, e.one(r))
}
