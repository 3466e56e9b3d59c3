package fsys

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestWritevAtWritesAllParts writes more parts than a system takes at once, empty ones between them.
func TestWritevAtWritesAllParts(t *testing.T) {
	t.Parallel()
	f, err := OS{}.Open(filepath.Join(t.TempDir(), "file"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	f.Reserve(0, 1<<20)
	if size, err := f.Size(); size != 0 || err != nil {
		t.Errorf("the length after Reserve is %d, %v", size, err)
	}
	want := make([]byte, 7)
	var parts [][]byte
	for i := range 3000 {
		part := bytes.Repeat([]byte{byte(i)}, i%5)
		parts, want = append(parts, part), append(want, part...)
	}
	if n, err := f.WritevAt(parts, 7); n != len(want)-7 || err != nil {
		t.Fatalf("wrote %d bytes, %v; want %d", n, err, len(want)-7)
	}
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes are in the file, or %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if n, err := f.WritevAt(parts, 0); n != 0 || err == nil {
		t.Errorf("wrote %d bytes to a closed file, %v", n, err)
	}
}
