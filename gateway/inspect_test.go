package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAStoreIsInspectedAndVerified(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.command(t, "", "queue", "create", "kept")
	g.command(t, "", "send", "kept", "m", "--count=10")
	g.halt(t)
	dir := filepath.Join(g.data, "messages")
	code, out, stderr := invoke(t, nil, "store", "verify", dir)
	if code != exitOK || !strings.Contains(out, "10 records") || !strings.Contains(out, "closed normally") {
		t.Errorf("verify: got %d\n%s%s", code, out, stderr)
	}
	if code, out, _ := invoke(t, nil, "store", "inspect", "--json", dir); code != exitOK || !strings.Contains(out, `"records":10`) {
		t.Errorf("inspect: got %d\n%s", code, out)
	}
	segment := filepath.Join(dir, "00000001.log")
	data, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(segment, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, stderr := invoke(t, nil, "store", "verify", dir); code != exitFailure || !strings.Contains(out, "damaged") || !strings.Contains(stderr, "--repair") {
		t.Errorf("verify of damage: got %d\n%s%s", code, out, stderr)
	}
	if code, _, stderr := invoke(t, nil, "store", "verify", filepath.Join(dir, "nowhere")); code != exitFailure || !strings.Contains(stderr, "nowhere") {
		t.Errorf("verify of nothing: got %d\n%s", code, stderr)
	}
}
