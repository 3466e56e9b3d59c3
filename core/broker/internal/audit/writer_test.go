package audit

import (
	"log/slog"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

func TestEventsThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	w := NewWriter(memory.New(memory.Options{}).Now, "gateway", slog.New(slog.DiscardHandler))
	for range maxNotes/1000 + 2 {
		w.Add(core.Partition{}, make([]core.Event, 1000)...)
	}
	if w.count != maxNotes || w.missed != 2000 {
		t.Errorf("%d events wait and %d were dropped, want %d and 2000", w.count, w.missed, maxNotes)
	}
}
