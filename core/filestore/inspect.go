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
