package rules

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
)

// FuzzCompile compiles any text as a filter and as an action. What compiles
// must evaluate, alone and in a set, with one answer, which is explained.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		"colour = 'red' AND (quantity NOT IN (1, 2.5E3) OR NOT [odd name]]] LIKE '%x\\_' ESCAPE '\\')",
		"sys.Label IS NOT NULL AND EXISTS(user.price) AND -p('quan' + 'tity') % 3 <> +1 AND newid() = guid",
		`SET sys.Label = "colour" + 1; REMOVE user.price, SET x = property(sym) / 0`,
		"SET sys.TimeToLive = '1.02:03:04' SET quantity = '7' SET at = colour",
		"@p <= .5 or TRUE",
		"body.order.lines[0].[a b] > 1 AND EXISTS(body.a)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		m := testMessage(t)
		p := properties(t, "p", int64(1))
		for _, rule := range []core.Rule{
			{Name: "f", Filter: core.Filter{SQL: sql, Parameters: p}},
			{Name: "a", Filter: core.Filter{Kind: core.TrueFilter}, Action: sql, ActionParameters: p},
		} {
			r, err := Compile(rule)
			if err != nil {
				if !errors.Is(err, core.InvalidArgument) || core.TextOf(err) == "" {
					t.Fatalf("%q: got %v", sql, err)
				}
				continue
			}
			if !utf8.ValidString(sql) {
				t.Fatalf("%q was compiled", sql)
			}
			truth, err := r.Matches(m, testFacts)
			copies := NewSet([][]*Rule{{r}}).Match(nil, m, testFacts)
			if want := truth == True || err != nil; (len(copies) == 1) != want {
				t.Fatalf("%q: got %v, %v alone and %d copies from a set", sql, truth, err, len(copies))
			}
			e := Explain(rule, m, testFacts)
			isRandom := strings.Contains(strings.ToLower(sql), "newid")
			if failed := err != nil || len(copies) == 1 && copies[0].Err != nil; !isRandom && (e.Truth != truth || (e.Err != nil) != failed || len(e.Why) == 0) {
				t.Fatalf("%q: got %v, %v, explained %+v", sql, truth, err, e)
			}
			if len(copies) == 1 && copies[0].Err == nil && copies[0].Rule != nil && copies[0].Message.Properties.IsEmpty() && m.HeaderSize() == 0 {
				t.Fatalf("%q: the copy has lost its properties", sql)
			}
			if string(m.Properties.Encoded()) != string(testMessage(t).Properties.Encoded()) {
				t.Fatalf("%q changed the message", sql)
			}
		}
	})
}
