package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// told writes judgements as lines.
func told(js []core.Judgement) string {
	var lines []string
	for _, j := range js {
		line := fmt.Sprintf("%s/%s %v %s", j.Subscription, j.Rule, j.Matched, strings.Join(j.Why, "; "))
		if j.Err != nil {
			line += " | " + core.TextOf(j.Err)
		}
		if j.Message != nil {
			line += fmt.Sprintf(" | %s %s", j.Message.Subject, j.Message.TimeToLive)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func order(region string) *core.Message {
	return with(&core.Message{Subject: "order"}, core.Property{Key: "region", Value: region}, core.Property{Key: "zero", Value: int64(0)})
}

func TestRulesAreTestedWithoutSending(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		b.subscribe(t, "t", "south", []core.Rule{
			sqlRule("b", "region = 'south'", "SET sys.Label = 'for the south'"),
			sqlRule("a", "region = 'north'", ""),
			sqlRule("c", "1 / zero = 1", ""),
			sqlRule("d", "TRUE", "SET x = 1 / zero"),
		}, func(s *core.Settings) { s.DefaultMessageTimeToLive = time.Minute })
		b.subscribe(t, "t", "all", nil)
		b.subscribe(t, "t", "ordered", nil, sessions)
		js, err := b.TestRules(t.Context(), root, "T", order("south"), nil)
		want := strings.Join([]string{
			"all/$Default true the filter matches every message | order 0s",
			"ordered/$Default true the filter matches every message; the subscription dead-letters the message: Session enabled entity doesn't allow a message whose session identifier is null. | order 0s",
			"south/b true region = 'south' is true: region is 'south' (string) | for the south 1m0s",
			"south/d true TRUE is true | Rule 'd': SQL action, position 11: division by zero",
			"south/c false 1 / zero = 1 cannot be evaluated: zero is 0 (long) | Rule 'c': SQL filter, position 3: division by zero",
			"south/a false region = 'north' is false: region is 'south' (string)",
		}, "\n")
		if got := told(js); err != nil || got != want {
			t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
		}
		for _, sub := range []string{"all", "south", "ordered/$DeadLetterQueue"} {
			if ds := b.all(t, "t/Subscriptions/"+sub); len(ds) != 0 {
				t.Errorf("%s holds %d messages", sub, len(ds))
			}
		}
	})
}

func TestRulesAreTriedBeforeTheyAreMade(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		b.subscribe(t, "t", "all", nil)
		trial := []core.Rule{sqlRule("new", "region = 'south'", "REMOVE region"), sqlRule("bad", "region = ", "")}
		js, err := b.TestRules(t.Context(), root, "t", order("south"), trial)
		want := "/new true region = 'south' is true: region is 'south' (string) | order 0s\n" +
			"/bad false  | Rule 'bad': SQL filter, position 10: expected a value but found the end of the expression"
		if got := told(js); err != nil || got != want {
			t.Fatalf("got %v\n%s\nwant\n%s", err, got, want)
		}
		if _, there := js[0].Message.Properties.Get("region"); there {
			t.Error("the action did not remove the property")
		}
		if js, err := b.TestRules(t.Context(), root, "t", order("south"), []core.Rule{}); err != nil || len(js) != 0 {
			t.Errorf("no rules: got %d judgements, %v", len(js), err)
		}
	})
}

func TestRuleTestsAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.createTopic(t, "t")
		b.create(t, "q")
		long := &core.Message{SessionID: strings.Repeat("s", core.MaxKeyLength+1)}
		for _, c := range []struct {
			id    core.Identity
			topic string
			m     *core.Message
			want  core.Code
		}{
			{core.Identity{{Rights: core.Send | core.Listen}}, "t", order("x"), core.Unauthorized},
			{core.Identity{{Rights: core.AllRights, Scope: "other"}}, "t", order("x"), core.Unauthorized},
			{root, "none", order("x"), core.NotFound},
			{root, "q", order("x"), core.NotFound},
			{root, "t", long, core.InvalidArgument},
		} {
			if _, err := b.TestRules(t.Context(), c.id, c.topic, c.m, nil); !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", c.topic, err, c.want)
			}
		}
	})
}
