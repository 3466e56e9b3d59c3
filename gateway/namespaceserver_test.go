package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/store/memory"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// interrupted is an admin that stops working after a number of new rules.
type interrupted struct {
	core.Admin
	left int
}

var errInterrupted = errors.New("interrupted")

func (i *interrupted) CreateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	if i.left--; i.left < 0 {
		return core.Rule{}, errInterrupted
	}
	return i.Admin.CreateRule(ctx, id, subscription, r)
}

func TestAnInterruptedDeclarationIsFinishedAndNothingElseIsChanged(t *testing.T) {
	t.Parallel()
	store := memory.New(memory.Options{})
	log := slog.New(slog.DiscardHandler)
	b := broker.New(store, broker.Options{Namespace: "ns", Logger: log})
	id := core.Identity{{Policy: "test", Rights: core.AllRights}}
	c := &config.Contents{Topics: []config.Topic{{Name: "t", Subscriptions: []config.Subscription{{
		Name: "s", Rules: []config.Rule{{Name: "a", SQL: "n = 1"}, {Name: "b", SQL: "n = 2"}, {Name: "c", SQL: "n = 3"}, {Name: "d"}},
	}}}}}
	rules := func() string {
		t.Helper()
		all, err := b.Rules(t.Context(), id, "t/Subscriptions/s", 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range all {
			names = append(names, r.Name)
		}
		return strings.Join(names, " ")
	}
	for _, want := range []string{"a b", "a b c", "a b c d"} {
		err := declare(t.Context(), &interrupted{b, 1}, c, false, log)
		if got := rules(); got != want || (err == nil) != (want == "a b c d") || err != nil && !errors.Is(err, errInterrupted) {
			t.Errorf("got rules %s and error %v, want %s", got, err, want)
		}
	}
	if err := b.DeleteRule(t.Context(), id, "t/Subscriptions/s", "d"); err != nil {
		t.Fatal(err)
	}
	if err := declare(t.Context(), b, c, false, log); err != nil || rules() != "a b c" {
		t.Errorf("a rule that somebody deleted: got %s, %v, want it to stay so", rules(), err)
	}
}
