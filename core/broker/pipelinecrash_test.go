package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// gambler is a router whose verdicts are chance: asked twice it says two things.
// Now and then it says nothing. It never drops a message.
type gambler struct {
	mu     sync.Mutex
	r      *rand.Rand
	silent int // of a hundred calls
}

func (g *gambler) Route(_ context.Context, _ core.Stage, ms []*core.Message) ([]core.Verdict, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.r.IntN(100) < g.silent {
		return nil, errDown
	}
	verdicts := make([]core.Verdict, len(ms))
	for i := range verdicts {
		switch g.r.IntN(4) {
		case 0:
			verdicts[i].Routes = []string{"x"}
		case 1:
			verdicts[i].Action = core.VerdictDeadLetter
		case 2:
			verdicts[i].Routes = []string{"y"}
		}
	}
	return verdicts, nil
}

func (g *gambler) quiet(silent int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent = silent
}

// balances looks for messages numbered from 0 in all entities together: each is
// there once.
func balances(t *testing.T, store core.Store, n int) {
	t.Helper()
	counts := map[string]int{}
	entities, err := store.Entities(t.Context(), "ns", core.Listing{Kind: core.Queue}, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entities {
		for sub := range core.SubQueues {
			for index := range entities[i].Partitions {
				ds, err := partition(&entities[i], uint16(index), sub).In(store).Peek(t.Context(), core.PeekRequest{Max: 100 * n})
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range ds {
					counts[string(d.Body.Bytes)]++
				}
				if len(ds) > 0 && (sub == core.Transfer || sub == core.TransferDeadLetter) {
					t.Errorf("%s%s still holds %d messages", entities[i].Name, sub.Suffix(), len(ds))
				}
			}
		}
	}
	for i := range n {
		if c := counts[fmt.Sprint(i)]; c != 1 {
			t.Errorf("message %d is there %d times", i, c)
		}
	}
}

// Gateways that forward through a router which never says the same thing twice
// lose calls and answers, and die; each message is somewhere, once.
func TestMovesThroughARouterHappenOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, faults := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
				g := &gambler{r: rand.New(rand.NewPCG(seed, 2)), silent: 30}
				lines := []Pipeline{through("b", g, Unavailable(seed%3/2*2)), through("x", g, Refuse)}
				store := memory.New(memory.Options{})
				admin := New(store, Options{Namespace: "ns"})
				defer admin.stop()
				s := newStarted(admin, &faulty{Store: store}, nil)
				s.create(t, "x", partitioned)
				s.create(t, "y")
				s.create(t, "b", func(s *core.Settings) { s.RequiresDuplicateDetection = true })
				s.create(t, "a", forwardTo("b"), partitioned)
				var mu sync.Mutex
				fault := func(string) (before, after bool) {
					mu.Lock()
					defer mu.Unlock()
					n := faults.IntN(10)
					return n == 0, n == 1
				}
				gateways := []*gateway{startGateway(store, lines...), startGateway(store, lines...)}
				for _, g := range gateways {
					g.store.set(fault)
				}
				const messages = 1000
				to := s.sender(t, "a")
				for sent := 0; sent < messages; {
					ms := make([]*core.Message, 0, 100)
					for range min(1+r.IntN(100), messages-sent) {
						ms = append(ms, text(fmt.Sprint(sent)))
						sent++
					}
					for _, a := range to.Send(t.Context(), each(ms...)) {
						if a.Err != nil {
							t.Fatal(a.Err)
						}
					}
					time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
					if r.IntN(4) == 0 {
						i := r.IntN(len(gateways))
						gateways[i].kill()
						gateways[i] = startGateway(store, lines...)
						gateways[i].store.set(fault)
					}
				}
				g.quiet(0)
				for _, g := range gateways {
					g.store.set(nil)
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				for _, g := range gateways {
					g.end()
				}
				balances(t, store, messages)
			})
		})
	}
}

// A sender whose answers are lost sends again. Where duplicates are detected each
// message is somewhere once, whatever the router says the second time.
func TestWhatIsSentAgainThroughARouterIsThereOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, faults := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
				g := &gambler{r: rand.New(rand.NewPCG(seed, 2)), silent: 20}
				store := memory.New(memory.Options{})
				way := startGateway(store, through("q", g, []Unavailable{Refuse, Park}[seed%2]))
				s := newStarted(way.Broker, &faulty{Store: store}, nil)
				s.create(t, "x")
				s.create(t, "y", partitioned)
				s.create(t, "q", partitioned, func(s *core.Settings) {
					s.RequiresDuplicateDetection, s.DuplicateDetectionHistoryTimeWindow = true, time.Hour
				})
				var mu sync.Mutex
				way.store.set(func(string) (before, after bool) {
					mu.Lock()
					defer mu.Unlock()
					n := faults.IntN(8)
					return n == 0, n == 1
				})
				const messages = 400
				to := s.sender(t, "q")
				left := map[int]bool{}
				for i := range messages {
					left[i] = true
				}
				for len(left) > 0 {
					var groups [][]*core.Message
					var ids []int
					for i := range messages {
						if left[i] && r.IntN(2) == 0 {
							m := text(fmt.Sprint(i))
							m.MessageID = core.StringID(fmt.Sprint(i))
							groups, ids = append(groups, []*core.Message{m}), append(ids, i)
						}
					}
					for i, a := range to.Send(t.Context(), groups) {
						if a.Err == nil {
							delete(left, ids[i])
						}
					}
					time.Sleep(100 * time.Millisecond)
				}
				g.quiet(0)
				way.store.set(nil)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				way.end()
				balances(t, store, messages)
			})
		})
	}
}
