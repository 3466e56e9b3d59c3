package memory_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// The store is its own model: what this shows is that answers depend on nothing
// but the operations and the clock, and that counts agree with contents.
func TestStoreIsDeterministic(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock()
			options := memory.Options{Clock: clock.Now}
			storetest.Differential(t, seed, 1000, memory.New(options), memory.New(options), clock, func() {})
		})
	}
}

func FuzzStoreIsDeterministic(f *testing.F) {
	for seed := range uint64(12) { // some are queues, some topics, some with sessions
		data := make([]byte, 600)
		dice := rand.New(rand.NewPCG(seed, 0))
		for i := range data {
			data[i] = byte(dice.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		clock := storetest.NewClock()
		options := memory.Options{Clock: clock.Now}
		storetest.Play(t, data, memory.New(options), memory.New(options), clock)
	})
}
