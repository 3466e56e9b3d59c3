package filestore

import (
	"github.com/crosstown-mq/crosstown/core/filestore/internal/fsys"
	"github.com/crosstown-mq/crosstown/core/filestore/internal/wal"
)

// Inspection is what the files of a store's directory are, and how sound.
type Inspection struct{ wal.Inspection }

// Inspect reads a directory and changes nothing; a gateway may use it meanwhile, and what it is
// writing may look torn. With contents it checks those of all messages and snapshots too.
func Inspect(dir string, contents bool) (*Inspection, error) {
	found, err := wal.Inspect(fsys.OS{}, dir, contents)
	if err != nil {
		return nil, err
	}
	return &Inspection{*found}, nil
}

// Condition is how a directory is, seen from outside: whether there is one, which process uses it, and
// how much space is left.
type Condition struct{ wal.Condition }

// Look looks at the directory of a store, which need not exist, and changes nothing. The error is as that
// of Open would be.
func Look(dir string) (Condition, error) {
	found, err := wal.Look(dir)
	return Condition{found}, err
}
