package wal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/crosstown-mq/crosstown/core/filestore/internal/fsys"
)

// Condition is how a directory is, seen from outside.
type Condition struct {
	Exists bool
	Holder string // id of the process that uses it, "": none does
	Free   int64  // bytes that its file system has left
}

// Look looks at a directory, which need not exist, and changes nothing. The error is as that of Open
// would be.
func Look(dir string) (c Condition, err error) {
	there := dir
	for { // the file system is that of the nearest directory that exists
		if _, err := os.Stat(there); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return c, explain(dir, err)
		}
		there = filepath.Dir(there)
	}
	c.Exists = there == dir
	if c.Free, err = (fsys.OS{}).Free(there); err != nil {
		return c, explain(dir, err)
	}
	c.Holder, err = fsys.Holder(filepath.Join(dir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, explain(dir, err)
	}
	return c, nil
}
