package main

import (
	"strings"
	"testing"
)

func TestBothWays(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), "", &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	const want = `the hook answers 401 Unauthorized
the hook answers 202 Accepted
the hook answers 202 Accepted
message 72d3162e, event push: {"ref":"refs/heads/main"}
request order-7, attempt 2, region eu: a parcel
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
