package fsys

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// syncData makes content and length durable, but not the file's times. So the sync of a write
// within the file's length needs no commit of the file system's journal.
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

const mostParts = 1024

func writev(f *os.File, parts [][]byte, off int64) (n int, err error) {
	for len(parts) > 0 {
		k, err := unix.Pwritev(int(f.Fd()), parts[:min(len(parts), mostParts)], off+int64(n))
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return n, &os.PathError{Op: "write", Path: f.Name(), Err: err}
		}
		if k == 0 && len(parts[0]) > 0 {
			return n, &os.PathError{Op: "write", Path: f.Name(), Err: io.ErrShortWrite}
		}
		n += k
		for len(parts) > 0 && k >= len(parts[0]) {
			k -= len(parts[0])
			parts = parts[1:]
		}
		if k > 0 {
			m, err := f.WriteAt(parts[0][k:], off+int64(n))
			if n += m; err != nil {
				return n, err
			}
			parts = parts[1:]
		}
	}
	return n, nil
}

func reserve(f *os.File, off, n int64) {
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, n) // if this fails, the later write allocates space, or fails
}
