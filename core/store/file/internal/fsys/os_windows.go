package fsys

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var (
	kernel32       = syscall.NewLazyDLL("kernel32.dll")
	lockFileEx     = kernel32.NewProc("LockFileEx")
	freeDiskSpace  = kernel32.NewProc("GetDiskFreeSpaceExW")
	errLocked      = syscall.Errno(33)  // ERROR_LOCK_VIOLATION
	errNoLocks     = syscall.Errno(1)   // ERROR_INVALID_FUNCTION
	errDiskFull    = syscall.Errno(112) // ERROR_DISK_FULL
	errHandleFull  = syscall.Errno(39)  // ERROR_HANDLE_DISK_FULL
	errWriteLocked = syscall.Errno(19)  // ERROR_WRITE_PROTECT
)

const (
	lockExclusive       = 2
	lockFailImmediately = 1
	// The locked byte is after the text, because Windows does not allow reading a locked range.
	lockedByte = 1 << 20
)

func lock(f *os.File) error {
	at := syscall.Overlapped{Offset: lockedByte}
	ok, _, err := lockFileEx.Call(f.Fd(), lockExclusive|lockFailImmediately, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
	switch {
	case ok != 0:
		return nil
	case errors.Is(err, errLocked), errors.Is(err, syscall.ERROR_IO_PENDING):
		return &LockedError{Name: f.Name()}
	case errors.Is(err, errNoLocks):
		return ErrNoLocks
	default:
		return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
}

// lockDir locks nothing: Windows does not remove an open file, so the lock of the file is enough.
func lockDir(string) (*os.File, error) { return nil, nil }

// unlock does nothing: other programs do not inherit the file, and closing it ends the lock.
func unlock(*os.File) error { return nil }

func free(dir string) (int64, error) {
	name, err := syscall.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var left int64
	ok, _, err := freeDiskSpace.Call(uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&left)), 0, 0)
	if ok == 0 {
		return 0, &os.PathError{Op: "free space", Path: dir, Err: err}
	}
	return left, nil
}

func Full(err error) bool {
	return errors.Is(err, errDiskFull) || errors.Is(err, errHandleFull) || errors.Is(err, syscall.ENOSPC)
}

func ReadOnly(err error) bool { return errors.Is(err, errWriteLocked) }
