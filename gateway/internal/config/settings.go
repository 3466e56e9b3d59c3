package config

import (
	"reflect"

	"github.com/crosstown-mq/crosstown/core"
)

// EntitySettings are the given settings of a queue, topic or subscription. The fields, except
// Policies, are pointers to what the field of the same name in core.Settings holds; nil was not
// given.
type EntitySettings interface {
	QueueSettings | TopicSettings | SubscriptionSettings
}

// overlay lays what was given over s.
func overlay[T EntitySettings](given *T, s *core.Settings) {
	from, to := reflect.ValueOf(given).Elem(), reflect.ValueOf(s).Elem()
	for i := range from.NumField() {
		if v := from.Field(i); v.Kind() == reflect.Pointer && !v.IsNil() {
			to.FieldByName(from.Type().Field(i).Name).Set(v.Elem())
		}
	}
}

// each calls visit with every setting that was given, alone, policies left out.
func each[T EntitySettings](given *T, visit func(name string, alone *T)) {
	all := reflect.ValueOf(given).Elem()
	for i := range all.NumField() {
		if v := all.Field(i); v.Kind() == reflect.Pointer && !v.IsNil() {
			alone := new(T)
			reflect.ValueOf(alone).Elem().Field(i).Set(v)
			visit(all.Type().Field(i).Tag.Get("config"), alone)
		}
	}
}

// addAccessRules replaces the access rules by policies, if there are any.
func addAccessRules(s *core.Settings, policies []Policy) {
	if len(policies) > 0 {
		s.AuthorizationRules = nil
	}
	for _, p := range policies {
		s.AuthorizationRules = append(s.AuthorizationRules, p.Rule())
	}
}

// Rule is the policy as the authority takes it.
func (p Policy) Rule() core.AccessRule {
	return core.AccessRule{Name: p.Name, PrimaryKey: p.Key, SecondaryKey: p.SecondaryKey, Rights: p.Rights}
}

// names counts names without regard to case.
type names map[string]bool

// add reports whether the name is new.
func (n *names) add(name string) bool {
	folded := core.FoldName(name)
	if (*n)[folded] {
		return false
	}
	if *n == nil {
		*n = names{}
	}
	(*n)[folded] = true
	return true
}

// Given lists the settings that were given, by their names in a file and in core.Settings.
func Given[T EntitySettings](given *T) (all []GivenSetting) {
	v := reflect.ValueOf(given).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			all = append(all, GivenSetting{v.Type().Field(i).Tag.Get("config"), core.SettingNamed(v.Type().Field(i).Name)})
		}
	}
	return all
}

// GivenSetting is a setting of an entity that a source gives.
type GivenSetting struct {
	Name string // in a file
	*core.Setting
}
