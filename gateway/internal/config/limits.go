package config

import (
	"unicode/utf8"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	standard = "standard"
	premium  = "premium"
)

func (c *Config) Limits() core.Limits {
	switch c.Strict {
	case standard, "true":
		return core.StandardLimits()
	case premium:
		return core.PremiumLimits()
	}
	return core.Limits{}
}

func (c *Config) validateLimits(r *report) {
	limits := c.Limits()
	if limits.Tier == "" {
		if c.Strict != "" && c.Strict != "false" {
			oneOf(r, "strict", c.Strict, standard, premium, "false")
		}
		return
	}
	named := func(path, name string) {
		if n := utf8.RuneCountInString(name); n < limits.MinNamespaceName || n > limits.MaxNamespaceName {
			r.add(path, "%q has %d characters: with --strict it must have %d to %d", name, n, limits.MinNamespaceName, limits.MaxNamespaceName)
		}
	}
	named("namespace", c.Namespace)
	if n := len(c.AllPolicies()); n > limits.MaxPolicies {
		r.add("policies", "the namespace has %d policies, including %s: with --strict at most %d are allowed", n, DevPolicy, limits.MaxPolicies)
	}
	if c.ForwardWait {
		r.add("forward-wait", "the setting is not allowed with --strict, which dead-letters messages that cannot be forwarded: leave out forward-wait")
	}
	if n := c.AMQP.MaxConnections; n > limits.MaxConnections {
		r.add("amqp.max-connections", "%d is out of range: with --strict use 1 to %d", n, limits.MaxConnections)
	}
	c.eachContents(func(prefix, _ string, h *Contents) { h.validateLimits(prefix, &limits, r) })
	for i := range c.Namespaces {
		named(elementPath("namespaces", i)+".name", c.Namespaces[i].Name)
	}
}

func (h *Contents) validateLimits(prefix string, limits *core.Limits, r *report) {
	for i := range h.Queues {
		check(r, elementPath(prefix+"queues", i), core.Queue, &h.Queues[i].QueueSettings, limits)
	}
	for i := range h.Topics {
		t, path := &h.Topics[i], elementPath(prefix+"topics", i)
		check(r, path, core.Topic, &t.TopicSettings, limits)
		for k := range t.Subscriptions {
			s, path := &t.Subscriptions[k], elementPath(path+".subscriptions", k)
			check(r, path, core.Subscription, &s.SubscriptionSettings, limits)
			for n := range s.Rules {
				rule, err := s.Rules[n].Rule()
				if err != nil {
					continue // validateRules reports it
				}
				if err := limits.CheckRule(&rule); err != nil {
					r.add(elementPath(path+".rules", n), "%v", err)
				}
			}
		}
	}
}

func check(r *report, path string, k core.Kind, given interface{ Apply(*core.Settings) }, limits *core.Limits) {
	s := core.DefaultSettings(k)
	given.Apply(&s)
	if s.EnablePartitioning && !limits.IsUnpartitioned {
		return // only the broker knows whether the entity's size is one partition's or the sum
	}
	if err := limits.Check(&s); err != nil {
		r.add(path, "%v", err)
	}
}
