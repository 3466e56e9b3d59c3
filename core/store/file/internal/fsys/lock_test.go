//go:build unix

package fsys

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A lock that was given back can be taken again while other programs are being started: until they
// run they have the files of this process.
func TestALockIsFreeWhileProgramsStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "LOCK")
	var starts sync.WaitGroup
	defer starts.Wait()
	stop := make(chan struct{})
	defer close(stop)
	starts.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := exec.Command("true").Run(); err != nil {
				t.Errorf("run: %v", err)
				return
			}
		}
	})
	for i := range 3000 {
		lock, err := OS{}.Lock(path, "")
		if err != nil {
			t.Fatalf("lock %d: %v", i, err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A lock holds although its file was removed by hand: else two processes would have the directory.
func TestALockHoldsWhenItsFileIsRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "LOCK")
	first, err := OS{}.Lock(path, "123\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, removed := range []bool{false, true} {
		if removed {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		second, err := OS{}.Lock(path, "456\n")
		if locked, ok := errors.AsType[*LockedError](err); !ok || locked.Text != map[bool]string{false: "123", true: "unknown: its file LOCK was removed"}[removed] {
			t.Errorf("removed %t: lock again: got %v, want an error that says who has the lock", removed, err)
			if err == nil {
				_ = second.Close()
			}
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OS{}.Lock(path, "456\n")
	if err != nil {
		t.Fatalf("lock when it is free: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// The file of a lock that is a link would have what it names overwritten.
func TestALockThatIsALinkIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, other := filepath.Join(dir, "LOCK"), filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	if lock, err := (OS{}).Lock(path, "1"); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
		t.Errorf("lock: got %v, want a refusal", err)
		if err == nil {
			_ = lock.Close()
		}
	}
	if text, err := os.ReadFile(other); string(text) != "precious" || err != nil {
		t.Errorf("what the link names has %q, %v", text, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	lock, err := OS{}.Lock(path, "1")
	if err != nil {
		t.Fatalf("lock after the refusal: %v", err)
	}
	_ = lock.Close()
}
