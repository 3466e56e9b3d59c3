package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

type story struct {
	name string
	tell func(*fixture)
}

// RunView is Run with views of stores, whose clock differs from the stores' clock.
func RunView(t *testing.T, open func(t *testing.T, clock *Clock) core.Store) {
	t.Helper()
	Run(t, func(t *testing.T, clock *Clock) core.Store {
		return open(t, NewClock()).WithTime(func(time.Time) time.Time { return clock.Now() })
	})
}

// Run runs every test as a parallel subtest. open returns an empty store that uses the clock, and
// closes it when its test ends.
func Run(t *testing.T, open func(t *testing.T, clock *Clock) core.Store) {
	t.Helper()
	stories := slices.Concat(
		appendStories, roundTripStories, duplicateStories, scheduleStories,
		lockStories, settleStories, deferStories, deadLetterStories, expiryStories,
		browseStories, bellStories, catalogueStories, namespaceStories, quotaStories, crowdStories,
		sessionStories, sessionIDStories, sessionStateStories, sessionDeferStories, sessionBellStories, takeOverStories,
		publishStories, fenceStories, duePublishStories, moveStories, transferStories,
		subscriptionStories, sessionCrowdStories, sweepStories, commitStories, backoffStories, pauseStories, activateStories, rateStories, clearStories, historyStories, exportStories,
	)
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			clock := NewClock()
			story.tell(newFixture(t, open(t, clock), clock))
		})
	}
}
