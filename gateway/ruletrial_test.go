package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// randomRules are rules of subscription s in a configuration.
func randomRules(r *rand.Rand) string {
	var b strings.Builder
	for i := range 1 + r.IntN(3) {
		filter := []string{
			fmt.Sprintf("sql: amount > %d", r.IntN(20)), fmt.Sprintf("sql: region = 'r%d' OR body.n = %d", r.IntN(4), r.IntN(5)),
			fmt.Sprintf("correlation: {label: l%d}", r.IntN(3)), "match-none: true", fmt.Sprintf("sql: 10 / (amount - %d) > 0", r.IntN(20)),
		}[r.IntN(5)]
		action := ""
		if r.IntN(2) == 0 {
			action = fmt.Sprintf(", action: SET x = %d", r.IntN(2))
		}
		fmt.Fprintf(&b, "          - {name: rule%d, %s%s}\n", i, filter, action)
	}
	return b.String()
}

// TestRuleTrialsPrintWhatHappens compares what rule test --rules prints for random rules with what two gateways
// deliver, one with the old rules and one with the new.
func TestRuleTrialsPrintWhatHappens(t *testing.T) {
	t.Parallel()
	const messages = 60
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		configured := func() string {
			return writeFile(t, "c.yaml", "topics:\n  - name: events\n    subscriptions:\n      - name: s\n        dead-lettering-on-filter-evaluation-exceptions: false\n        rules:\n"+randomRules(r))
		}
		before, after := configured(), configured()
		var lines strings.Builder
		for i := range messages {
			fmt.Fprintf(&lines, `{"sequenceNumber":%d,"messageId":"m%d","state":"active","deliveryCount":0,"subject":"l%d","contentType":"application/json","properties":{"amount":%d,"region":"r%d"},"body":"{\"n\":%d}"}`+"\n",
				i+1, i, r.IntN(3), r.IntN(20), r.IntN(4), r.IntN(5))
		}
		recording := writeFile(t, "events.jsonl", lines.String())
		var copies [2]map[string][]string // by message id
		var told struct{ Messages, Added, Removed, Changed int }
		for i, file := range []string{before, after} {
			g := startGateway(t, "--store", "memory", "--config", file)
			if i == 0 {
				out := g.command(t, "", "rule", "test", "events", "--rules", after, "--record", recording, "--json")
				if err := json.Unmarshal([]byte(out), &told); err != nil {
					t.Fatal(err, out)
				}
			}
			g.command(t, "", "replay", recording, "--to", "events", "--speed", "max")
			copies[i] = map[string][]string{}
			_, out, _ := g.try(t, g.connection, "", "peek", "events/Subscriptions/s", "--count", "0", "--json")
			for line := range strings.Lines(out) {
				var m struct {
					MessageID  string
					Properties json.RawMessage
				}
				if err := json.Unmarshal([]byte(line), &m); err != nil {
					t.Fatal(err, line)
				}
				copies[i][m.MessageID] = append(copies[i][m.MessageID], string(m.Properties))
			}
			g.halt(t)
		}
		added, removed, changed := 0, 0, 0
		for i := range messages {
			id := fmt.Sprintf("m%d", i)
			switch was, is := copies[0][id], copies[1][id]; {
			case was == nil && is != nil:
				added++
			case was != nil && is == nil:
				removed++
			case !sameStrings(was, is):
				changed++
			}
		}
		if told.Messages != messages || told.Added != added || told.Removed != removed || told.Changed != changed {
			t.Errorf("seed %d: told %+v; delivered: %d added, %d removed, %d changed", seed, told, added, removed, changed)
		}
	}
}

// sameStrings compares without the order.
func sameStrings(a, b []string) bool {
	count := map[string]int{}
	for _, s := range a {
		count[s]++
	}
	for _, s := range b {
		count[s]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestRuleTrialsSayWhy(t *testing.T) {
	t.Parallel()
	topic := func(subscriptions string) string {
		return writeFile(t, "c.yaml", "topics:\n  - name: events\n    subscriptions:\n"+subscriptions)
	}
	g := startGateway(t, "--config", topic("      - {name: large, rules: [{name: r, sql: amount > 10}]}\n      - {name: same}\n"))
	after := topic("      - {name: large, rules: [{name: r, sql: amount > 5}]}\n      - {name: fresh, rules: [{name: bad, sql: 1 / amount > 0}]}\n")
	var lines strings.Builder
	for i := range 8 {
		fmt.Fprintf(&lines, `{"sequenceNumber":1,"messageId":"m%d","state":"active","deliveryCount":0,"properties":{"amount":%d},"body":""}`+"\n", i, 2*i)
	}
	recording := writeFile(t, "events.jsonl", lines.String())
	got := g.command(t, "", "rule", "test", "events", "--rules", after, "--record", recording)
	for _, want := range []string{
		"large  of 8 messages: 3 added, 0 removed, 0 changed, 0 failing\n  added  line 4  m3\n    r: amount > 5 is true: amount is 6 (",
		"fresh  of 8 messages: 0 added, 0 removed, 0 changed, 1 failing\n",
		"  failing  line 1  m0\n    bad: ", "division by zero",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
	if again := g.command(t, lines.String(), "rule", "test", "events", "large", "--rules", after, "--record", "-"); !strings.HasPrefix(got, again) || strings.Contains(again, "fresh") {
		t.Errorf("one subscription: got\n%s", again)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"events", "--rules", after}, "--rules: specify the recorded messages"},
		{[]string{"other", "--rules", after, "--record", recording}, `has no topic "other"`},
		{[]string{"events", "none", "--rules", after, "--record", recording}, "has no subscription to compare"},
		{[]string{"events", "--rules", topic("      - {name: large, rules: [{name: r, sql: \"plugin('geo')\"}]}\n"), "--record", recording}, "plugin"},
		{[]string{"events", "--rules", after, "--record", writeFile(t, "bad.jsonl", lines.String()+"{\"version\":9}\n")}, "--record: line 9: the line is neither a message"},
		{[]string{"events", "--rules", recording, "--record", recording}, "events.jsonl"},
	} {
		if code, out, problems := g.try(t, g.connection, "", append([]string{"rule", "test"}, c.args...)...); code == exitOK || !strings.Contains(problems, c.want) {
			t.Errorf("%v: exit code %d\n%s%s\nwant %s", c.args, code, out, problems, c.want)
		}
	}
}
