package config

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/crosstown-mq/crosstown/core"
)

// builtIn contains the defaults of settings for which 0 means a default of bridges or metrics.
var builtIn = map[string]any{
	"amqp.max-connections": 5000, "amqp.max-sessions": 8192, "amqp.max-links": 8192, "amqp.max-unsettled": 10000, "amqp.max-frame-size": 65536,
	"websocket.max-connections": 20000, "websocket.max-feeds": 256, "websocket.max-frame": 157286400,
	"metrics.max-entities": 500, "metrics.max-namespaces": 100, "metrics.refresh": "15s",
}

// Check reads a configuration and the certificates that it names. It reports all errors in them.
func Check(path string, environ []string) (*Config, error) {
	name, template, err := formOfFile(path)
	if err != nil {
		return nil, err
	}
	if template != nil {
		return nil, Problems{{origin{source: path}, "the file is an ARM template, which a gateway cannot read: check the file with crosstown import FILE --dry-run"}}
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Bind(flags)
	_ = flags.Set(name, path) // no error: the flag accepts any text
	c, r := load(flags, environ)
	if c.TLS.Cert != "" && c.TLS.Key != "" {
		if _, err := tls.LoadX509KeyPair(c.TLS.Cert, c.TLS.Key); err != nil {
			r.add("tls.cert", "%v: the certificate and its key must be PEM files that belong together", err)
		}
	}
	if _, err := c.TLS.Authorities(); err != nil {
		r.add("tls.client-ca", "%s", strings.TrimPrefix(err.Error(), "tls.client-ca: "))
	}
	return c, r.err()
}

// Print returns the settings as YAML. It masks secrets, and adds a comment with the source of each
// setting. An error is of type Problems.
func Print(flags *pflag.FlagSet, environ []string) ([]byte, error) {
	c, r := load(flags, environ)
	if err := r.err(); err != nil {
		return nil, err
	}
	p := printer{r}
	root := p.structure(reflect.ValueOf(*c), "", false)
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i].Value == "policies" {
			root.Content = slices.Delete(root.Content, i, i+2)
			break
		}
	}
	root.Content = append(root.Content, scalar("policies"), p.policies(c))
	return encode(root)
}

// printer formats a configuration as YAML. If r is not nil, it adds sources and masks secrets.
type printer struct{ r *report }

// policies formats the last policy of each name, and the development policy.
func (p printer) policies(c *Config) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range c.Policies {
		policy := &c.Policies[i]
		if !slices.ContainsFunc(c.Policies[i+1:], func(q Policy) bool { return q.Name == policy.Name }) {
			list.Content = append(list.Content, p.structure(reflect.ValueOf(*policy), elementPath("policies", i), true))
		}
	}
	if all := c.AllPolicies(); len(all) > len(c.Policies) {
		list.Content = append(list.Content, p.structure(reflect.ValueOf(all[0]), "-", true))
	}
	return list
}

func (p printer) structure(v reflect.Value, path string, inList bool) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode}
	if policy, ok := v.Interface().(Policy); ok {
		v = reflect.ValueOf(policy.asWritten())
	}
	for _, f := range fields(v.Type()) {
		name := f.Tag.Get("config")
		inner := strings.TrimPrefix(path+"."+name, ".")
		field := v.FieldByIndex(f.Index)
		var n *yaml.Node
		switch {
		case field.Kind() == reflect.Struct:
			if n = p.structure(field, inner, inList); len(n.Content) == 0 {
				n = nil
			}
		case field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.Struct:
			if !field.IsNil() {
				n = p.structure(field.Elem(), inner, inList)
			}
		case isList(field.Type()):
			if !field.IsNil() {
				n = &yaml.Node{Kind: yaml.SequenceNode}
			}
			if field.Len() == 0 && n != nil {
				n.Style = yaml.FlowStyle // the setting is present, as an empty list
			}
			for i := range field.Len() {
				n.Content = append(n.Content, p.structure(field.Index(i), elementPath(inner, i), true))
			}
		default:
			n = p.leaf(field, name, inner, inList)
		}
		if n != nil {
			m.Content = append(m.Content, scalar(name), n)
		}
	}
	return m
}

func (p printer) leaf(v reflect.Value, name, path string, inList bool) *yaml.Node {
	if p.r == nil {
		return written(v)
	}
	source := p.source(path)
	if text, ok := v.Interface().(string); ok && path != "tls.key" { // tls.key is the name of a file
		v = reflect.ValueOf(masked(name, text))
	}
	if list, ok := v.Interface().([]string); ok && name == "env" {
		v = reflect.ValueOf(maskedVariables(list))
	}
	_, given := p.r.origins[path]
	if known, ok := builtIn[path]; ok && !given {
		v = reflect.ValueOf(known)
	}
	n := written(v)
	if n == nil {
		switch plain := v.Kind() != reflect.Pointer && v.Kind() != reflect.Slice && v.Kind() != reflect.Map; {
		case v.Kind() == reflect.Bool && !inList, given && plain:
			n = scalar(v.Interface())
		default:
			return nil
		}
	}
	if n.Kind == yaml.SequenceNode {
		n.Style = yaml.FlowStyle
	}
	source = cmp.Or(source, "default")
	n.LineComment = source
	return n
}

func (p printer) source(path string) string {
	at, given := p.r.origins[path]
	if !given {
		if at = p.r.origins.find(path); at.line > 0 || at.source == "configuration" { // the line is that of the structure or list around it
			return ""
		}
	}
	at.path = ""
	return at.String()
}

var keyOfConnection = regexp.MustCompile(`(?i)(SharedAccess(?:Key|Signature))=[^;]*`)

// valueOfQuery matches the query parameters of a URL. Each of them may be a secret.
var valueOfQuery = regexp.MustCompile(`([?&][^=&#]*)=[^&#]*`)

const mask = "***"

// masked replaces the secrets in a setting's value by ***, except the public development key.
func masked(name, text string) string {
	switch name {
	case "key", "secondary-key", "password":
		if text != "" && text != DevKey {
			return mask
		}
	case "connection-string":
		return MaskConnection(text)
	}
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		if _, secret := u.User.Password(); secret {
			text = u.Redacted()
		} else if u.User != nil && name == "url" { // the user is a token
			text = strings.Replace(text, u.User.String()+"@", mask+"@", 1)
		}
		if name == "url" {
			text = valueOfQuery.ReplaceAllString(text, "$1="+mask)
		}
	}
	return text
}

func MaskConnection(text string) string { return keyOfConnection.ReplaceAllString(text, "$1="+mask) }

func maskedVariables(all []string) []string {
	shown := make([]string, len(all))
	for i, v := range all {
		name, _, given := strings.Cut(v, "=")
		if shown[i] = name; given {
			shown[i] += "=" + mask
		}
	}
	return shown
}

// Describe converts entities with their rules to their configuration. In all, each topic must be
// followed by its own subscriptions. If defaults is true, the result includes default values.
func Describe(all []core.Entity, defaults bool) *Contents {
	c := &Contents{}
	for i := range all {
		e := &all[i]
		s := e.Settings
		s.MaxSizeInMegabytes = OwnSize(&s)
		shown := describe(&s, e.Kind, defaults)
		switch e.Kind {
		case core.Queue:
			c.Queues = append(c.Queues, Queue{e.Name, shown, policiesFrom(s.AuthorizationRules)})
		case core.Topic:
			c.Topics = append(c.Topics, Topic{e.Name, shown, policiesFrom(s.AuthorizationRules), nil})
		case core.Subscription:
			_, name, _ := core.SplitSubscription(e.Name)
			u := Subscription{name, shown, []Rule{}}
			for r := range e.Rules {
				u.Rules = append(u.Rules, RuleOf(&e.Rules[r]))
			}
			if !defaults && len(e.Rules) == 1 && isDefault(&e.Rules[0]) {
				u.Rules = nil
			}
			t := &c.Topics[len(c.Topics)-1]
			t.Subscriptions = append(t.Subscriptions, u)
		}
	}
	return c
}

func isDefault(r *core.Rule) bool {
	return r.Name == core.DefaultRuleName && r.Filter.Kind == core.TrueFilter && r.Action == ""
}

// OwnSize returns the maximum size as in a configuration: for a partitioned entity, the size of one
// partition. s contains the sum of all partitions.
func OwnSize(s *core.Settings) int64 {
	if m := s.MaxSizeInMegabytes; s.EnablePartitioning && m%core.PartitionedSize == 0 {
		return m / core.PartitionedSize
	}
	return s.MaxSizeInMegabytes
}

// describe is the inverse of EntitySettings.Apply. It removes the host name that the management API
// prepends to the destinations of forwarding.
func describe(s *core.Settings, k core.Kind, defaults bool) (shown EntitySettings) {
	from := reflect.ValueOf(s).Elem()
	usual := core.DefaultSettings(k)
	usual.MaxMessageSizeInKilobytes = core.DefaultMessageSizeKB
	for f, v := range reflect.ValueOf(&shown).Elem().Fields() {
		setting, held := core.SettingNamed(f.Name), from.FieldByName(f.Name)
		if !setting.Kinds.Has(k) {
			continue
		}
		if setting.Path {
			held = reflect.ValueOf(core.ResourcePath(held.String()))
		}
		if defaults || !held.Equal(reflect.ValueOf(usual).FieldByName(f.Name)) {
			v.Set(reflect.New(v.Type().Elem()))
			v.Elem().Set(held)
		}
	}
	return shown
}

func policiesFrom(rules []core.AccessRule) []Policy {
	var all []Policy
	for _, r := range rules {
		all = append(all, Policy{Name: r.Name, Key: r.PrimaryKey, SecondaryKey: r.SecondaryKey, Rights: r.Rights})
	}
	return all
}

func (h *Contents) YAML() ([]byte, error) {
	shown := Contents{Policies: h.Policies, Queues: h.Queues, Topics: h.Topics}
	n := printer{}.structure(reflect.ValueOf(shown), "", true)
	if len(n.Content) == 0 {
		return nil, nil
	}
	return encode(n)
}

func encode(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

func written(v reflect.Value) *yaml.Node {
	switch x := v.Interface().(type) {
	case time.Duration:
		return scalar(FormatDuration(x))
	case core.Right:
		if x == 0 {
			return nil
		}
		return scalar(x.String())
	case map[string]any:
		if len(x) == 0 {
			return nil
		}
		n := scalar(x)
		n.Style = yaml.FlowStyle
		return n
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		if n := written(v.Elem()); n != nil {
			return n
		}
		return scalar(v.Elem().Interface()) // the setting is present, with an empty value
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			list.Content = append(list.Content, scalar(v.Index(i).Interface()))
		}
		return list
	}
	if v.IsZero() {
		return nil
	}
	return scalar(v.Interface())
}

func (p Policy) asWritten() Policy {
	if p.KeyFile != "" || p.KeyEnv != "" {
		p.Key = ""
	}
	if p.SecondaryKeyFile != "" || p.SecondaryKeyEnv != "" {
		p.SecondaryKey = ""
	}
	return p
}

func scalar(v any) *yaml.Node {
	n := &yaml.Node{}
	_ = n.Encode(v)
	return n
}

func FormatDuration(d time.Duration) string {
	if d == core.Forever {
		return "forever"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (r *Rule) Line() (string, error) {
	n := printer{}.structure(reflect.ValueOf(*r), "", true)
	if len(n.Content) == 0 {
		return "every message", nil
	}
	n.Style = yaml.FlowStyle
	text, err := yaml.Marshal(n)
	return strings.Join(strings.Fields(string(text)), " "), err
}
