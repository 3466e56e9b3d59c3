package main

import (
	"strings"
	"testing"
)

func TestHealthAsksTheGateway(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store", "memory", "--emulator")
	if !strings.HasSuffix(g.stdout.String(), "\n"+emulatorReady+"\n") {
		t.Errorf("the line of the emulator is not the last:\n%s", g.stdout)
	}
	_, port, _ := strings.Cut(g.address, ":")
	for _, args := range [][]string{{g.address}, {":" + port}, {"--data", g.data, "--listen", g.address}, {"--data", g.data, "--emulator", "--listen", "0.0.0.0:" + port}} {
		if code, stdout, stderr := invoke(t, nil, append([]string{"health"}, args...)...); code != exitOK || !strings.Contains(stdout, `"status":"healthy"`) {
			t.Errorf("%v: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
	if code, _, stderr := invoke(t, nil, "health", "nowhere"); code != exitFailure || !strings.Contains(stderr, "use host:port") {
		t.Errorf("no address: exit code %d, %s", code, stderr)
	}
	g.halt(t)
	if code, _, _ := invoke(t, nil, "health", g.address); code != exitFailure {
		t.Errorf("nobody there: exit code %d", code)
	}
}
