package config_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/internal/spelling"
)

// The settings of entities are those of core, by their names with hyphens.
func TestSettingsOfEntitiesAreThoseOfCore(t *testing.T) {
	t.Parallel()
	leftOut := []string{"AuthorizationRules"} // which are policies here
	for kind, settings := range map[core.Kind]reflect.Type{
		core.Queue: reflect.TypeFor[config.QueueSettings](), core.Topic: reflect.TypeFor[config.TopicSettings](), core.Subscription: reflect.TypeFor[config.SubscriptionSettings](),
	} {
		for _, s := range core.AllSettings {
			f, ok := settings.FieldByName(s.Name)
			if want := s.Kinds.Has(kind) && !slices.Contains(leftOut, s.Name); ok != want {
				t.Errorf("%s has %s: %v, want %v", settings, s.Name, ok, want)
			}
			if !ok {
				continue
			}
			if name := f.Tag.Get("config"); name != spelling.Hyphenated(s.Name) {
				t.Errorf("%s: %s is called %s", settings, s.Name, name)
			}
			if of := reflect.TypeOf(s.Of(&core.Settings{})); f.Type != of {
				t.Errorf("%s: %s is a %s, want %s", settings, s.Name, f.Type, of)
			}
		}
		for field := range settings.Fields() {
			if name := field.Name; core.SettingNamed(name) == nil && name != "Policies" {
				t.Errorf("%s has %s, which is not a setting", settings, name)
			}
		}
	}
}
