//go:build !linux

package fsys

import "os"

// syncData uses F_FULLFSYNC on macOS, and FlushFileBuffers on Windows.
func syncData(f *os.File) error { return f.Sync() }

func writev(f *os.File, parts [][]byte, off int64) (n int, err error) {
	for _, b := range parts {
		k, err := f.WriteAt(b, off+int64(n))
		if n += k; err != nil {
			return n, err
		}
	}
	return n, nil
}

func reserve(*os.File, int64, int64) {}
