package repository

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRootIsAboveTheModuleOfTools(t *testing.T) {
	t.Parallel()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "gateway", "tools", "go.mod")); err != nil {
		t.Error(err)
	}
}

func TestRootOutsideOfTheRepositoryIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+Module+"/other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if root, err := above(dir); err == nil {
		t.Errorf("got %s, want an error", root)
	}
}
