package broker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/crosstown-mq/crosstown/core"
)

// ofSize is a message of so many bytes, whose body begins with a number.
func ofSize(number, size int) *core.Message {
	m := text(fmt.Sprintf("%d.", number))
	m.Body.Bytes = append(m.Body.Bytes, strings.Repeat("x", size-m.Size())...)
	return m
}

func TestMessagesArriveUpToTheCreditInBytesAndOneMore(t *testing.T) {
	for _, mode := range []core.ReceiveMode{core.PeekLock, core.ReceiveAndDelete} {
		for _, session := range []string{"", "s"} {
			t.Run(fmt.Sprintf("mode %d, session %q", mode, session), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *started) {
					b.create(t, "q", func(s *core.Settings) { s.RequiresSession = session != "" })
					for i := range 10 {
						m := ofSize(i, 1000-len(session))
						m.SessionID = session
						b.send(t, "q", m)
					}
					var in *inbox
					if session == "" {
						in = b.receive(t, "q", mode, 0)
						in.AddCredit(0, -core.AnyMessage)
					} else if h, err := b.accept(t.Context(), "q", session, mode); err != nil {
						t.Fatal(err)
					} else {
						in = h.inbox
					}
					next := 0
					for i, step := range []struct {
						messages int
						bytes    int64
						want     int
					}{
						{8, 0, 0},    // no byte, no message
						{0, 2500, 3}, // about 500 bytes too many
						{0, 400, 0},
						{0, 300, 1},
						{0, 700, 0},
						{0, 100_000, 4}, // as many as the credit
						{1, 0, 1},
						{1, -100_000, 0},
					} {
						in.AddCredit(step.messages, step.bytes)
						got := in.take()
						if len(got) != step.want {
							t.Errorf("step %d: got %d messages, want %d", i, len(got), step.want)
						}
						for _, d := range got {
							if !strings.HasPrefix(string(d.Body.Bytes), fmt.Sprint(next, ".")) {
								t.Errorf("step %d: got %.3s, want %d", i, d.Body.Bytes, next)
							}
							next++
						}
					}
					in.drain()
					in.take()
					if got := fmt.Sprint(in.drains()); got != "[1]" {
						t.Errorf("drained: got %s, want [1]", got)
					}
					in.AddCredit(9, 1) // the drain has taken the bytes below zero, too
					if got := in.take(); len(got) != 1 {
						t.Errorf("after the drain: got %d messages, want 1", len(got))
					}
				})
			})
		}
	}
}

// Several partitions and receivers find more than the credit at once: what is too much goes back to its place.
func TestMessagesOfAPartitionStayInOrderUnderCreditInBytes(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *started) {
				random := rand.New(rand.NewPCG(seed, 0))
				b.create(t, "q", partitioned)
				const messages, largest = 200, 256 << 10
				for i := range messages {
					b.send(t, "q", ofSize(i, 100<<random.IntN(12)))
				}
				ins := make([]*inbox, 1+random.IntN(3))
				given, taken := make([]int64, len(ins)), make([]int64, len(ins))
				for i := range ins {
					ins[i] = b.receive(t, "q", core.PeekLock, 0)
				}
				got, last := 0, map[uint16]int64{}
				for i, in := range ins {
					in.hook = func(ds []core.Delivery) { // one call at a time
						for _, d := range ds {
							got++
							taken[i] += int64(d.Size())
							at, number := core.SplitSequenceNumber(d.SequenceNumber)
							if number <= last[at] || d.DeliveryCount != 0 {
								t.Errorf("partition %d: got message %d after %d, %d failed deliveries", at, number, last[at], d.DeliveryCount)
							}
							last[at] = number
						}
					}
					in.AddCredit(messages, -core.AnyMessage)
				}
				for got < messages {
					i := random.IntN(len(ins))
					bytes := int64(1) << random.IntN(22)
					given[i] += bytes
					ins[i].AddCredit(0, bytes)
					synctest.Wait()
					for i := range ins {
						if taken[i] >= given[i]+largest {
							t.Fatalf("got %d bytes for a credit of %d", taken[i], given[i])
						}
					}
				}
			})
		})
	}
}
