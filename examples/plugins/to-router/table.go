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

// entry routes messages whose To matches its pattern to queues. '*' matches any characters but '/',
// as in path.Match.
type entry struct {
	To     string   `json:"to"`
	Queues []string `json:"queues"`
}

// table is the content of a file. The first entry that matches applies.
type table struct {
	file    string
	last    os.FileInfo // of the last file that was read
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

// follow reads the file again after each change. If that fails, it logs why and keeps the table.
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
			continue // another file may be about to replace it
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
