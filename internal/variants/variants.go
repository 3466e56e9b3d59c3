// Package variants chooses the engine and the transport of a test ("story").
//
// All engines pass one conformance suite, and every transport carries the same protocol. So each
// story runs with only one combination (a place, such as "redis/tls"), which the hash of its name
// selects. Together, the stories cover all places.
package variants

import (
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// variable determines in which of its places a story runs: if it is unset, in one; if it is "1", in
// all; if it is "redis", in one, which is on Redis if the story has such a place.
const variable = "E2E_ALL"

func All() bool { return os.Getenv(variable) == "1" }

// Each runs a story as a subtest for each of its chosen places, such as "redis/tls". Without a
// Redis, the story runs in its first place that needs none.
func Each(t *testing.T, story func(t *testing.T, place string), places ...string) {
	t.Helper()
	for _, place := range chosen(t.Name(), os.Getenv(variable), places) {
		if !redistest.Installed() && onRedis(place) {
			if i := slices.IndexFunc(places, func(p string) bool { return !onRedis(p) }); i >= 0 {
				instead := places[i]
				t.Run(place, func(t *testing.T) { t.Skipf("redis-server is not on the PATH: the story is told on %s", instead) })
				if All() {
					continue // the story runs in that place anyway
				}
				place = instead
			}
		}
		t.Run(place, func(t *testing.T) { story(t, place) })
	}
}

func chosen(name, all string, places []string) []string {
	if all == "redis" && slices.ContainsFunc(places, onRedis) {
		places = slices.DeleteFunc(slices.Clone(places), func(p string) bool { return !onRedis(p) })
	}
	if all == "1" {
		return places
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	i := int(h.Sum32() % uint32(len(places)))
	return places[i : i+1]
}

func onRedis(place string) bool {
	engine, _, _ := strings.Cut(place, "/")
	return engine == "redis" || engine == "cluster"
}
