//go:build unix

package fsys

import (
	"errors"
	"os"
	"syscall"
)

func lock(f *os.File) error {
	if info, err := f.Stat(); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
			return &OwnerError{f.Name(), int(stat.Uid), os.Geteuid()}
		}
	}
	return flock(f)
}

// lockDir returns nil if the file system can lock only files.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err = flock(f); err == nil {
		return f, nil
	}
	_ = f.Close() // nothing was written
	if errors.Is(err, ErrNoLocks) || errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.EINVAL) {
		return nil, nil
	}
	return nil, err
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return &LockedError{Name: f.Name()}
		case errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EOPNOTSUPP):
			return ErrNoLocks
		default:
			return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}

func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

func free(dir string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil
}

func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func ReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }
