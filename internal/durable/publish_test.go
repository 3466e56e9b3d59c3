package durable_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/crosstown-mq/crosstown/internal/durable"
)

func TestAFileIsPublishedWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	broken := errors.New("broken")
	half := func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return broken
	}
	for _, step := range []struct {
		name      string
		err, want error
	}{
		{"create fails", durable.Create(path, 0o600, half), broken},
		{"create", durable.Create(path, 0o640, durable.Content([]byte("one"))), nil},
		{"create again", durable.Create(path, 0o600, durable.Content([]byte("two"))), fs.ErrExist},
		{"replace fails", durable.Replace(path, 0o600, half), broken},
	} {
		if !errors.Is(step.err, step.want) {
			t.Errorf("%s: got %v, want %v", step.name, step.err, step.want)
		}
	}
	if text, err := os.ReadFile(path); string(text) != "one" {
		t.Errorf("got %q, %v, want what was created first", text, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("got %v, %v, want the mode that was asked for", info, err)
	}
	if err := durable.Replace(path, 0o600, durable.Content([]byte("three"))); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "three" {
		t.Errorf("got %q, want what replaced it", text)
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("got %v, want one file", all)
	}
}
