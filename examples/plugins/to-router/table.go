package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path"
	"sync/atomic"
	"time"
)

// entry routes messages to queues, if their To matches its pattern. '*' matches any characters but
// '/', as in path.Match.
type entry struct {
	To     string   `json:"to"`
	Queues []string `json:"queues"`
}

// table is what a file says; the first entry that matches counts.
type table struct {
	file    string
	last    os.FileInfo // of the file that was read last
	entries atomic.Pointer[[]entry]
}

func open(file string) (*table, error) {
	t := &table{file: file}
	return t, t.read()
}

func (t *table) read() error {
	info, err := os.Stat(t.file)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(t.file)
	if err != nil {
		return err
	}
	t.last = info
	var entries []entry
	if err := json.Unmarshal(text, &entries); err != nil {
		return fmt.Errorf("%s: %w", t.file, err)
	}
	for i, e := range entries {
		if _, err := path.Match(e.To, ""); err != nil || len(e.Queues) == 0 {
			return fmt.Errorf("%s: entry %d needs a pattern in \"to\" and names in \"queues\"", t.file, i+1)
		}
	}
	t.entries.Store(&entries)
	return nil
}

// follow reads the file again whenever it has changed. If it cannot be read, follow logs the error
// and keeps the table.
func (t *table) follow(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		info, err := os.Stat(t.file)
		if err != nil || os.SameFile(info, t.last) && info.ModTime().Equal(t.last.ModTime()) && info.Size() == t.last.Size() {
			continue // it may be about to be replaced
		}
		if err := t.read(); err != nil {
			slog.Error("the table stays as it was", "err", err)
		} else {
			slog.Info("the table was read", "entries", len(*t.entries.Load()))
		}
	}
}

func (t *table) lookup(to string) []string {
	for _, e := range *t.entries.Load() {
		if ok, _ := path.Match(e.To, to); ok {
			return e.Queues
		}
	}
	return nil
}
