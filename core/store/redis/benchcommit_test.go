package redis_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// BenchmarkCommit is a transaction that completes a message and sends one to the
// same queue and one to another entity, so many times in one commit; beside it
// the same without a transaction, and so without the step being one. What is
// counted as messages are operations.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 10} {
		moved := func(destination string) []*core.Message {
			ms := make([]*core.Message, size)
			for i := range ms {
				ms[i] = kilobyte()
				if destination != "" {
					ms[i].Transit = &core.Transit{Destination: destination}
				}
			}
			return ms
		}
		run := func(name string, step func(m *benchmark, ds []core.Delivery)) {
			b.Run(name+"/operations="+strconv.Itoa(3*size), func(b *testing.B) {
				m := newBenchmark(b)
				m.append(size)
				m.begin()
				n := 0
				for b.Loop() {
					step(m, m.lock(size))
					n += 3 * size
				}
				m.end(n)
			})
		}
		run("transaction", func(m *benchmark, ds []core.Delivery) {
			_, err := m.queue.Commit(context.Background(), core.Work{
				Settlements: settlementsOf(ds), Messages: moved(""), Transfers: moved("elsewhere"),
			})
			if err != nil {
				m.Fatal(err)
			}
		})
		run("separately", func(m *benchmark, ds []core.Delivery) {
			m.complete(ds)
			transfer := m.queue
			transfer.Sub = core.Transfer
			for _, p := range []core.Partition{m.queue, transfer} {
				if a := p.In(m.store).Append(context.Background(), [][]*core.Message{moved("")}); a[0].Err != nil {
					m.Fatal(a[0].Err)
				}
			}
		})
	}
}
