package config_test

import (
	"reflect"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/internal/spelling"
)

// The settings of entities are those of core, by their names with hyphens.
func TestSettingsOfEntitiesAreThoseOfCore(t *testing.T) {
	t.Parallel()
	settings := reflect.TypeFor[config.EntitySettings]()
	for _, s := range core.AllSettings {
		f, ok := settings.FieldByName(s.Name)
		if want := s.Name != "AuthorizationRules"; ok != want { // which are policies here
			t.Errorf("the settings have %s: %v, want %v", s.Name, ok, want)
		}
		if !ok {
			continue
		}
		if name := f.Tag.Get("config"); name != spelling.Hyphenated(s.Name) {
			t.Errorf("%s is called %s", s.Name, name)
		}
		if of := reflect.TypeOf(s.Of(&core.Settings{})); f.Type != of {
			t.Errorf("%s is a %s, want %s", s.Name, f.Type, of)
		}
	}
	for field := range settings.Fields() {
		if core.SettingNamed(field.Name) == nil {
			t.Errorf("%s is not a setting of an entity", field.Name)
		}
	}
}
