package config

import (
	"bytes"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/crosstown-mq/crosstown/core"
)

type Described struct {
	core.Entity
	Rules []core.Rule // empty unless the entity is a subscription
}

// Describe converts entities to their configuration. In all, each topic must be followed by its own
// subscriptions. If defaults is true, the result includes default values.
func Describe(all []Described, defaults bool) *Contents {
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
