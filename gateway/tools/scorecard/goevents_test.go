package main

import (
	"slices"
	"strings"
	"testing"
)

const transcript = `{"Action":"start"}
{"Action":"output","Output":"2026/11/21 15:26:18 Failed to load env file\n"}
{"Action":"run","Test":"TestGood"}
{"Action":"run","Test":"TestGood/one"}
{"Action":"pass","Test":"TestGood/one"}
{"Action":"pass","Test":"TestGood"}
{"Action":"run","Test":"TestBad"}
{"Action":"run","Test":"TestBad/one"}
{"Action":"output","Test":"TestBad/one","Output":"    bad_test.go:7: got 1\n"}
{"Action":"fail","Test":"TestBad/one"}
{"Action":"pass","Test":"TestBad/two"}
{"Action":"fail","Test":"TestBad"}
{"Action":"run","Test":"TestSkips"}
{"Action":"output","Test":"TestSkips","Output":"    skip_test.go:12: no injector\n"}
{"Action":"skip","Test":"TestSkips"}
{"Action":"run","Test":"TestSkipsAPart"}
{"Action":"pass","Test":"TestSkipsAPart/one"}
{"Action":"skip","Test":"TestSkipsAPart/two"}
{"Action":"pass","Test":"TestSkipsAPart"}
{"Action":"run","Test":"TestPanics"}
{"Action":"output","Test":"TestPanics","Output":"panic: nil\n"}
this is not JSON
{"Action":"fail"}
`

func TestEventsBecomeResults(t *testing.T) {
	t.Parallel()
	results := parse(strings.NewReader(transcript))
	for name, want := range map[string]result{
		"TestGood":       {outcome: passed},
		"TestBad":        {outcome: failed, parts: []string{"one"}},
		"TestSkips":      {outcome: skipped, why: "no injector"},
		"TestPanics":     {outcome: failed},
		"TestSkipsAPart": {outcome: skipped, parts: []string{"two"}},
	} {
		got := results[name]
		if got.outcome != want.outcome || !slices.Equal(got.parts, want.parts) || want.why != "" && got.why != want.why {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if len(results) != 5 {
		t.Errorf("got %d results, want 5", len(results))
	}
}
