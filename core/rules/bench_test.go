package rules

import (
	"fmt"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// benchMessage is a typical message: six properties.
func benchMessage(b *testing.B) *core.Message {
	b.Helper()
	return &core.Message{
		MessageID: core.StringID("0123456789"), Subject: "order", CorrelationID: core.StringID("c77"),
		Properties: properties(b, "kind", "order", "region", "eu-west-1", "attempt", int32(3), "total", 12.5, "customer", "c77", "flag", true),
	}
}

// benchmarkSet measures a message against a set of which want copies come, and
// reports how many filters that is in a second.
func benchmarkSet(b *testing.B, subs [][]*Rule, want int) {
	b.Helper()
	m, set := benchMessage(b), NewSet(subs)
	copies := make([]Copy, 0, len(subs))
	b.ReportAllocs()
	for b.Loop() {
		if copies = set.Match(copies[:0], m, Facts{}); len(copies) != want {
			b.Fatalf("got %d copies, want %d", len(copies), want)
		}
	}
	filters := 0
	for _, rules := range subs {
		filters += len(rules)
	}
	b.ReportMetric(float64(filters)*float64(b.N)/b.Elapsed().Seconds(), "filters/s")
}

func benchmarkSQL(b *testing.B, sql string) {
	b.Helper()
	benchmarkSet(b, [][]*Rule{{sqlRule(b, "r", sql, "")}}, 1)
}

func BenchmarkSQL(b *testing.B) {
	for _, c := range []struct{ name, sql string }{
		{"compare", "attempt > 2"},
		{"equal", "region = 'eu-west-1'"},
		{"system", "sys.Label <> 'x'"},
		{"like", "region LIKE 'eu-%-_'"},
		{"complex", "(region IN ('us-east-1', 'eu-west-1') OR flag) AND total * attempt > 30 AND NOT customer LIKE 'x%' AND sys.Label IS NOT NULL"},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkSQL(b, c.sql) })
	}
}

func BenchmarkCorrelation(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		subs := make([][]*Rule, n)
		for i := range subs {
			subs[i] = []*Rule{correlationRule(b, "r", "", core.Correlation{Label: new("order"), Properties: properties(b, "customer", fmt.Sprintf("c%d", i-n/2+77))})}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkSet(b, subs, 1) })
	}
}

// BenchmarkShapes has 10,000 correlation filters of as many shapes.
func BenchmarkShapes(b *testing.B) {
	subs := make([][]*Rule, 10_000)
	for i := range subs {
		subs[i] = []*Rule{correlationRule(b, "r", "", core.Correlation{Properties: properties(b, fmt.Sprintf("name%d", i), "x")})}
	}
	subs[0] = []*Rule{correlationRule(b, "r", "", core.Correlation{Properties: properties(b, "region", "eu-west-1")})}
	benchmarkSet(b, subs, 1)
}

func BenchmarkTrue(b *testing.B) {
	subs := make([][]*Rule, 1000)
	for i := range subs {
		subs[i] = []*Rule{sqlRule(b, "r", "1=1", "")}
	}
	benchmarkSet(b, subs, 1000)
}

// BenchmarkLinear has 2,000 SQL filters that no index helps with: as many as a topic may have.
func BenchmarkLinear(b *testing.B) {
	subs := make([][]*Rule, 2000)
	for i := range subs {
		subs[i] = []*Rule{sqlRule(b, "r", fmt.Sprintf("total > %d AND region LIKE 'eu%%'", i+1000), "")}
	}
	subs[0] = []*Rule{sqlRule(b, "r", "total > 1", "")}
	benchmarkSet(b, subs, 1)
}

// BenchmarkEqualities has 2,000 SQL filters that the index helps with.
func BenchmarkEqualities(b *testing.B) {
	subs := make([][]*Rule, 2000)
	for i := range subs {
		subs[i] = []*Rule{sqlRule(b, "r", fmt.Sprintf("customer = 'c%d' AND total > 1", i), "")}
	}
	benchmarkSet(b, subs, 1)
}

func BenchmarkAction(b *testing.B) {
	benchmarkSet(b, [][]*Rule{{sqlRule(b, "r", "1=1", "SET attempt = attempt + 1; SET sys.Label = 'retry'; REMOVE flag")}}, 1)
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		compileSQL(b, "(region IN ('us-east-1', 'eu-west-1') OR flag) AND total * attempt > 30 AND NOT customer LIKE 'x%' AND sys.Label IS NOT NULL")
	}
}
