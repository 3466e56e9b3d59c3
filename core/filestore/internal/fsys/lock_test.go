//go:build unix

package fsys

import (
	"os/exec"
	"path/filepath"
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
