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
	for i := range c.Namespaces {
		named(elementPath("namespaces", i)+".name", c.Namespaces[i].Name)
	}
}

func (d *Declared) validateLimits(limits *core.Limits, r *report) {
	s := d.Complete()
	if limits.Tier == "" || s.EnablePartitioning && !limits.IsUnpartitioned {
		return // only the broker knows whether the configured size is for one partition or for all
	}
	r.refused(d.path, limits.Check(&s))
}
