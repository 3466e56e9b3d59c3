package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type Writer struct {
	out             *bufio.Writer
	sum             hash.Hash32
	lines, messages int
}

func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Version = Version
	x := &Writer{out: bufio.NewWriterSize(w, 1<<16), sum: crc32.New(castagnoli)}
	return x, x.Write(&Line{Backup: &h})
}

func (w *Writer) Write(l *Line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	_, _ = w.sum.Write(data) // a hash never returns an error
	w.lines++
	if l.Message != nil {
		w.messages++
	}
	_, err = w.out.Write(data)
	return err
}

func (w *Writer) Messages() int { return w.messages }

// End writes the last line. A backup without this line is incomplete and cannot be restored.
func (w *Writer) End() error {
	end := End{w.lines, w.messages, fmt.Sprintf("%08x", w.sum.Sum32())}
	return errors.Join(w.Write(&Line{End: &end}), w.out.Flush())
}

type Reader struct {
	in              *bufio.Reader
	sum             hash.Hash32
	lines, messages int
	ended           bool
}

func NewReader(r io.Reader) (*Reader, *Header, error) {
	x := &Reader{in: bufio.NewReaderSize(r, 1<<16), sum: crc32.New(castagnoli)}
	first, err := x.Next()
	switch {
	case errors.Is(err, errTruncated) && x.lines == 0:
		return nil, nil, errors.New("the backup is empty: use a file that crosstown backup has written")
	case err != nil:
		return nil, nil, err
	case first.Backup == nil:
		return nil, nil, errors.New("the file is not a backup: its first line must be the header that crosstown backup writes")
	case first.Backup.Version != Version:
		return nil, nil, fmt.Errorf("the backup has format %d, but this version reads format %d: restore the backup with the version of Crosstown that wrote the backup, %s", first.Backup.Version, Version, first.Backup.By)
	}
	return x, first.Backup, nil
}

var errTruncated = errors.New("the backup is incomplete (its last line is missing): create the backup again")

// Next returns the next line. After a last line with the right checksum, it returns io.EOF.
func (r *Reader) Next() (*Line, error) {
	if r.ended {
		return nil, io.EOF
	}
	data, err := r.in.ReadBytes('\n')
	if err == io.EOF {
		return nil, errTruncated
	}
	if err != nil {
		return nil, err
	}
	l := new(Line)
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(l); err != nil {
		return nil, fmt.Errorf("the backup is damaged at line %d: %w", r.lines+1, err)
	}
	if l.End != nil {
		return nil, r.check(l.End)
	}
	_, _ = r.sum.Write(data) // a hash never returns an error
	r.lines++
	if l.Message != nil {
		r.messages++
	}
	return l, nil
}

func (r *Reader) check(end *End) error {
	if got := (End{r.lines, r.messages, fmt.Sprintf("%08x", r.sum.Sum32())}); got != *end {
		return fmt.Errorf("the backup is damaged: it has %d lines, %d messages and the checksum %s, but its last line says %d lines, %d messages and the checksum %s",
			got.Lines, got.Messages, got.CRC32C, end.Lines, end.Messages, end.CRC32C)
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		return errors.New("the file contains more than one backup: restore one backup at a time")
	}
	r.ended = true
	return io.EOF
}

func (r *Reader) Line() int { return r.lines }

func (r *Reader) Messages() int { return r.messages }
