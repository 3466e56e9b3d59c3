package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

func TestTheTierIsChosen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		env  []string
		want string
	}{
		{nil, nil, ""},
		{[]string{"--strict"}, nil, "Standard"},
		{[]string{"--strict=standard"}, nil, "Standard"},
		{[]string{"--strict=premium"}, nil, "Premium"},
		{nil, []string{"CROSSTOWN_STRICT=premium"}, "Premium"},
		{nil, []string{"CROSSTOWN_STRICT=true"}, "Standard"},
		{nil, []string{"CROSSTOWN_STRICT=false"}, ""},
	} {
		limits := mustLoad(t, nil, c.env, c.args...).Limits()
		if limits.Tier != c.want {
			t.Errorf("%v %v: got %q, want %q", c.args, c.env, limits.Tier, c.want)
		}
	}
	if _, err := load(t, nil, nil, "--strict=basic"); err == nil || !strings.Contains(err.Error(), `"basic" is unknown`) {
		t.Errorf("basic: got %v", err)
	}
}

// To the last that the tier allows, and one past it.
func TestTheTiersLimitsAreThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	limits := core.StandardLimits()
	policies := func(n int) []string { // besides the development policy
		args := make([]string, n)
		for i := range args {
			args[i] = fmt.Sprintf("--policy=p%d=key:Send", i)
		}
		return args
	}
	for _, c := range []struct {
		name     string
		file     string
		args     []string
		loose    bool // without --strict
		problems string
	}{
		{name: "least name", args: []string{"--namespace=" + strings.Repeat("n", limits.MinNamespaceName)}},
		{name: "short name", args: []string{"--namespace=" + strings.Repeat("n", limits.MinNamespaceName-1)}, problems: "has 5 characters: with --strict it must have 6 to 50"},
		{name: "short name, not strict", args: []string{"--namespace=abc"}, loose: true},
		{name: "longest name", args: []string{"--namespace=" + strings.Repeat("n", limits.MaxNamespaceName)}},
		{name: "long name", args: []string{"--namespace=" + strings.Repeat("n", limits.MaxNamespaceName+1)}, problems: "has 51 characters"},
		{name: "policies", args: policies(limits.MaxPolicies - 1)},
		{name: "too many policies", args: policies(limits.MaxPolicies), problems: "the namespace has 13 policies, including RootManageSharedAccessKey: with --strict at most 12 are allowed"},
		{name: "too many policies, not strict", args: policies(limits.MaxPolicies), loose: true},
		{name: "connections", file: "amqp: {max-connections: 5000}"},
		{name: "too many connections", file: "amqp: {max-connections: 5001}", problems: "5001 is out of range: with --strict use 1 to 5000"},
		{name: "sizes", file: "queues: [{name: q, max-size-in-megabytes: 5120, max-message-size-in-kilobytes: 256}]"},
		{name: "odd size", file: "topics: [{name: t, max-size-in-megabytes: 5119}]", problems: "MaxSizeInMegabytes is 5119: in the Standard tier it must be one of [1024 2048 3072 4096 5120]."},
		{name: "large messages", file: "queues: [{name: q, max-message-size-in-kilobytes: 2048}]", problems: "MaxMessageSizeInKilobytes is 2048: in the Standard tier it may be at most 256."},
		{name: "large messages, not strict", file: "queues: [{name: q, max-message-size-in-kilobytes: 2048}]", loose: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--config=$DIR/c.yaml"}, c.args...)
			if !c.loose {
				args = append(args, "--strict")
			}
			_, err := load(t, map[string]string{"c.yaml": c.file}, nil, args...)
			if err == nil != (c.problems == "") || err != nil && !strings.Contains(err.Error(), c.problems) {
				t.Errorf("got %v, want %q", err, c.problems)
			}
		})
	}
}
