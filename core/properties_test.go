package core

import (
	"strconv"
	"testing"
)

// A client may send or set many properties: the time for them may not grow with their square, which would
// be a quarter of an hour here.
func TestManyPropertiesTakeLinearTime(t *testing.T) {
	t.Parallel()
	const n = 300_000
	var before, after []Property
	for i := range n {
		before = append(before, Property{strconv.Itoa(i), "before"})
		after = append(after, Property{strconv.Itoa(i + n/2), "after"})
	}
	p, err := NewProperties(append(before, before...)...)
	if err != nil {
		t.Fatal(err)
	}
	over, err := NewProperties(after...)
	if err != nil {
		t.Fatal(err)
	}
	if p.Len() != n || over.Len() != n {
		t.Fatalf("got %d and %d properties, want %d", p.Len(), over.Len(), n)
	}
	merged, i := p.Merge(over), 0
	for key, v := range merged.All() {
		want := "after"
		if i < n/2 {
			want = "before"
		}
		if key != strconv.Itoa(i) || v != want {
			t.Fatalf("got property %q = %v at %d, want %q", key, v, i, want)
		}
		i++
	}
	if i != 3*n/2 {
		t.Fatalf("got %d properties, want %d", i, 3*n/2)
	}
}
