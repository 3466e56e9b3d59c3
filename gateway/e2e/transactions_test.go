package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// systemPython is Debian's: its packages bring Qpid Proton.
const systemPython = "/usr/bin/python3"

// protonVariable, when set, makes it a failure that Qpid Proton is missing;
// else its story is skipped then.
const protonVariable = "E2E_PROTON"

// The Go and JavaScript SDKs know no transactions. Qpid Proton does, by the
// letter of AMQP 1.0.
func TestTransactionsOfQpidProton(t *testing.T) {
	tell(t, func(e *env) {
		needProton(e.T)
		work, out := e.queue(nil), e.queue(nil)
		ctx, cancel := context.WithTimeout(e.Context(), patience)
		defer cancel()
		c := exec.CommandContext(ctx, systemPython, filepath.Join("testdata", "proton", "transactions.py"),
			"amqp://"+e.gw.host, devPolicy, devKey, work, out)
		said, err := c.CombinedOutput()
		const want = "committed\naborted\nreceived one\ncommitted\nreceived two\naborted\nreceived two\ncommitted\ntold\n"
		if err != nil || string(said) != want {
			e.Fatalf("%v, said:\n%s\nwant:\n%s", err, said, want)
		}
		e.wantPeeked(work, "three")
		e.wantPeeked(out, "answer") // a moment after the commit
	}, "file/tcp", "redis/tcp", "cluster/tcp")
}

// needProton skips the test, or fails it, where Qpid Proton is missing.
func needProton(t *testing.T) {
	t.Helper()
	if !hasProton(t) {
		t.Skipf("set %s to fail instead: install python3-qpid-proton", protonVariable)
	}
}

// hasProton reports whether Qpid Proton is there, or fails the test if it must be.
func hasProton(t *testing.T) bool {
	t.Helper()
	err := exec.CommandContext(t.Context(), systemPython, "-c", "import proton").Run()
	if err != nil && os.Getenv(protonVariable) != "" {
		t.Fatal(err)
	}
	return err == nil
}

// wantPeeked peeks until a queue holds the messages of these ids.
func (e *env) wantPeeked(queue, want string) {
	e.Helper()
	r, err := e.client().NewReceiverForQueue(queue, nil)
	if err != nil {
		e.Fatal(err)
	}
	got := ""
	for deadline := time.Now().Add(patience); got != want && time.Now().Before(deadline); {
		from := int64(0)
		ms, err := r.PeekMessages(e.ctx(), 10, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
		if err != nil {
			e.Fatal(err)
		}
		ids := make([]string, len(ms))
		for i, m := range ms {
			ids[i] = m.MessageID
		}
		got = strings.Join(ids, " ")
	}
	if got != want {
		e.Errorf("%s: got %q, want %q", queue, got, want)
	}
}
