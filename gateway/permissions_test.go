package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPermissionsThatAreTooWideAreWarnedOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	warnings := func() string {
		var log bytes.Buffer
		warnOfPermissions(dir, slog.New(slog.NewTextHandler(&log, nil)))
		return log.String()
	}
	key := filepath.Join(dir, "ca.key.pem")
	policies := filepath.Join(dir, "keys", "crosstown", "policies")
	ofPolicy := filepath.Join(policies, "send")
	for _, err := range []error{
		os.WriteFile(key, nil, 0o600), os.WriteFile(filepath.Join(dir, "ca.pem"), nil, 0o644), os.Chmod(dir, 0o755),
		os.MkdirAll(policies, 0o700), os.WriteFile(ofPolicy, nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := warnings(); got != "" {
		t.Errorf("as the gateway makes them: got %s", got)
	}
	for path, mode := range map[string]os.FileMode{key: 0o644, ofPolicy: 0o640, dir: 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	got := warnings()
	for _, want := range []string{"impersonate this gateway", "chmod 600 " + key, "the key of a policy", "chmod 600 " + ofPolicy, "chmod 700 " + dir} {
		if strings.Count(got, "\n") != 3 || !strings.Contains(got, want) {
			t.Errorf("got %s, want three warnings with %q", got, want)
		}
	}
}
