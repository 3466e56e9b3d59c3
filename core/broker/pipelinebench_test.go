package broker

import (
	"context"
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// usher lets every message pass, in no time.
type usher struct{ verdicts []core.Verdict }

func (u *usher) Route(_ context.Context, _ core.Stage, ms []*core.Message) ([]core.Verdict, error) {
	return u.verdicts[:len(ms)], nil
}

// BenchmarkSendThrough is what stages cost the broker itself, per message: their
// routers let all pass at once, and the store does nothing.
func BenchmarkSendThrough(b *testing.B) {
	for _, stages := range []int{0, 1, 3} {
		for _, size := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("stages=%d/batch=%d", stages, size), func(b *testing.B) {
				u := &usher{make([]core.Verdict, size)}
				line := Pipeline{Entity: "q"}
				for range stages {
					line.Ingress = append(line.Ingress, Stage{Name: "usher", Router: u})
				}
				br := New(swallowing{memory.New(memory.Options{})}, Options{Namespace: "ns", Pipelines: []Pipeline{line}})
				b.Cleanup(br.stop)
				if _, err := br.CreateEntity(b.Context(), root, core.Queue, "q", core.DefaultSettings(core.Queue), nil); err != nil {
					b.Fatal(err)
				}
				s, err := br.OpenSender(b.Context(), root, core.At("q"), nil)
				if err != nil {
					b.Fatal(err)
				}
				groups := each(numbered(size)...)
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					s.Send(b.Context(), groups)
					n += size
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/message")
			})
		}
	}
}
