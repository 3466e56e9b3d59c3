package messages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/record"
)

// sink notes what is sent to it, and when.
type sink struct {
	began   time.Time
	got     []string
	refuses string // the body that it does not take
}

func (s *sink) Close() {}

func (s *sink) Send(_ context.Context, entity string, ms []*core.Message) []error {
	errs := make([]error, len(ms))
	for i, m := range ms {
		if string(m.Body.Bytes) == s.refuses {
			errs[i] = core.Refuse(core.InvalidArgument, "no")
			continue
		}
		s.got = append(s.got, fmt.Sprintf("%v %s %s", time.Since(s.began), entity, m.Body.Bytes))
	}
	return errs
}

func replayerInto(s *sink, speed float64, moved map[string]string) *replayer {
	s.began = time.Now()
	return &replayer{
		name: "f", speed: speed, moved: moved, target: &command.Target{}, progress: command.NewProgress(io.Discard, "replayed"),
		connect: func(context.Context, string) (link, error) { return s, nil },
	}
}

// recorded are lines of messages that arrived in an entity so many milliseconds after one another.
func recorded(entity string, milliseconds ...int) string {
	var b strings.Builder
	for i, ms := range milliseconds {
		fmt.Fprintf(&b, `{"entity":%q,"sequenceNumber":%d,"state":"active","enqueuedTime":%q,"body":"%d"}`+"\n",
			entity, i+1, time.UnixMilli(1e12+int64(ms)).UTC().Format(time.RFC3339Nano), i)
	}
	return b.String()
}

func TestAReplayKeepsThePace(t *testing.T) {
	t.Parallel()
	input := `{"entity":"q","state":"active","body":"first"}` + "\n" + recorded("q", 0, 0, 1000, 500, 3000)
	for speed, want := range map[float64][]string{
		1:   {"0s q first", "0s q 0", "0s q 1", "1s q 2", "1s q 3", "3s q 4"},
		10:  {"0s q first", "0s q 0", "0s q 1", "100ms q 2", "100ms q 3", "300ms q 4"},
		0.5: {"0s q first", "0s q 0", "0s q 1", "2s q 2", "2s q 3", "6s q 4"},
		0:   {"0s q first", "0s q 0", "0s q 1", "0s q 2", "0s q 3", "0s q 4"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &sink{}
			if err := replayerInto(s, speed, nil).run(t.Context(), strings.NewReader(input)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(s.got, want) {
				t.Errorf("speed %v: got %q, want %q", speed, s.got, want)
			}
		})
	}
}

func TestAnInterruptedReplaySaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		err := replayerInto(s, 1, nil).run(ctx, strings.NewReader("\n"+recorded("q", 0, 1000, 2000, 3000)))
		if err == nil || !strings.Contains(err.Error(), "f: interrupted before line 4: send the other lines with: tail -n +4") {
			t.Errorf("got %v", err)
		}
		if want := []string{"0s q 0", "1s q 1"}; !slices.Equal(s.got, want) {
			t.Errorf("got %q, want %q", s.got, want)
		}
	})
}

func TestAReplaySendsWhereItIsTold(t *testing.T) {
	t.Parallel()
	input := recorded("a", 0) + recorded("T/subscriptions/S", 0) + recorded("b/$DeadLetterQueue", 0) + `{"backup":{"version":1}}` + "\n"
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		err := replayerInto(s, 0, map[string]string{"t/subscriptions/s": "t", "b/$deadletterqueue": "b"}).run(t.Context(), strings.NewReader(input))
		if want := []string{"0s a 0", "0s t 0", "0s b 0"}; err != nil || !slices.Equal(s.got, want) {
			t.Errorf("got %q, %v, want %q", s.got, err, want)
		}
		s = &sink{}
		err = replayerInto(s, 0, map[string]string{"": "all", "a": "other"}).run(t.Context(), strings.NewReader(input))
		if want := []string{"0s other 0", "0s all 0", "0s all 0"}; err != nil || !slices.Equal(s.got, want) {
			t.Errorf("got %q, %v, want %q", s.got, err, want)
		}
	})
}

func TestAReplayNamesTheLineThatIsWrong(t *testing.T) {
	t.Parallel()
	good := recorded("q", 0)
	for bad, want := range map[string]string{
		"hello":                       "f: line 2: the line is not in the format of crosstown record",
		`{"x":1}`:                     "f: line 2: the line is neither a message",
		`{"state":"odd","body":"x"}`:  `f: line 2: the state "odd" is unknown: repair or remove the line`,
		`{"state":"active","body":1}`: "f: line 2: the line is not in the format of crosstown record",
		`{"state":"active","body":"x","bodyEncoding":"rot13"}`:                   `f: line 2: body: bodyEncoding "rot13" is unknown`,
		`{"state":"active","body":"x"}`:                                          "f: line 2: the line has no entity: specify the target with --to ENTITY",
		`{"state":"active","body":"x","entity":"t/Subscriptions/s"}`:             "--to t/Subscriptions/s=ENTITY",
		`{"state":"active","body":"x","entity":"q/$DeadLetterQueue"}`:            "--to q/$DeadLetterQueue=ENTITY",
		`{"state":"active","body":"x","entity":"q","properties":{"a":{"$b":1}}}`: "f: line 2: properties: ",
		`{"state":"active","body":"bad","entity":"q"}`:                           "f: line 2 was not sent: no",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &sink{refuses: "bad"}
			err := replayerInto(s, 0, nil).run(t.Context(), strings.NewReader(good+bad+"\n"))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", bad, err, want)
			}
			if !slices.Equal(s.got, []string{"0s q 0"}) {
				t.Errorf("%s: sent %q", bad, s.got)
			}
		})
	}
	for text, ok := range map[string]bool{"max": true, "10x": true, "0.5": true, "": false, "x": false, "-1x": false, "0": false, "NaN": false, "Inf": false, "fast": false} {
		if _, err := parseSpeed(text); (err == nil) != ok {
			t.Errorf("--speed %q: got %v", text, err)
		}
	}
}

// store is entities that messages arrive in, each with partitions, in order of their numbers.
type store struct {
	mu       sync.Mutex
	entities map[string][][]amqp.Arrival
	added    int
}

func (s *store) add(entity string, partition int, state core.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.entities[entity][partition]
	n := int64(1)
	if len(p) > 0 {
		_, last := core.SplitSequenceNumber(p[len(p)-1].SequenceNumber)
		n = last + 1 + rand.Int64N(2)
	}
	s.added++
	s.entities[entity][partition] = append(p, amqp.Arrival{
		Message:          &core.Message{Body: core.Body{Bytes: fmt.Append(nil, s.added)}},
		BrokerProperties: core.BrokerProperties{SequenceNumber: core.SequenceNumber(uint16(partition), n), EnqueuedTime: time.Now(), State: state},
	})
}

// peek is as brokers do it: on through the partitions, and sometimes fewer than asked for.
func (s *store) peek(_ context.Context, entity string, _ *core.State, from int64, most int) (found []amqp.Arrival, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most = 1 + rand.IntN(most)
	for _, p := range s.entities[entity] {
		for _, a := range p {
			if a.SequenceNumber >= from && len(found) < most {
				found = append(found, a)
			}
		}
	}
	return found, nil
}

// Messages arrive at random in entities of several partitions, before and while they are recorded.
// Each is recorded once; those of a partition in order; those that were there first by time.
func TestARecordingHasEveryMessageOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := &store{entities: map[string][][]amqp.Arrival{"a": make([][]amqp.Arrival, 1), "b": make([][]amqp.Arrival, 5)}}
			arrive := func() {
				time.Sleep(time.Millisecond)
				if entity := []string{"a", "b"}[rand.IntN(2)]; rand.IntN(20) == 0 {
					s.add(entity, rand.IntN(len(s.entities[entity])), core.Scheduled) // is none yet
				} else {
					s.add(entity, rand.IntN(len(s.entities[entity])), core.Active)
				}
			}
			for range rand.IntN(600) {
				arrive()
			}
			var out bytes.Buffer
			atFirst := 0
			ctx, cancel := context.WithCancel(t.Context())
			r := &recorder{
				peek: s.peek, progress: command.NewProgress(io.Discard, "recorded"), idle: func() error { return nil },
				use: func(entity string, a amqp.Arrival) error {
					line := lineOf(entity, a)
					return json.NewEncoder(&out).Encode(&line)
				},
			}
			r.began = func() error { atFirst = r.recorded; return nil }
			done := make(chan error)
			go func() { done <- r.run(ctx, []string{"a", "b"}) }()
			synctest.Wait() // the recorder pauses
			for range rand.IntN(200) {
				arrive()
				synctest.Wait()
			}
			time.Sleep(2 * peekPause)
			synctest.Wait()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			last := map[string]int64{}
			var before time.Time
			n := 0
			for line := range strings.Lines(out.String()) {
				var l record.Line
				if err := json.Unmarshal([]byte(line), &l); err != nil {
					t.Fatal(err)
				}
				partition, _ := core.SplitSequenceNumber(l.SequenceNumber)
				key := fmt.Sprint(l.Message.Entity, partition)
				if l.SequenceNumber <= last[key] && last[key] != 0 {
					t.Errorf("%s: %d after %d", key, l.SequenceNumber, last[key])
				}
				last[key], seen[key+"/"+fmt.Sprint(l.SequenceNumber)] = l.SequenceNumber, true
				if n++; n <= atFirst && l.EnqueuedTime.Before(before) {
					t.Errorf("line %d is of %v, after one of %v", n, l.EnqueuedTime, before)
				}
				before = l.EnqueuedTime
			}
			want := 0
			for _, partitions := range s.entities {
				for _, p := range partitions {
					for _, a := range p {
						if a.State == core.Active {
							want++
						}
					}
				}
			}
			if n != want || len(seen) != want {
				t.Errorf("got %d lines, %d messages, want %d", n, len(seen), want)
			}
		})
	}
}
