package streams

import (
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

func of(namespace string) core.Identity {
	return core.Identity{{Namespace: namespace, NamespaceID: namespace, Rights: core.Listen}}
}

// openAll opens as much as it may, and returns how to close it, and the refusal.
func openAll(s *Limit, id core.Identity, places int) (closes []func(), refusal error) {
	for {
		end, err := s.Open(id, places)
		if err != nil {
			return closes, err
		}
		closes = append(closes, end)
	}
}

func TestANamespaceLeavesAsManyPlacesAsItHas(t *testing.T) {
	t.Parallel()
	s := New(16)
	for _, c := range []struct {
		namespace string
		want      int
	}{{"one", 8}, {"two", 4}, {"three", 2}, {"four", 1}} {
		got, err := openAll(s, of(c.namespace), FeedPlaces)
		if len(got) != c.want || core.CodeOf(err) != core.Busy || !strings.Contains(core.TextOf(err), "namespace '"+c.namespace+"'") {
			t.Errorf("%s: %d are open, want %d; then %v", c.namespace, len(got), c.want, err)
		}
	}
	if got, err := openAll(s, of("five"), FeedPlaces); len(got) != 1 || core.CodeOf(err) != core.Busy {
		t.Errorf("the last place: %d are open, then %v", len(got), err)
	}
}

func TestFeedsAndEventStreamsShareTheirPlaces(t *testing.T) {
	t.Parallel()
	s := New(4 * EventStreamPlaces)
	feeds, _ := openAll(s, of("one"), FeedPlaces)
	if len(feeds) != 2*EventStreamPlaces {
		t.Fatalf("%d feeds are open, want %d", len(feeds), 2*EventStreamPlaces)
	}
	if _, err := s.Open(of("one"), EventStreamPlaces); core.CodeOf(err) != core.Busy {
		t.Errorf("a stream beside all feeds: got %v", err)
	}
	if streams, _ := openAll(s, of("two"), EventStreamPlaces); len(streams) != 1 {
		t.Errorf("another namespace has %d streams, want 1", len(streams))
	}
	for _, end := range feeds {
		end()
	}
	streams, err := openAll(s, of("three"), EventStreamPlaces)
	if len(streams) != 2 || !strings.Contains(core.TextOf(err), "namespace") {
		t.Errorf("once the feeds are closed: %d streams, then %v", len(streams), err)
	}
	if _, err := s.Open(of("four"), 4*EventStreamPlaces); core.CodeOf(err) != core.Busy || strings.Contains(core.TextOf(err), "namespace") {
		t.Errorf("more than are free: got %v", err)
	}
}
