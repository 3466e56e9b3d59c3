package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/plugins/host"
)

// forgetful is a store that keeps no messages.
type forgetful struct{ core.Store }

func (s forgetful) Partition(r core.Ref, p core.Policy) core.Partition {
	inner := s.Store.Partition(r, p)
	inner.Operations = forgetfulPartition{inner.Operations}
	return inner
}

type forgetfulPartition struct{ core.Operations }

func (forgetfulPartition) Append(_ context.Context, groups [][]*core.Message) []core.Appended {
	answers := make([]core.Appended, len(groups))
	for i, g := range groups {
		answers[i].Numbers = make([]int64, len(g))
	}
	return answers
}

// BenchmarkPipeline is a send of so many messages of 1 KiB with five properties
// to a queue with so many stages, all of one plugin, which lets everything pass.
// The store keeps nothing; cpu is that of both processes, latency that of a send.
func BenchmarkPipeline(b *testing.B) {
	program := buildProgram(b, "../plugins/host/testdata/rogue")
	for _, manner := range []string{"pass", "pass-body"} {
		for _, stages := range []int{0, 1, 3} {
			for _, batch := range []int{1, 10, 100} {
				if stages == 0 && manner != "pass" {
					continue
				}
				b.Run(fmt.Sprintf("%s/stages=%d/batch=%d", manner, stages, batch), func(b *testing.B) {
					benchmarkPipeline(b, program, manner, stages, batch)
				})
			}
		}
	}
}

func benchmarkPipeline(b *testing.B, program, manner string, stages, batch int) {
	// The gateway's heap is not as small as that of a test: its collector runs seldom.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	h := host.New([]host.Options{{Name: "pass", Path: program, Args: []string{manner}}}, nil)
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) })
	defer running.Wait()
	defer cancel()
	if err := h.Launched(ctx); err != nil {
		b.Fatal(err)
	}
	router, err := h.Router("pass")
	if err != nil {
		b.Fatal(err)
	}
	line := broker.Pipeline{Entity: "q"}
	for range stages {
		line.Ingress = append(line.Ingress, broker.Stage{Name: "pass", Router: router})
	}
	br := broker.New(forgetful{memory.New(memory.Options{})}, broker.Options{Namespace: "ns", Pipelines: []broker.Pipeline{line}})
	root := core.Identity{{Policy: "root", Rights: core.AllRights}}
	if _, err := br.CreateEntity(ctx, root, core.Queue, "q", core.DefaultSettings(core.Queue), nil); err != nil {
		b.Fatal(err)
	}
	s, err := br.OpenSender(ctx, root, core.At("q"), nil)
	if err != nil {
		b.Fatal(err)
	}
	groups := ordersOf(b, batch)
	pid := h.States()[0].PID
	var times []time.Duration
	b.ReportAllocs()
	cpu := cpuOf(b, pid)
	for b.Loop() {
		began := time.Now()
		if a := s.Send(ctx, groups); a[0].Err != nil {
			b.Fatal(a[0].Err)
		}
		times = append(times, time.Since(began))
	}
	cpu = cpuOf(b, pid) - cpu
	slices.Sort(times)
	messages := float64(b.N * batch)
	b.ReportMetric(float64(cpu.Nanoseconds())/1000/messages, "cpu-µs/msg")
	b.ReportMetric(messages/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "p99-µs")
}

func ordersOf(b *testing.B, n int) [][]*core.Message {
	b.Helper()
	properties, err := core.NewProperties(
		core.Property{Key: "region", Value: "eu"}, core.Property{Key: "amount", Value: int64(1299)}, core.Property{Key: "express", Value: true},
		core.Property{Key: "tries", Value: int32(2)}, core.Property{Key: "customer", Value: "c-4711"},
	)
	if err != nil {
		b.Fatal(err)
	}
	groups := make([][]*core.Message, n)
	for i := range groups {
		groups[i] = []*core.Message{{
			MessageID: core.StringID("order-" + strconv.Itoa(i)), ContentType: "application/json", Properties: properties,
			Body: core.Body{Bytes: bytes.Repeat([]byte("x"), 1024)},
		}}
	}
	return groups
}

// cpuOf is the time that this process and another have used.
func cpuOf(b *testing.B, pid string) time.Duration {
	b.Helper()
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	total := own.Utime.Nano() + own.Stime.Nano()
	threads, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		b.Skip("needs /proc")
	}
	for _, t := range threads {
		line, _ := os.ReadFile("/proc/" + pid + "/task/" + t.Name() + "/schedstat") // the thread may have ended
		if f := strings.Fields(string(line)); len(f) > 0 {
			n, _ := strconv.ParseInt(f[0], 10, 64)
			total += n
		}
	}
	return time.Duration(total)
}
