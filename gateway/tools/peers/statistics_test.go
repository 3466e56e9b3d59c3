package main

import (
	"math"
	"testing"
)

func TestAnIntervalHasItsConfidence(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n, k int
		has  float64
	}{
		// Tables of binomial confidence intervals for a median have these.
		{1, 0, 0},
		{2, 0, 0.5},
		{3, 0, 0.75},
		{5, 0, 0.9375},
		{6, 0, 0.96875},
		{8, 0, 0.9921875},
		{9, 1, 0.9609375},
		{10, 1, 0.978515625},
		{12, 2, 0.96142578125},
		{20, 5, 0.9586105346},
	} {
		if k, has := cutOff(tt.n); k != tt.k || math.Abs(has-tt.has) > 1e-9 {
			t.Errorf("%d measurements: got %d left out and %v, want %d and %v", tt.n, k, has, tt.k, tt.has)
		}
	}
}

func TestEstimates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		want   estimate
	}{
		{[]float64{7}, estimate{7, 7, 7, 1}},
		{[]float64{3, 1, 2}, estimate{2, 1, 3, 3}},
		{[]float64{4, 1, 3, 2}, estimate{2.5, 1, 4, 4}},
		{[]float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 100}, estimate{6.5, 3, 10, 10}},
	} {
		if got := estimateOf(tt.values); got != tt.want {
			t.Errorf("%v: got %+v, want %+v", tt.values, got, tt.want)
		}
	}
	if got := estimateOf(nil); !math.IsNaN(got.median) || got.n != 0 {
		t.Errorf("of nothing: got %+v", got)
	}
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	t.Parallel()
	two, four, eight, none := 2.0, 4.0, 8.0, 0.0
	got := ratios([]*float64{&two, nil, &eight, &two}, []*float64{&four, &four, &two, &none})
	if len(got) != 2 || got[0] != 0.5 || got[1] != 4 {
		t.Errorf("got %v, want 0.5 and 4", got)
	}
}

func TestFiguresHaveThreeDigits(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{
		0: "0", 0.01234: "0.0123", 0.99: "0.990", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234: "1,230", 51103: "51,100", 1234567: "1,230,000",
		math.NaN(): "–", math.Inf(1): "–",
	} {
		if got := figure(x); got != want {
			t.Errorf("%v: got %s, want %s", x, got, want)
		}
	}
}
