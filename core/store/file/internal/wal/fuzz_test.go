package wal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/fsys/faultfs"
)

// corpus adds all files of a small log of a kind to the seeds.
func corpus(f *testing.F, suffix string) {
	f.Helper()
	fs := faultfs.New()
	l, err := Open(fs, dir, Options{Sync: Always, SegmentSize: 1 << 10})
	if err != nil {
		f.Fatal(err)
	}
	s := &story{t: f, l: l, appended: 1}
	for i := range 20 {
		if err := s.send(i == 3); err != nil {
			f.Fatal(err)
		}
	}
	if err := errors.Join(s.snapshot(), s.send(false), s.l.Close()); err != nil {
		f.Fatal(err)
	}
	names, err := fs.ReadDir(dir)
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		if filepath.Ext(name) == suffix {
			f.Add(contentOf(f, fs, filepath.Join(dir, name)))
		}
	}
}

func contentOf(t testing.TB, fs fsys.FS, name string) []byte {
	t.Helper()
	file, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	size, err := file.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := file.ReadAt(b, 0); err != nil && size > 0 {
		t.Fatal(err)
	}
	return b
}

// filesystem is one with a file.
func filesystem(t *testing.T, name string, content []byte) *faultfs.FS {
	t.Helper()
	fs := faultfs.New()
	if err := fs.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	file, err := fs.Open(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return fs
}

// sound corrects the checksums of a segment as far as it makes sense, so that a fuzzer gets behind
// them.
func sound(b []byte, id uint32) []byte {
	b = bytes.Clone(b)
	if len(b) >= segmentHeaderSize {
		le.PutUint32(b[60:], checksum(b[:60]))
	}
	for off := segmentHeaderSize; off+frameHeaderSize <= len(b); {
		h := b[off : off+frameHeaderSize]
		effects := int64(le.Uint32(h[8:]))
		if end := int64(off) + frameHeaderSize + effects; end <= int64(len(b)) {
			le.PutUint32(h[12:], checksum(b[off+frameHeaderSize:end]))
		}
		le.PutUint32(h, headerCRC(h, At(id, uint32(off))))
		size := frameHeaderSize + effects + int64(le.Uint32(h[16:]))
		if off = align(off + int(min(size, int64(len(b))))); off > len(b) {
			break
		}
	}
	return b
}

// FuzzSegment opens a log whose only segment has any content: with and without Repair. What was
// opened can be read, and written, and opened again.
func FuzzSegment(f *testing.F) {
	corpus(f, suffixLog)
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, content := range [][]byte{content, sound(content, 1)} {
			for _, repair := range []bool{false, true} {
				o := Options{Sync: Always, SegmentSize: 1 << 10, Repair: repair}
				fs := filesystem(t, "00000001.log", content)
				if _, err := Inspect(fs, dir, true); err != nil && !isFormat(err) {
					t.Fatal(err)
				}
				all, ok := open1(t, fs, o, true)
				if !ok {
					continue
				}
				o.Repair = false
				again, ok := open1(t, fs, o, false)
				if !ok || len(again) != len(all)+1 {
					t.Fatalf("opened with %d frames, then %d, %v", len(all), len(again), ok)
				}
				for i := range all {
					if !bytes.Equal(all[i], again[i]) {
						t.Fatalf("frame %d is another one after a restart", i)
					}
				}
			}
		}
	})
}

func isFormat(err error) bool {
	var version *VersionError
	return errors.As(err, &version)
}

// open1 opens a log, reads all, and appends a frame. It returns false if it is refused as damaged.
func open1(t *testing.T, fs fsys.FS, o Options, first bool) (all [][]byte, ok bool) {
	t.Helper()
	l, err := Open(fs, dir, o)
	var damage *DamageError
	if err != nil {
		if !errors.As(err, &damage) && !isFormat(err) {
			t.Fatal(err)
		}
		if errors.As(err, &damage) && o.Repair {
			t.Fatalf("repair: %v", err)
		}
		return nil, false
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	err = l.Replay(0, func(f Frame) error {
		all = append(all, bytes.Clone(f.Effects))
		for _, ref := range f.Records {
			_, _, _ = l.Read(ref)
		}
		return nil
	})
	if err != nil && (!first || o.Repair || !errors.As(err, &damage)) {
		t.Fatal(err)
	}
	if _, end := l.Append([]byte("more"), []Record{NewRecord(nil, []byte("body"))}); l.Wait(t.Context(), end) != nil {
		t.Fatal(l.Err())
	}
	return all, err == nil
}

// FuzzSnapshot reads a snapshot of any content: what it returns before io.EOF is what was written,
// so nothing else is returned with right checksums in place of it.
func FuzzSnapshot(f *testing.F) {
	corpus(f, suffixSnapshot)
	f.Fuzz(func(t *testing.T, content []byte) {
		b := bytes.Clone(content)
		if len(b) >= snapshotHeaderSize {
			le.PutUint32(b[60:], checksum(b[:60]))
		}
		for _, content := range [][]byte{content, b} {
			fs := filesystem(t, "00000001.snapshot", content)
			if _, err := Inspect(fs, dir, true); err != nil && !isFormat(err) {
				t.Fatal(err)
			}
			in, err := OpenSnapshot(fs, dir, SnapshotInfo{ID: 1, Size: int64(len(content))})
			if err != nil {
				t.Fatal(err)
			}
			var damage *DamageError
			if n, err := io.Copy(io.Discard, in); err != nil && !errors.As(err, &damage) || n > int64(len(content)) {
				t.Fatalf("read %d bytes of %d: %v", n, len(content), err)
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzHeaders decodes what it encodes, and nothing of which a checksum is wrong.
func FuzzHeaders(f *testing.F) {
	f.Add(make([]byte, segmentHeaderSize), uint64(At(1, 64)))
	f.Fuzz(func(t *testing.T, b []byte, at uint64) {
		if len(b) >= frameHeaderSize {
			if h, ok := decodeHeader(b, Position(at)); ok {
				var again [frameHeaderSize]byte
				h.put(again[:], Position(at))
				if !bytes.Equal(again[:], b[:frameHeaderSize]) {
					t.Errorf("%x becomes %x", b, again)
				}
			}
		}
		if h, version, ok := decodeSegmentHeader(b); ok {
			var again [segmentHeaderSize]byte
			h.put(again[:])
			if h2, _, _ := decodeSegmentHeader(again[:]); h2 != h || version != formatVersion {
				t.Errorf("%+v becomes %+v", h, h2)
			}
		}
		if head, body, ok := decodeRecord(b); ok {
			r := NewRecord(head, body)
			if le.Uint32(b) != r.crc {
				t.Errorf("record of %x", b)
			}
		}
	})
}
