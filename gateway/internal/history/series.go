package history

import (
	"math"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core/broker"
)

const (
	fineSamples   = int(time.Hour / Interval)
	coarseSamples = 24 * 60
	coarse        = time.Minute
)

// Sample has the counts of an entity, and its arrivals and departures since its history began. If
// two samples are far apart, nothing changed between them.
type Sample struct {
	At                            uint32 // Unix seconds
	In, Out                       int64
	Active, Scheduled, DeadLetter uint32 // at most the largest uint32
}

func (s Sample) at() uint32 { return s.At }

type Vitals struct {
	At        uint32  // Unix seconds
	LatencyMS float64 // latency of the store
	InUse     int64   // memory of the process in bytes
	Messages  int64   // bytes of messages in progress
}

func (v Vitals) at() uint32 { return v.At }

type series struct {
	name    string
	used    time.Time // when a message last arrived or left, or a client read the history
	asked   time.Time
	counted time.Time

	accepted int64 // accepted by this gateway since the last sample
	stirs    bool  // counts may change without use, because a message is locked or scheduled, or arrived recently

	enqueued, active, scheduled int64 // from the last count
	last                        Sample
	samples                     kept[Sample]
}

// take adds a sample, and returns how many messages came and left since the last count. A scheduled
// message comes twice: when it is scheduled, and when it becomes active.
func (s *series) take(c *broker.Count, now time.Time) (came, left int64) {
	switch {
	case s.counted.IsZero():
		if came = min(s.accepted, c.Enqueued); came > 0 {
			came, left = s.begin(c, came, now)
		}
	case c.Enqueued >= s.enqueued:
		came = c.Enqueued - s.enqueued
		left = max(came-(c.Active-s.active)-max(c.Scheduled-s.scheduled, 0), 0)
	}
	s.stirs = c.Locked > 0 || c.Scheduled > 0 || c.Consumers > 0 || came+left > 0
	s.enqueued, s.active, s.scheduled = c.Enqueued, c.Active, c.Scheduled
	s.enter(Sample{In: s.last.In + came, Out: s.last.Out + left, Active: clamp(c.Active), Scheduled: clamp(c.Scheduled), DeadLetter: clamp(c.DeadLetter)}, now)
	return came, left
}

// begin adds a sample for the time before this gateway's first messages. If the entity has had no
// others, it was empty at that time.
func (s *series) begin(c *broker.Count, first int64, now time.Time) (came, left int64) {
	if first == c.Enqueued {
		left = max(first-c.Active-c.Scheduled, 0)
	}
	s.enter(Sample{Active: clamp(c.Active - first + left), DeadLetter: clamp(c.DeadLetter)}, now.Add(-Interval))
	return first, left
}

func seconds(t time.Time) uint32 { return uint32(t.Unix()) }

func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// enter first repeats the last sample if nothing has changed for longer than an interval.
func (s *series) enter(next Sample, now time.Time) {
	next.At = seconds(now)
	if before := seconds(now.Add(-Interval)); !s.counted.IsZero() && s.last.At < before {
		s.last.At = before
		s.samples.keep(s.last)
	}
	s.last, s.counted = next, now
	s.samples.keep(next)
}

func (s *series) all(now time.Time) []Sample {
	all := s.samples.all(now)
	if at := seconds(now); len(all) > 0 && at > s.last.At+uint32(Interval.Seconds()) {
		last := s.last
		last.At = at
		all = append(all, last)
	}
	return all
}

// kept has all samples of the last hour, and one per minute of the day before.
type kept[T interface{ at() uint32 }] struct{ fine, coarse []T }

func (k *kept[T]) keep(x T) {
	k.fine = limited(k.fine, x, fineSamples)
	if n := len(k.coarse); n == 0 || x.at()-k.coarse[n-1].at() >= uint32(coarse.Seconds()) {
		k.coarse = limited(k.coarse, x, coarseSamples)
	}
}

// limited appends x, and removes the oldest samples beyond most.
func limited[T any](samples []T, x T, most int) []T {
	return append(slices.Delete(samples, 0, max(0, len(samples)+1-most)), x)
}

func (k *kept[T]) all(now time.Time) (all []T) {
	for _, x := range k.coarse {
		if len(k.fine) > 0 && x.at() >= k.fine[0].at() {
			break
		}
		if x.at() > seconds(now.Add(-coarseSamples*coarse)) {
			all = append(all, x)
		}
	}
	return append(all, k.fine...)
}
