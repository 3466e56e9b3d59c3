package core_test

import (
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

func TestHopsThatAClientWrites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		written any
		want    uint8 // after the next hop; 0: there is none
	}{
		{nil, 1},
		{uint8(3), 4},
		{int32(3), 4},
		{uint64(3), 4},
		{int64(-5), 1},
		{"7", 1},
		{3.0, 1},
		{true, 1},
		{uint8(core.MaxRemoteHops), 0},
		{int64(1) << 40, 0},
		{uint64(1) << 63, 0},
	} {
		m := &core.Message{}
		if c.written != nil {
			p, err := core.NewProperties(core.Property{Key: core.AnnotationHops, Value: c.written})
			if err != nil {
				t.Fatal(err)
			}
			m.Annotations = p
		}
		if ok := m.CountHop(); ok != (c.want > 0) {
			t.Errorf("%v: a further hop is allowed: %v", c.written, ok)
			continue
		}
		if got, _ := m.Annotations.Get(core.AnnotationHops); c.want > 0 && got != c.want {
			t.Errorf("%v: got %v, want %d", c.written, got, c.want)
		}
	}
}
