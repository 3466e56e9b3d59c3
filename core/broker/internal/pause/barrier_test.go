package pause

import (
	"sync"
	"testing"
)

// Those who enter are alone with each other, and whoever shuts the barrier is alone.
func TestAGateIsEmptyWhileItIsShut(t *testing.T) {
	t.Parallel()
	g := NewBarrier()
	var inside, worst sync.Map
	var work sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				g.Enter()
				inside.Store(i, true)
				if g.Pausing().Err() == nil {
					worst.Store("entered", true)
				}
				inside.Delete(i)
				g.Leave()
			}
		})
	}
	var keepers sync.WaitGroup
	for range 3 {
		keepers.Go(func() {
			for range 100 {
				if err := g.Pause(t.Context()); err != nil {
					t.Errorf("shut: %v", err)
					return
				}
				inside.Range(func(i, _ any) bool {
					t.Errorf("%v is inside a closed barrier", i)
					return true
				})
				if g.Pausing().Err() == nil {
					t.Error("the pause signal did not end")
				}
				g.Resume()
			}
		})
	}
	keepers.Wait()
	close(stop)
	work.Wait()
	if _, ok := worst.Load("entered"); !ok {
		t.Error("nobody has entered")
	}
}
