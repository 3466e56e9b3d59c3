package main

import (
	"strings"
	"testing"
)

func TestEveryClientGetsItsOwnAnswers(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), "", &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	want := `plain: asked "hello" as message 1, was answered "HELLO" to message 1
multiplexed: ann was answered "WHO AM I? ANN" and "THANKS, BYE"
multiplexed: bob was answered "WHO AM I? BOB" and "THANKS, BYE"
multiplexed: cleo was answered "WHO AM I? CLEO" and "THANKS, BYE"
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
