package storetest

import (
	"sync"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/eventually"
)

func (s *fixture) setFaults(namespace, basis, rules string, ids ...string) {
	s.Helper()
	s.wantCode("set fault rules", s.store.SetFaults(s.Context(), namespace, basis, rules, ids), "")
}

// wantFaults checks the rules of a namespace and the counts of each.
func (s *fixture) wantFaults(namespace, rules string, counts map[string]core.FaultCounts) {
	s.Helper()
	got, counted, err := s.store.Faults(s.Context(), namespace)
	s.wantCode("fault rules", err, "")
	want(s, "fault rules", got, rules)
	want(s, "rules with counts", len(counted), len(counts))
	for id, n := range counts {
		want(s, "counts of "+id, counted[id], n)
	}
}

func (s *fixture) countFault(c core.FaultCount) (matched int, ok bool) {
	s.Helper()
	matched, ok, err := s.store.CountFault(s.Context(), "ns", c)
	s.wantCode("count", err, "")
	return matched, ok
}

var faultStories = []story{
	{"fault rules are replaced by a change that knows them", func(s *fixture) {
		s.wantFaults("ns", "", nil)
		s.setFaults("ns", "", "first", "a", "b")
		s.wantFaults("ns", "first", map[string]core.FaultCounts{"a": {}, "b": {}})
		s.wantFaults("another", "", nil)
		s.wantCode("a late change", s.store.SetFaults(s.Context(), "ns", "", "other", nil), core.Conflict)
		s.countFault(core.FaultCount{ID: "a", Match: true, Meet: true, Times: 3})
		s.countFault(core.FaultCount{ID: "b", Match: true, Meet: true, Times: 3})
		s.setFaults("ns", "first", "second", "b", "c")
		s.wantFaults("ns", "second", map[string]core.FaultCounts{"b": {Matched: 1, Met: 1}, "c": {}})
		s.setFaults("ns", "second", "none")
		s.wantFaults("ns", "none", nil)
	}},
	{"operations are counted for a fault rule within its bounds", func(s *fixture) {
		s.setFaults("ns", "", "rules", "a", "b")
		_, ok := s.countFault(core.FaultCount{ID: "none", Match: true, Meet: true, Times: 1})
		want(s, "counted for no rule", ok, false)
		c := core.FaultCount{ID: "a", Match: true, Meet: true, Skip: 1, Times: 2}
		for i := range 3 {
			matched, ok := s.countFault(c)
			want(s, "matched", matched, i+1)
			want(s, "counted", ok, true)
		}
		_, ok = s.countFault(c)
		want(s, "counted beyond the bound", ok, false)
		s.countFault(core.FaultCount{ID: "b", Match: true, Times: 1})
		s.wantFaults("ns", "rules", map[string]core.FaultCounts{"a": {Matched: 3, Met: 2}, "b": {Matched: 1}})
		matched, ok := s.countFault(core.FaultCount{ID: "b", Meet: true, Times: 1})
		want(s, "matched before", matched, 1)
		want(s, "counted as met", ok, true)
		s.wantFaults("ns", "rules", map[string]core.FaultCounts{"a": {Matched: 3, Met: 2}, "b": {Matched: 1, Met: 1}})
	}},
	{"no more operations meet a fault rule than it says, however many come at once", func(s *fixture) {
		s.setFaults("ns", "", "rules", "a")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 5 {
					if _, _, err := s.store.CountFault(s.Context(), "ns", core.FaultCount{ID: "a", Match: true, Meet: true, Skip: 10, Times: 7}); err != nil {
						s.Errorf("count: %v", err)
					}
				}
			})
		}
		all.Wait()
		s.wantFaults("ns", "rules", map[string]core.FaultCounts{"a": {Matched: 17, Met: 7}})
	}},
	{"watchers hear of changes of fault rules, and only they do", func(s *fixture) {
		heard := make(chan string, 100)
		s.Cleanup(s.store.WatchFaults(func(namespace string) { heard <- namespace }))
		strayed := make(chan string, 100)
		s.Cleanup(s.store.WatchEntities(func(_, name string) { strayed <- name }))
		s.Cleanup(s.store.WatchNamespaces(func(name string) { strayed <- name }))
		s.setFaults("n1", "", "rules", "a")
		timeout := time.After(bellTimeout)
		for namespace := ""; namespace != "n1"; { // "": changes may have been missed
			select {
			case namespace = <-heard:
			case <-timeout:
				s.Fatal("heard nothing")
			}
		}
		for len(strayed) > 0 {
			want(s, "what other watchers heard", <-strayed, "")
		}
	}},
	{"a deleted namespace takes its fault rules along", func(s *fixture) {
		s.createNamespace(newNamespace("suite", "n1"))
		s.setFaults("n1", "", "rules", "a")
		s.wantCode("delete", s.store.DeleteNamespace(s.Context(), "suite"), "")
		eventually.True(s, "a deleted namespace has no fault rules any more", func() bool {
			rules, _, err := s.store.Faults(s.Context(), "n1")
			s.wantCode("fault rules", err, "")
			return rules == ""
		})
	}},
}
