package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func TestATestServerLivesAsLongAsItsInput(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("CROSSTOWN_STORE", "redis://127.0.0.1:1") // the environment does not count
	file := filepath.Join(t.TempDir(), "entities.yaml")
	if err := os.WriteFile(file, []byte("queues: [{name: orders}]\nstore: file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, ends := io.Pipe()
	lines, out := io.Pipe()
	log := newOutput()
	exit := make(chan int, 1)
	go func() {
		exit <- run(context.Background(), []string{"test-server", "--config", file}, in, out, log, os.Environ())
		_ = out.Close()
	}()
	line, err := bufio.NewReader(lines).ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	var is testServer
	if err := json.Unmarshal([]byte(line), &is); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if is.URL != "http://"+is.Address || is.PID != os.Getpid() || !strings.HasPrefix(is.WithTLS, "Endpoint=sb://localhost:") {
		t.Errorf("got %+v", is)
	}
	if _, err := os.Stat(is.CA); err != nil {
		t.Error(err)
	}
	c, err := azservicebus.NewClientFromConnectionString(is.ConnectionString, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.NewSender("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("one")}, nil); err != nil {
		t.Fatal(err)
	}
	_ = c.Close(t.Context())
	_ = ends.Close()
	select {
	case code := <-exit:
		if code != exitOK {
			t.Errorf("exit code %d:\n%s", code, log)
		}
	case <-time.After(patience):
		t.Fatal("it goes on without its standard input")
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "crosstown-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestATestServerSaysWhatIsWrong(t *testing.T) {
	log := newOutput()
	code := run(context.Background(), []string{"test-server", "--config", "/nowhere.yaml"}, strings.NewReader(""), io.Discard, log, nil)
	if code != exitUsage || !strings.Contains(log.String(), "/nowhere.yaml") {
		t.Errorf("exit code %d: %s", code, log)
	}
}
