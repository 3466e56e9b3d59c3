package main

import (
	"strings"
	"testing"
)

func TestOrdersReachTheirWarehouses(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), "", &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"placed o-1 for region eu at intake\n",
		"packed o-1 for region eu in Dublin: number 1 of intake, ",
		"packed o-2 for region us in Reno: number 2 of intake, ",
		"packed o-4 for region eu in Dublin: number 4 of intake, ",
		"subscription audit holds 4\n", "subscription eu holds 0\n", "subscription us holds 0\n",
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("want once %q", want)
		}
	}
	if strings.Contains(out.String(), "packed o-3") {
		t.Error("an order that no region wants was packed")
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
