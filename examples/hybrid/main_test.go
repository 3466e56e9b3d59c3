package main

import (
	"strings"
	"testing"
)

func TestMessagesFlowWithoutTheLink(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), "", &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	const want = `branch sends o-1
headquarters receives o-1
the link is cut
branch sends o-2
branch sends o-3
branch sends o-4
headquarters sends p-1
headquarters sends p-2
the link is restored
headquarters receives o-2
headquarters receives o-3
headquarters receives o-4
branch receives p-1
branch receives p-2
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}
