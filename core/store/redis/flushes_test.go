package redis_test

import (
	"sync"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
)

func TestFlushesAreCountedBySize(t *testing.T) {
	t.Parallel()
	s := open(t, server(t).URL(), redisstore.Options{})
	p := queue(t, s)
	group := make([]*core.Message, 7)
	for i := range group {
		group[i] = &core.Message{}
	}
	for _, a := range p.In(s).Append(t.Context(), [][]*core.Message{group}) {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	var callers sync.WaitGroup
	const each = 50
	for range 4 {
		callers.Go(func() {
			for range each {
				p.In(s).Append(t.Context(), [][]*core.Message{{{}}})
			}
		})
	}
	callers.Wait()
	for _, f := range s.Flushes() {
		sum, least := uint64(0), uint64(0)
		for i, n := range f.Counts {
			sum += n
			if i > 0 {
				least += n * uint64(f.Bounds[i-1]+1)
			} else {
				least += n
			}
		}
		switch {
		case f.Operation != "append":
			if sum != 0 || f.Items != 0 {
				t.Errorf("%s: got %+v", f.Operation, f)
			}
		case f.Items != 7+4*each || sum == 0 || sum > 1+4*each || f.Counts[3] == 0 || least > f.Items:
			t.Errorf("append: got %+v", f)
		}
	}
}
