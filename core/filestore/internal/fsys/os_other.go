//go:build !linux

package fsys

import "os"

// syncData makes the content and the length durable: F_FULLFSYNC on macOS, FlushFileBuffers on
// Windows.
func syncData(f *os.File) error { return f.Sync() }
