package wake

import (
	"slices"
	"testing"
)

func TestNamesAreTakenOnceAndWake(t *testing.T) {
	n := NewNames()
	n.Keep("a")
	select {
	case <-n.Woken:
		t.Error("Keep wakes the reader")
	default:
	}
	n.Note("b")
	<-n.Woken
	names, all := n.Take()
	if slices.Sort(names); !slices.Equal(names, []string{"a", "b"}) || all {
		t.Errorf("took %q, all %v", names, all)
	}
	n.Note("")
	if names, all := n.Take(); len(names) != 1 || !all {
		t.Errorf("after the name of all: took %q, all %v", names, all)
	}
	if names, all := n.Take(); len(names) > 0 || all {
		t.Errorf("took twice: %q, all %v", names, all)
	}
}
