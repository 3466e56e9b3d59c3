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
	for _, err := range []error{os.WriteFile(key, nil, 0o600), os.WriteFile(filepath.Join(dir, "ca.pem"), nil, 0o644), os.Chmod(dir, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := warnings(); got != "" {
		t.Errorf("as the gateway makes them: got %s", got)
	}
	for path, mode := range map[string]os.FileMode{key: 0o644, dir: 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := warnings(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "chmod 600 "+key) || !strings.Contains(got, "chmod 700 "+dir) {
		t.Errorf("got %s", got)
	}
}
