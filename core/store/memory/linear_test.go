package memory_test

import (
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/core/storetest/linear"
)

func TestAPartitionIsLinearizable(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(*testing.T, linear.Subject){"queue": linear.Queue, "clear": linear.Clearing, "sessions": linear.Sessions} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := memory.New(memory.Options{})
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			check(t, linear.Subject{Stores: []func() core.Store{func() core.Store { return s }}})
		})
	}
}
