package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

func TestNewDirectoriesAreSyncedIntoTheirParentsOnceEach(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b", "c")
	var synced []string
	syncDir := func(dir string) error {
		synced = append(synced, dir)
		return nil
	}
	for range 2 {
		if err := MakeAll(dir, mkdir, syncDir); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{root, filepath.Join(root, "a"), filepath.Join(root, "a", "b")}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Errorf("the directory: %v", err)
	}
	if err := MkdirAll(filepath.Join(root, "d", "e")); err != nil {
		t.Error(err)
	}
}

func TestADirectoryInThePlaceOfAFileIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if err := MkdirAll(dir); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("%s: got %v, want ENOTDIR", dir, err)
		}
	}
}

func TestAFailureToSyncADirectoryIsAnError(t *testing.T) {
	t.Parallel()
	err := MakeAll(filepath.Join(t.TempDir(), "a"), mkdir, func(string) error { return fs.ErrInvalid })
	if !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("got %v, want the error of the sync", err)
	}
}
