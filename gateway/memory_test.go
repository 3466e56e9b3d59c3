package main

import (
	"net"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

// atRest is about what a gateway takes that has nothing to do, in bytes.
const atRest = 46 << 20

func TestThePartsOfMemoryFitIntoIt(t *testing.T) {
	t.Parallel()
	for _, available := range []int64{256 << 20, 512 << 20, 1 << 30, 4 << 30, 64 << 30} {
		p := partsOf(available)
		if sum := p.messages + p.connections + p.cache + p.decoded + 2*p.remembered + atRest; sum > available/10*9 {
			t.Errorf("of %d MiB %d %% are promised, want at most 90", available>>20, sum*100/available)
		}
	}
}

// The memory store keeps as much as the process may use. The start-up lines say so where only the machine limits it.
func TestAMemoryStoreWithoutALimitIsAnnounced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		store, setting string
		want           bool
	}{
		{"memory", "", !memory.IsLimited(0)}, // a container limits it
		{"memory", "1MiB", false},
		{"file", "", false},
	} {
		text := (&announcement{server: &server{c: &config.Config{Store: c.store, Memory: c.setting}, listeners: []net.Listener{listener{address: "127.0.0.1:5672"}}, certificate: &certificate{}}}).text()
		if got := strings.Contains(text, "The store may use this machine's memory"); got != c.want {
			t.Errorf("%s with memory %q: announced is %v, want %v:\n%s", c.store, c.setting, got, c.want, text)
		}
	}
}
