package memory_test

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// settled makes a namespace with three queues.
func settled(b *testing.B, s *memory.Store, name string) {
	b.Helper()
	if _, err := s.CreateNamespace(b.Context(), core.Namespace{Name: name, ID: name}); err != nil {
		b.Fatal(err)
	}
	for i := range 3 {
		e := core.Entity{
			Namespace: name, Name: fmt.Sprint("q", i), ID: fmt.Sprint(name, "q", i), Partitions: 1, Settings: core.DefaultSettings(core.Queue),
		}
		if _, err := s.CreateEntity(b.Context(), e, core.NamespaceQuotas{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNamespaces is how long callers wait for a registry of 1,000 namespaces.
func BenchmarkNamespaces(b *testing.B) {
	crowded := func(b *testing.B) *memory.Store {
		s := memory.New(memory.Options{})
		for i := range 1000 {
			settled(b, s, fmt.Sprintf("suite-%04d", i))
		}
		b.Cleanup(func() { _ = s.Close() })
		b.ReportAllocs()
		return s
	}
	b.Run("create", func(b *testing.B) {
		s := crowded(b)
		for i := 0; b.Loop(); i++ {
			if _, err := s.CreateNamespace(b.Context(), core.Namespace{Name: fmt.Sprint("n", i), ID: fmt.Sprint("n", i)}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("list all", func(b *testing.B) {
		s := crowded(b)
		for b.Loop() {
			if ns, err := s.Namespaces(b.Context(), "", 2000); err != nil || len(ns) != 1000 {
				b.Fatal(len(ns), err)
			}
		}
	})
	b.Run("delete", func(b *testing.B) {
		s := crowded(b)
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			settled(b, s, fmt.Sprint("n", i))
			b.StartTimer()
			if err := s.DeleteNamespace(b.Context(), fmt.Sprint("n", i)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
