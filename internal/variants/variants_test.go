package variants

import (
	"fmt"
	"slices"
	"testing"
)

func TestStoriesTogetherVisitAllPlaces(t *testing.T) {
	places := []string{"file/tcp", "memory/tls", "redis/tcp", "redis/tls", "cluster/tcp", "file/websocket"}
	visits := make(map[string]int)
	for i := range 600 {
		one := chosen(fmt.Sprint("TestStory", i), "", places)
		if len(one) != 1 {
			t.Fatalf("got places %v, want one", one)
		}
		visits[one[0]]++
	}
	for _, p := range places {
		if visits[p] < 50 {
			t.Errorf("%s: %d of 600 stories, want about 100", p, visits[p])
		}
	}
}

func TestVariantsRunWhereTheVariableSays(t *testing.T) {
	places := []string{"file/tcp", "redis/tls", "memory/tcp"}
	if got := chosen("TestStory", "1", places); !slices.Equal(got, places) {
		t.Errorf("all: got %v, want %v", got, places)
	}
	if got := chosen("TestStory", "redis", places); !slices.Equal(got, []string{"redis/tls"}) {
		t.Errorf("on Redis: got %v", got)
	}
	if got := chosen("TestStory", "redis", places[:1]); !slices.Equal(got, places[:1]) {
		t.Errorf("on Redis, without such a place: got %v", got)
	}
}
