package main

import (
	"context"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/examples/internal/pagetest"
)

func TestEachPageGetsTheAnswersToItsOwnQuestions(t *testing.T) {
	t.Parallel()
	said := pagetest.Started(t, func(ctx context.Context, out *pagetest.Lines) error { return run(ctx, "", 0, out) })
	pagetest.Tell(t, strings.Fields(said)[1])
}

func TestRomanNumerals(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{
		"1": "I", "4": "IV", "1984": "MCMLXXXIV", " 3999 ": "MMMCMXCIX",
		"0": "That is not a number from 1 to 3999.", "4000": "That is not a number from 1 to 3999.", "x": "That is not a number from 1 to 3999.",
	} {
		if got := roman(number); got != want {
			t.Errorf("%q: got %q, want %q", number, got, want)
		}
	}
}
