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

func mkdirAll(dir string) error { return os.MkdirAll(dir, 0o700) }

func TestAllDirectoriesAboveAreSyncedEachTime(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b", "c")
	for range 2 {
		var synced []string
		syncDir := func(dir string) error {
			synced = append(synced, dir)
			return nil
		}
		if err := MakeAll(dir, mkdirAll, syncDir); err != nil {
			t.Fatal(err)
		}
		if want := []string{filepath.Join(root, "a", "b"), filepath.Join(root, "a"), root}; !slices.Equal(synced[:3], want) || filepath.Dir(synced[len(synced)-1]) != synced[len(synced)-1] {
			t.Errorf("synced %q, want %q and those above up to the root", synced, want)
		}
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
	dir := filepath.Join(t.TempDir(), "a")
	for _, failure := range []error{syscall.EIO, syscall.ENOSPC} {
		if err := MakeAll(dir, mkdirAll, func(string) error { return failure }); !errors.Is(err, failure) {
			t.Errorf("got %v, want the error of the sync", err)
		}
	}
	for _, refusal := range []error{fs.ErrPermission, syscall.ENOTSUP, syscall.EINVAL} {
		if err := MakeAll(dir, mkdirAll, func(string) error { return refusal }); err != nil {
			t.Errorf("a directory above that cannot be synced: %v", err)
		}
	}
}

func TestAFileSystemWithoutHardLinksKeepsTheFirstFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	noLinks := func(string, string) error { return errors.ErrUnsupported }
	for _, text := range []string{"first", "second"} {
		from := filepath.Join(dir, text)
		if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := claim(from, path, noLinks); errors.Is(err, fs.ErrExist) != (text == "second") {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if text, err := os.ReadFile(path); string(text) != "first" {
		t.Errorf("got %q, %v, want the first file", text, err)
	}
}
