package main

import (
	"strings"
	"testing"
)

func TestStrictEnforcesTheTiersLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
	}{{nil, exitOK}, {[]string{"--strict"}, exitFailure}, {[]string{"--strict=premium"}, exitOK}} {
		g := startGateway(t, append(c.args, "--store", "memory")...)
		code, _, stderr := g.try(t, g.connection, "", "queue", "create", "large", "--max-message-size-in-kilobytes", "2048")
		if code != c.code || code != exitOK && !strings.Contains(stderr, "in the Standard tier it may be at most 256") {
			t.Errorf("%v: exit code %d, %s", c.args, code, stderr)
		}
	}
}
