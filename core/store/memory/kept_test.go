package memory_test

import (
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// The stores that version 8fcb296 wrote hold what Keep puts into a store of this version too.
func TestStoreKeepsWhatThatOfVersion8fcb296Does(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	s := memory.New(memory.Options{Clock: clock.Now})
	storetest.Keep(t, s, clock)
	storetest.WantKept(t, s)
}
