package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/cron"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/core/namespaces"
)

const defaultPartitions = 4

type Contents struct {
	Partitions      int                     `config:"partitions" range:"1 to 32" usage:"number of partitions of a queue or topic with enable-partitioning, 1 to 32"`
	Policies        []Policy                `config:"policies" live:"yes"`
	Queues          []Queue                 `config:"queues" live:"yes"`
	Topics          []Topic                 `config:"topics" live:"yes"`
	Pipelines       []Pipeline              `config:"pipelines"`
	Retries         []Retry                 `config:"retries" live:"yes"`
	RateLimits      []RateLimit             `config:"rate-limits" live:"yes"`
	CircuitBreakers []CircuitBreaker        `config:"circuit-breakers" live:"yes"`
	DeadLetters     []DeadLetters           `config:"dead-letters" live:"yes"`
	Schemas         []Schema                `config:"schemas" live:"yes"`
	Schedules       []core.ScheduleSettings `config:"schedules" live:"yes"`
	Histories       []History               `config:"explain"`
	Remotes         []Remote                `config:"remotes"`
	Hooks           []Hook                  `config:"hooks" live:"yes"`
	Pushes          []Push                  `config:"pushes" live:"yes"`
	// AllowFaults is for tests: clients with Manage can then make operations fail.
	AllowFaults bool          `config:"allow-faults" usage:"for tests: allow clients' operations in the gateway's own namespace to fail on demand: see crosstown fault"`
	Faults      []faults.Rule `config:"faults"`
	// VirtualTime is for tests: clients with Manage can then change the namespace's time.
	VirtualTime bool `config:"virtual-time" usage:"for tests, with the store memory: allow the time of the gateway's own namespace to be frozen and moved: see crosstown clock"`
}

// Namespace is an additional namespace. The gateway recognizes its clients by host or by policy.
type Namespace struct {
	Name     string               `config:"name"`
	Hosts    []string             `config:"hosts" live:"yes"`
	Quotas   core.NamespaceQuotas `config:"quotas" live:"yes"`
	Contents `config:",squash"`
}

func (c *Config) Own() core.Namespace {
	return core.Namespace{Name: c.Namespace, Policies: accessRules(c.AllPolicies()), Clock: c.clock(), AllowFaults: c.AllowFaults}
}

func (c *Config) Others() []core.Namespace {
	all := make([]core.Namespace, len(c.Namespaces))
	for i, n := range c.Namespaces {
		all[i] = core.Namespace{Name: n.Name, Hosts: n.Hosts, Policies: accessRules(n.Policies), Clock: n.clock(), AllowFaults: n.AllowFaults, Quotas: n.Quotas}
	}
	return all
}

func (h *Contents) clock() *core.VirtualClock {
	if !h.VirtualTime {
		return nil
	}
	return &core.VirtualClock{}
}

func accessRules(policies []Policy) []core.AccessRule {
	all := make([]core.AccessRule, len(policies))
	for i, p := range policies {
		all[i] = p.Rule()
	}
	return all
}

// ContentsOf returns a namespace's configured contents. Namespaces created at run time have none.
func (c *Config) ContentsOf(name string) *Contents {
	if name == c.Namespace {
		return &c.Contents
	}
	for i := range c.Namespaces {
		if n := &c.Namespaces[i]; n.Name == name {
			return &n.Contents
		}
	}
	return &Contents{Partitions: c.Partitions}
}

func (c *Config) eachContents(visit func(prefix, namespace string, h *Contents)) {
	visit("", c.Namespace, &c.Contents)
	for i := range c.Namespaces {
		visit(elementPath("namespaces", i)+".", c.Namespaces[i].Name, &c.Namespaces[i].Contents)
	}
}

// validateNamespaces also checks that no two namespaces share a host, or a policy with its key.
func (c *Config) validateNamespaces(r *report) {
	var names, hosts names
	names.add(c.Namespace)
	for i := range c.Namespaces {
		n, path := &c.Namespaces[i], elementPath("namespaces", i)
		r.unique(path+".name", n.Name, namespaces.CheckName(n.Name), &names, "%q is listed twice (names are case-insensitive): remove one")
		for h, host := range n.Hosts {
			r.unique(elementPath(path+".hosts", h), host, namespaces.CheckHost(host), &hosts, "host %s is listed twice, but can only belong to one namespace: remove one")
		}
		if len(n.Hosts) > namespaces.MaxHosts {
			r.add(path+".hosts", "the namespace has %d hosts, but may have at most %d: remove some", len(n.Hosts), namespaces.MaxHosts)
		}
		n.Partitions = cmp.Or(n.Partitions, c.Partitions)
		c.validateAccess(i, r)
	}
}

// validateAccess checks that no earlier namespace has a policy and key of namespace i.
func (c *Config) validateAccess(i int, r *report) {
	n, path := &c.Namespaces[i], elementPath("namespaces", i)
	if len(n.Policies) == 0 {
		r.add(path+".policies", "namespace %q has no policy, so no client could use it: add a policy with a key", n.Name)
	}
	if len(n.Policies) > core.MaxAccessRules {
		r.add(path+".policies", "the namespace has %d policies, but may have at most %d: remove some", len(n.Policies), core.MaxAccessRules)
	}
	for p := range n.Policies {
		rule := n.Policies[p].Rule()
		for _, o := range append([]core.Namespace{c.Own()}, c.Others()[:i]...) {
			if slices.ContainsFunc(o.Policies, func(q core.AccessRule) bool { return namespaces.SharesKey(&rule, &q) }) {
				r.add(elementPath(path+".policies", p)+".key", "policy %q with this key already belongs to namespace %q: choose another key", rule.Name, o.Name)
			}
		}
	}
}

func (h *Contents) validateSchedules(path string, r *report) {
	var all names
	for i := range h.Schedules {
		s, path := &h.Schedules[i], elementPath(path, i)
		if setting, err := cron.Check(s, time.Now()); err != nil {
			r.add(path+"."+setting, "%v", err)
		} else if !all.add(s.Name) {
			r.add(path+".name", "%q is listed twice (names are case-insensitive): remove one", s.Name)
		}
	}
}

func (h *Contents) validate(prefix, namespace string, c *Config, r *report) {
	if h.VirtualTime && c.Store != "memory" {
		r.add(prefix+"virtual-time", "virtual time is not allowed for a configured namespace with the store %s: use the store memory, or create a namespace with crosstown namespace create NAME --virtual-time", c.Store)
	}
	h.validatePolicies(prefix, c, r)
	h.validateEntities(prefix, c.Limits(), r)
	h.validatePipelines(prefix, c, r)
	validateSelectors(prefix+"retries", "a queue or subscription", h.Retries, r)
	validateSelectors(prefix+"rate-limits", "a queue or subscription", h.RateLimits, r)
	validateSelectors(prefix+"circuit-breakers", "a queue or subscription", h.CircuitBreakers, r)
	validateSelectors(prefix+"dead-letters", "a queue, topic or subscription", h.DeadLetters, r)
	validateSelectors(prefix+"schemas", "", h.Schemas, r)
	validateSelectors(prefix+"explain", "a queue or topic", h.Histories, r)
	h.validateSchedules(prefix+"schedules", r)
	h.validateFaults(prefix, r)
	var remotes names
	for i := range h.Remotes {
		h.Remotes[i].validate(elementPath(prefix+"remotes", i), namespace, &remotes, r)
	}
}

// FaultRules gives unnamed rules their position as a name, which is the same on every gateway.
func (h *Contents) FaultRules() []faults.Rule {
	rules := slices.Clone(h.Faults)
	for i := range rules {
		rules[i].Name = cmp.Or(rules[i].Name, fmt.Sprintf("configured-%d", i+1))
	}
	return rules
}

func (h *Contents) validateFaults(prefix string, r *report) {
	if len(h.Faults) > 0 && !h.AllowFaults {
		r.add(prefix+"faults", "the namespace does not allow faults: set allow-faults: true, or remove the fault rules")
	}
	for i, err := range faults.Validate(h.FaultRules()) {
		r.refused(elementPath(prefix+"faults", i), err)
	}
}
