package e2e

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

func TestTopShowsActivity(t *testing.T) {
	tell(t, func(e *env) {
		queue := e.queue(nil)
		e.send(queue, "a", "b", "c")
		r := e.receiver(queue)
		e.one(r)
		var v struct {
			Gateway  *struct{ Version string }
			Entities []struct {
				Name                      string
				Active, Locked, Consumers int
			}
		}
		if err := json.Unmarshal([]byte(e.crosstown("top", "--once", "--json", "--interval", "100ms")), &v); err != nil {
			e.Fatal(err)
		}
		found := false
		for _, row := range v.Entities {
			found = found || row.Name == queue && row.Active == 3 && row.Locked == 1 && row.Consumers == 1
		}
		if !found || v.Gateway == nil {
			e.Errorf("got %+v", v)
		}
		out := e.crosstown("top", "--once", "--interval", "100ms", "--sort", "name")
		for _, want := range []string{queue, "connections", "store ", "ACTIVE"} {
			if !strings.Contains(out, want) {
				e.Errorf("got %s, want %s in it", out, want)
			}
		}
		if strings.Contains(out, "\x1b") {
			e.Errorf("what is not a terminal gets %q", out)
		}
		for _, wrong := range [][]string{{"--sort", "size"}, {"--interval", "1ms"}, {"--rows", "-1"}} {
			err := exec.CommandContext(e.ctx(), binary, append([]string{"top"}, wrong...)...).Run()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 {
				e.Errorf("top %v: got %v, want exit code 2", wrong, err)
			}
		}
	}, "file/tcp", "redis/tls")
}
