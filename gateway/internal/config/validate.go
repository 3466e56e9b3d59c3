package config

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	pages "github.com/crosstown-mq/crosstown/bridges/origins"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/namespaces"
	"github.com/crosstown-mq/crosstown/core/rules"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

func (c *Config) validate(r *report) {
	validateTags(r, reflect.ValueOf(c).Elem(), "")
	r.refused("namespace", namespaces.CheckName(c.Namespace))
	c.validateListen(r)
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		set, missing := "tls.cert", "tls.key"
		if c.TLS.Cert == "" {
			set, missing = missing, set
		}
		r.add(set, "the setting requires %s: set both, or remove both to use the development certificate", missing)
	}
	if c.Data == "" {
		r.add("data", "cannot determine the data directory, because neither XDG_DATA_HOME nor HOME is set: set --data DIR")
	} else if absolute, err := filepath.Abs(c.Data); err == nil {
		c.Data = absolute
	}
	c.validateStore(r)
	c.validateSync(r)
	r.require("store-wait", c.StoreWait >= 0,
		"%v is negative: use 0s or more (with 0s the gateway ends at once)", c.StoreWait)
	r.require("drain-timeout", c.DrainTimeout >= 0,
		"%v is negative: use 0s or more (with 0s the gateway closes connections at once)", c.DrainTimeout)
	c.validateMemory(r)
	_, given := r.origins["metrics.refresh"]
	r.require("metrics.refresh", !given || c.Metrics.Refresh >= time.Second,
		"%v is too short: use 1s or more, because each refresh counts the messages of all entities", c.Metrics.Refresh)
	c.Traces.complete(r)
	c.validateAdmin(r)
	validateOrigins(r, "websocket.origins", c.WebSocket.Origins)
	validateOrigins(r, "cors-origins", c.CORSOrigins)
	var plugins names
	for i := range c.Plugins {
		c.Plugins[i].validate(elementPath("plugins", i), &plugins, r)
	}
	c.eachContents(func(prefix, namespace string, h *Contents) { h.validate(prefix, namespace, c, r) })
	c.validateNamespaces(r)
	c.validateLimits(r)
	c.Serializers.validate(r, c.Plugins)
	c.Identity.validate(r, c.DevKeyAnywhere)
}

func (c *Config) validateListen(r *report) {
	for i, address := range c.Listen {
		path := elementPath("listen", i)
		host, port, err := net.SplitHostPort(address)
		if n, numErr := strconv.ParseUint(port, 10, 16); err != nil || numErr != nil || n == 0 && port != "0" {
			r.add(path, "%q is not an address to listen on: write host:port, such as 127.0.0.1:5672, or :5672 for every network interface", address)
			continue
		}
		if port != "0" && slices.Contains(c.Listen[:i], address) {
			r.add(path, "%s is listed twice: remove one", address)
		}
		if c.HasDevKey() && !c.DevKeyAnywhere && !listen.IsLoopback(address) {
			shown := cmp.Or(host, "every network interface")
			r.add(path, "with %s other machines can connect to %s, where policy %s has the public development key: "+
				"give the policy a key of its own (--policy %[3]s:Send,Listen,Manage makes one), or listen on 127.0.0.1 only, "+
				"or accept the public key with --dev-key-anywhere", address, shown, DevPolicy)
		}
	}
}

// leastMemory and leastMessageMemory are the minimum values. They suffice for small messages.
const leastMemory, leastMessageMemory = 128 << 20, 4 << 20

func (c *Config) validateMemory(r *report) {
	check := func(setting, text string, least int64, remedy string) {
		if text == "" {
			return
		}
		if n, err := memory.Parse(text); err != nil {
			r.add(setting, "%v", err)
		} else if n < least {
			r.add(setting, "%s is not enough memory: use %s", text, remedy)
		}
	}
	check("memory", c.Memory, leastMemory, "128MiB or more")
	check("message-memory", c.MessageMemory, leastMessageMemory, "4MiB or more, and at least twice the size of the largest message")
}

func (c *Config) validateAdmin(r *report) {
	if c.AdminListen == "" {
		return
	}
	if _, _, err := net.SplitHostPort(c.AdminListen); err != nil {
		r.add("admin-listen", "%q is not an address to listen on: write host:port, such as 127.0.0.1:9095", c.AdminListen)
	} else if slices.Contains(c.Listen, c.AdminListen) && !strings.HasSuffix(c.AdminListen, ":0") {
		r.add("admin-listen", "%s is already an address for clients: choose another port", c.AdminListen)
	}
}

// validateStore checks Store. An error does not quote a value with @: it may contain a password.
func (c *Config) validateStore(r *report) {
	const remedy = "use auto, file, memory, or a URL that begins with redis://, rediss://, redis+sentinel://, rediss+sentinel:// or unix://"
	switch scheme, _, isURL := strings.Cut(c.Store, "://"); {
	case isURL:
		if !slices.Contains([]string{"redis", "rediss", "redis+sentinel", "rediss+sentinel", "unix", "redis+unix"}, scheme) {
			r.add("store", "a URL that begins with %s:// does not name a store: %s", scheme, remedy)
		}
	case slices.Contains([]string{"auto", "file", "memory"}, c.Store):
	case c.Store == "spawn":
		r.add("store", "the gateway cannot start a Redis: run redis-server --dir %[1]s --appendonly yes --port 0 --unixsocket %[1]s/redis.sock, and use the store unix://%[1]s/redis.sock", filepath.Join(c.Data, "redis"))
	case strings.Contains(c.Store, "@"):
		r.add("store", "the value is not a store: %s", remedy)
	default:
		r.add("store", "%q is not a store: %s", c.Store, remedy)
	}
}

func (c *Config) KeepsFiles() bool { return c.Store == "auto" || c.Store == "file" }

func (c *Config) validateSync(r *report) {
	if !slices.Contains([]string{"always", "interval", "never"}, c.Sync) {
		r.add("sync", "%q is not a sync policy: use always, interval or never", c.Sync)
	} else if at, given := r.origins["sync"]; given && !c.KeepsFiles() && (at.line == 0 || at.source == r.origins["store"].source) {
		// If a flag overrides the store, a sync policy in the file has no effect and is not an error.
		r.add("sync", "sync is not allowed with the store %s, which has no files: leave out sync, or use --store file", c.Store)
	}
	if c.Repair && !c.KeepsFiles() {
		r.add("repair", "repair is not allowed with the store %s, which has no files: leave out --repair, or use --store file", c.Store)
	}
}

func validateTags(r *report, v reflect.Value, path string) {
	for _, f := range fields(v.Type()) {
		at, field := strings.TrimPrefix(path+"."+f.Tag.Get("config"), "."), v.FieldByIndex(f.Index)
		switch {
		case field.Kind() == reflect.Struct:
			validateTags(r, field, at)
		case isList(field.Type()):
			for i := range field.Len() {
				validateTags(r, field.Index(i), elementPath(at, i))
			}
		}
		if _, given := r.origins[at]; !given || r.concerns(at) {
			continue
		}
		if text, ok := f.Tag.Lookup("range"); ok {
			if least, most := bounds(text); field.Int() < least || field.Int() > most {
				r.add(at, "%v is out of range: use %s", field, text)
			}
		}
		if text, ok := f.Tag.Lookup("values"); ok {
			oneOf(r, at, field.String(), strings.Split(text, ", ")...)
		}
	}
}

func bounds(text string) (least, most int64) {
	var both [2]int64
	for i, bound := range strings.SplitN(text, " to ", 2) {
		if d, err := time.ParseDuration(bound); err == nil {
			both[i] = int64(d)
		} else {
			both[i], _ = strconv.ParseInt(bound, 10, 64)
		}
	}
	return both[0], both[1]
}

func validateOrigins(r *report, path string, patterns []string) {
	for i, o := range patterns {
		r.refused(elementPath(path, i), pages.Check(o))
	}
}

func (h *Contents) validatePolicies(prefix string, c *Config, r *report) {
	for i, p := range h.Policies {
		path := elementPath(prefix+"policies", i)
		p.validate(path, r)
		switch {
		case p.Certificate == "":
		case p.Key != "" || p.SecondaryKey != "":
			r.add(path+".certificate", "policy %q has a key and a certificate: keep one of them here, and move the other to another policy", p.Name)
		case c.TLS.ClientCA == "":
			r.add(path+".certificate", "the setting requires tls.client-ca: set tls.client-ca to the file with the CA that signs the clients' certificates")
		case !certificateName.MatchString(p.Certificate):
			r.add(path+".certificate", "%q is not a name of a certificate: write CN=, DNS= or URI= and the name, such as CN=app1, or the whole subject, such as CN=app1,O=Example, without spaces after commas; write a comma in a value as \\,", p.Certificate)
		}
		same := slices.IndexFunc(h.Policies[:i], func(q Policy) bool { return q.Name == p.Name })
		if same >= 0 && r.origins.find(path).source == r.origins.find(elementPath(prefix+"policies", same)).source {
			r.add(path, "policy %q is listed twice: remove one", p.Name)
		}
	}
}

// certificateName matches URI= and a URI, or NAME=VALUE parts of a distinguished name, in which a
// backslash escapes a character.
var certificateName = regexp.MustCompile(`^(URI=.+|[\w.]+=(\\.|[^,+\\])+([,+][\w.]+=(\\.|[^,+\\])*)*)$`)

func (c *Config) overridePolicies() {
	var kept []Policy
	for _, p := range c.Policies {
		kept = slices.DeleteFunc(kept, func(q Policy) bool { return q.Name == p.Name })
		kept = append(kept, p)
	}
	c.Policies = kept
}

func (p *Policy) validate(path string, r *report) {
	if p.Name == "" || strings.ContainsAny(p.Name, ";&= ") {
		r.add(path+".name", "%q is not a valid policy name: use letters, digits and hyphens", p.Name)
	}
	if p.Key != "" && strings.ContainsAny(p.Key+p.SecondaryKey, "; \t\n") { // a missing key is not a problem here: the policy has a certificate, or readKey has reported it
		r.add(path+".key", "the key of policy %q contains a space or a semicolon, which connection strings do not allow: generate a key with: openssl rand -base64 32", p.Name)
	}
	r.require(path+".rights", p.Rights != 0, "policy %q has no rights: add Send, Listen or Manage", p.Name)
}

func (h *Contents) validateEntities(prefix string, limits core.Limits, r *report) {
	var own names
	below := map[string]*names{} // names of subscriptions, by the path of their list
	for _, d := range h.declared(prefix) {
		taken, valid, twice := &own, core.ValidateName(d.Name), "%q is listed twice (queues and topics share one set of names, which are case-insensitive): remove one"
		if d.Kind == core.Subscription {
			list := parent(d.path)
			if below[list] == nil {
				below[list] = new(names)
			}
			taken, valid, twice = below[list], core.ValidateSubscriptionName(d.Name), "subscription %q is listed twice (names are case-insensitive): remove one"
		}
		r.unique(d.path+".name", d.Name, valid, taken, twice)
		validateSettings(d.path, d.EntitySettings, r)
		d.validateForwarding(r)
		validateEntityPolicies(d.path, d.Policies, r)
		d.validateRules(&limits, r)
		d.validateLimits(&limits, r)
	}
}

func (d *Declared) validateRules(limits *core.Limits, r *report) {
	var taken names
	for i := range d.Rules {
		rule, path := &d.Rules[i], elementPath(d.path+".rules", i)
		r.unique(path+".name", rule.Name, core.ValidateRuleName(rule.Name), &taken, "rule %q is listed twice (names are case-insensitive): remove one")
		compiled, err := rule.Rule()
		if err == nil {
			_, err = rules.Compile(compiled)
			r.refused(path, limits.CheckRule(&compiled))
		}
		r.refused(path, err)
	}
}

func validateSettings(path string, given *EntitySettings, r *report) {
	for f, v := range given.all() {
		s := core.DefaultSettings(core.Queue) // start from defaults, so that Validate checks this setting alone
		reflect.ValueOf(&s).Elem().FieldByName(f.Name).Set(v.Elem())
		r.refused(strings.TrimPrefix(path+"."+f.Tag.Get("config"), "."), s.Validate())
	}
}

func (d *Declared) validateForwarding(r *report) {
	for _, f := range [...]struct {
		setting string
		to      *string
	}{{"forward-to", d.ForwardTo}, {"forward-dead-lettered-messages-to", d.ForwardDeadLetteredMessagesTo}} {
		if f.to != nil && core.FoldName(core.ResourcePath(*f.to)) == core.FoldName(d.Path()) {
			r.add(d.path+"."+f.setting, "%q is the entity itself: name another queue or topic", *f.to)
		}
	}
}

func validateEntityPolicies(path string, policies []Policy, r *report) {
	if len(policies) > core.MaxAccessRules {
		r.add(path+".policies", "the entity has %d policies, but may have at most %d: remove some", len(policies), core.MaxAccessRules)
	}
	for i := range policies {
		path := elementPath(path+".policies", i)
		if policies[i].validate(path, r); policies[i].Certificate != "" {
			r.add(path+".certificate", "only a policy of the namespace may have a certificate: move the policy to the namespace's policies")
		}
	}
}

// name reports an invalid or repeated name. note is part of the text about a repeated name.
func (r *report) name(path, what, name string, taken *names, note string) {
	var invalid error
	if !pluginName.MatchString(name) {
		invalid = fmt.Errorf("%q is not a valid name for a %s: use 1 to 63 letters, digits, dots, underscores and hyphens", name, what)
	}
	r.unique(path+".name", name, invalid, taken, what+" %q is listed twice (names are case-insensitive"+note+"): remove one")
}

// unique reports invalid or, if name is already in taken, the text twice. It adds name to taken.
func (r *report) unique(path, name string, invalid error, taken *names, twice string) {
	if invalid != nil {
		r.add(path, "%v", invalid)
	} else if !taken.add(name) {
		r.add(path, twice, name)
	}
}

// If fulfilled is false, require reports a problem with the setting at path. It reports nothing if
// the report already contains a problem with this setting.
func (r *report) require(path string, fulfilled bool, format string, args ...any) {
	if !fulfilled && !r.concerns(path) {
		r.add(path, format, args...)
	}
}

func (r *report) refused(path string, err error) {
	if err != nil {
		r.add(path, "%v", err)
	}
}

func (r *report) concerns(path string) bool {
	at := r.origins.find(path)
	return slices.ContainsFunc(r.problems, func(p Problem) bool { return p.origin == at })
}

func oneOf(r *report, path, v string, allowed ...string) {
	if !slices.Contains(allowed, v) {
		r.add(path, "%q is unknown: use one of %s", v, strings.Join(allowed, ", "))
	}
}

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
