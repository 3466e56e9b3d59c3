package file

import (
	"os"
	"testing"

	"github.com/crosstown-mq/crosstown/core/storetest"
)

// testdata/kept is the directory of a store that version 8fcb296 filled by storetest.Keep.
func TestStoreOfVersion8fcb296IsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/kept")); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{Clock: storetest.NewClock().Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // it was only read
	storetest.WantKept(t, s)
}
