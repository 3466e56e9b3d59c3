package memstore_test

import (
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/memstore"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

func open(_ *testing.T, clock *storetest.Clock) core.Store {
	return memstore.New(memstore.Options{Clock: clock.Now})
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, open)
}
