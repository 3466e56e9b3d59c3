package config

import (
	"cmp"
	"crypto/tls"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
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
