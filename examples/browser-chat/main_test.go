package main

import (
	"context"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/examples/internal/pagetest"
)

func TestChatMessagesReachTheirRoom(t *testing.T) {
	t.Parallel()
	said := pagetest.Started(t, func(ctx context.Context, out *pagetest.Lines) error { return run(ctx, "", 0, out) })
	pagetest.Tell(t, strings.Fields(said)[1])
}
