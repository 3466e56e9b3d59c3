package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

const (
	maxLine     = 4 << 10 // bytes; the rest of a line is dropped
	linesBurst  = 200     // lines at once
	linesSecond = 50      // lines per second after a burst
	bytesSecond = 8 << 20 // bytes read per second; a plugin that writes more has to wait
	tailLines   = 5       // lines kept for the error text of a failed launch
)

// output logs what a plugin writes, in one or several streams, and drops lines beyond the limits.
type output struct {
	log   *slog.Logger
	lines *rate.Limiter

	mu   sync.Mutex
	left int // lines dropped since the last report
	tail []string
}

func newOutput(log *slog.Logger) *output {
	return &output{log: log, lines: rate.NewLimiter(linesSecond, linesBurst)}
}

func (o *output) follow(r io.Reader) {
	w := o.stream()
	buf := make([]byte, 64<<10)
	pace := rate.NewLimiter(bytesSecond, bytesSecond)
	for {
		n, err := r.Read(buf)
		_, _ = w.Write(buf[:n]) // Write never fails
		if err != nil {
			w.flush()
			return
		}
		_ = pace.WaitN(context.Background(), n) // n is less than the burst
	}
}

// stream returns a writer for one source of lines. The writer is not safe for concurrent use.
func (o *output) stream() *lineWriter { return &lineWriter{out: o} }

type lineWriter struct {
	out  *output
	part []byte
	skip bool // the current line is too long
}

func (w *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		b = rest
		if !w.skip {
			w.part = append(w.part, line[:min(len(line), maxLine-len(w.part))]...)
			w.skip = len(w.part) == maxLine
		}
		if ended {
			w.flush()
		}
	}
	return n, nil
}

func (w *lineWriter) flush() {
	if line := bytes.TrimRight(w.part, "\r"); len(line) > 0 {
		w.out.line(line)
	}
	w.part, w.skip = w.part[:0], false
}

func (o *output) line(b []byte) {
	o.mu.Lock()
	if !o.lines.Allow() {
		o.left++
		o.mu.Unlock()
		return
	}
	left := o.left
	o.left = 0
	o.mu.Unlock()
	if left > 0 {
		o.log.Warn("the plugin writes more lines per second than the limit: the gateway left out some", "lines", left, "limit", linesSecond)
	}
	level, text, attrs := parseLine(b)
	o.mu.Lock()
	o.tail = append(o.tail[max(0, len(o.tail)-tailLines+1):], fmt.Sprintf("%.200s", text))
	o.mu.Unlock()
	o.log.LogAttrs(context.Background(), level, text, attrs...)
}

func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.tail, " / ")
}

// parseLine returns the parts of a line that a logger wrote as JSON. Other text has the level Info.
func parseLine(b []byte) (slog.Level, string, []slog.Attr) {
	plain := strings.ToValidUTF8(string(b), "\uFFFD")
	var fields map[string]any
	if b[0] != '{' || json.Unmarshal(b, &fields) != nil {
		return slog.LevelInfo, plain, nil
	}
	take := func(names ...string) string {
		for _, name := range names {
			if s, ok := fields[name].(string); ok {
				delete(fields, name)
				return s
			}
		}
		return ""
	}
	text := take("msg", "message", "@message")
	if text == "" {
		return slog.LevelInfo, plain, nil
	}
	level := slog.LevelInfo
	if named := take("level", "@level", "severity"); named != "" {
		_ = level.UnmarshalText([]byte(named)) // an unknown level counts as Info
	}
	take("time", "@timestamp", "timestamp")
	if len(fields) == 0 {
		return level, text, nil
	}
	return level, text, []slog.Attr{slog.Any("said", fields)}
}
