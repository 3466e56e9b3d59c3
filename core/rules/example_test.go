package rules_test

import (
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/rules"
)

// order is a message with user properties.
func order(region string, total int64) *core.Message {
	properties, err := core.NewProperties(
		core.Property{Key: "region", Value: region},
		core.Property{Key: "total", Value: total},
	)
	if err != nil {
		panic(err)
	}
	return &core.Message{Subject: "order", Properties: properties}
}

// A SQL filter is compiled once and evaluated for many messages. An answer is true, false or unknown.
func ExampleCompile() {
	rule, err := rules.Compile(core.Rule{
		Name:   "large",
		Filter: core.Filter{SQL: "sys.Label = 'order' AND total > 100 AND region LIKE 'eu-%'"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range []*core.Message{order("eu-west", 250), order("us-east", 250), {Subject: "order"}} {
		answer, err := rule.Matches(m, rules.Facts{})
		fmt.Println(answer, err)
	}

	_, err = rules.Compile(core.Rule{Name: "broken", Filter: core.Filter{SQL: "total >"}})
	fmt.Println(core.CodeOf(err))
	// Output:
	// TRUE <nil>
	// FALSE <nil>
	// UNKNOWN <nil>
	// invalid_argument
}

// An action changes the copy of a message that its rule makes.
func ExampleRule_Apply() {
	rule, err := rules.Compile(core.Rule{
		Name:   "discount",
		Filter: core.Filter{Kind: core.TrueFilter},
		Action: "SET total = total - 10; SET sys.Label = 'discounted'; REMOVE region",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	changed, err := rule.Apply(order("eu-west", 250), rules.Facts{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(changed.Subject)
	for key, v := range changed.Properties.All() {
		fmt.Println(key, v)
	}
	// Output:
	// discounted
	// total 240
	// RuleName discount
}

// A Set finds which subscriptions get a copy of a message, for the rules of all of them together.
func ExampleSet_Match() {
	compiled := func(r core.Rule) *rules.Rule {
		c, err := rules.Compile(r)
		if err != nil {
			panic(err)
		}
		return c
	}
	subscriptions := []string{"everything", "europe", "large"}
	set := rules.NewSet([][]*rules.Rule{
		{compiled(core.Rule{Name: "all", Filter: core.Filter{Kind: core.TrueFilter}})},
		{compiled(core.Rule{Name: "eu", Filter: core.Filter{SQL: "region = 'eu-west' OR region = 'eu-north'"}})},
		{compiled(core.Rule{Name: "large", Filter: core.Filter{SQL: "total > 1000"}})},
	})
	for _, c := range set.Match(nil, order("eu-west", 250), rules.Facts{}) {
		fmt.Println(subscriptions[c.Sub])
	}
	// Unordered output:
	// everything
	// europe
}

// Explain tells which conditions decided, and what they saw.
func ExampleExplain() {
	e := rules.Explain(core.Rule{Filter: core.Filter{SQL: "total > 1000 AND colour = 'red'"}}, order("eu-west", 250), rules.Facts{})
	fmt.Println(e.Truth)
	for _, why := range e.Why {
		fmt.Println(why)
	}
	// Output:
	// FALSE
	// total > 1000 is false: total is 250 (long)
}
