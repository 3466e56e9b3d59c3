package redis_test

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// full makes a registry of 1,000 namespaces, each with three queues.
func crowded(b *testing.B) *benchmark {
	m := newBenchmark(b)
	for i := range 1000 {
		settled(b, m.store, fmt.Sprintf("suite-%04d", i))
	}
	return m
}

// settled makes a namespace with three queues.
func settled(tb testing.TB, s core.Store, name string) {
	tb.Helper()
	if _, err := s.CreateNamespace(tb.Context(), core.Namespace{Name: name, ID: name, Policies: []core.AccessRule{{
		Name: "RootManageSharedAccessKey", PrimaryKey: "key", SecondaryKey: "key", Rights: core.AllRights,
	}}}); err != nil {
		tb.Fatal(err)
	}
	for i := range 3 {
		e := core.Entity{
			Namespace: name, Name: fmt.Sprint("q", i), ID: fmt.Sprint(name, "q", i), Partitions: 1, Settings: core.DefaultSettings(core.Queue),
		}
		if _, err := s.CreateEntity(tb.Context(), e, core.NamespaceQuotas{}); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkNamespaces is how long callers wait for a registry of 1,000 namespaces.
func BenchmarkNamespaces(b *testing.B) {
	b.Run("create", func(b *testing.B) {
		m := crowded(b)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := m.store.CreateNamespace(b.Context(), core.Namespace{Name: fmt.Sprint("n", i), ID: fmt.Sprint("n", i)}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		m := crowded(b)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := m.store.Namespace(b.Context(), fmt.Sprintf("suite-%04d", i%1000)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("list all", func(b *testing.B) {
		m := crowded(b)
		b.ReportAllocs()
		for b.Loop() {
			if ns, err := m.store.Namespaces(b.Context(), "", 2000); err != nil || len(ns) != 1000 {
				b.Fatal(len(ns), err)
			}
		}
	})
	b.Run("delete", func(b *testing.B) {
		m := newBenchmark(b)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			settled(b, m.store, fmt.Sprint("n", i))
			b.StartTimer()
			if err := m.store.DeleteNamespace(b.Context(), fmt.Sprint("n", i)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("empty 1000", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			m := crowded(b)
			b.StartTimer()
			for i := range 1000 {
				if err := m.store.DeleteNamespace(b.Context(), fmt.Sprintf("suite-%04d", i)); err != nil {
					b.Fatal(err)
				}
			}
			eventually.True(b, "the contents of the namespaces are removed", func() bool {
				es, err := m.server.Client().DBSize(b.Context()).Result()
				if err != nil {
					b.Fatal(err)
				}
				return es <= 1010 // their seals, and what every benchmark has
			})
		}
	})
}
