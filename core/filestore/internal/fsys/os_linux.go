package fsys

import (
	"errors"
	"os"
	"syscall"
)

// syncData makes the content and the length durable; the times of the file are not needed, and
// without them a write within the file's length costs no commit of the file system's journal.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}
