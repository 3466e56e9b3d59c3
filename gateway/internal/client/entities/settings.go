package entities

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// apply lays the settings that were given over p, a pointer to the SDK's
// properties, whose fields have the same names, but for one, and the types that
// the SDK chose.
func apply[T config.EntitySettings](given *T, p any) {
	from, to := reflect.ValueOf(given).Elem(), reflect.ValueOf(p).Elem()
	for i := range from.NumField() {
		v := from.Field(i)
		if v.Kind() != reflect.Pointer || v.IsNil() {
			continue
		}
		name := from.Type().Field(i).Name
		if name == "DeadLetteringOnFilterEvaluationExceptions" {
			name = "Enable" + name
		}
		field := to.FieldByName(name)
		v = v.Elem()
		if d, ok := v.Interface().(time.Duration); ok {
			v = reflect.ValueOf(core.FormatDuration(d))
		}
		field.Set(reflect.New(field.Type().Elem()))
		field.Elem().Set(v.Convert(field.Type().Elem()))
	}
}

// eachSetting yields the settings that p, a pointer to the SDK's properties,
// holds, by the names of the management API.
func eachSetting(p any) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		v := reflect.ValueOf(p).Elem()
		for i := range v.NumField() {
			f := v.Field(i)
			name := strings.TrimPrefix(v.Type().Field(i).Name, "EnableDead")
			if name != v.Type().Field(i).Name {
				name = "Dead" + name
			}
			switch {
			case f.IsNil(), f.Type() == reflect.TypeFor[*admin.RuleProperties]():
			case f.Kind() == reflect.Slice: // authorization rules: their keys are not shown
				if !yield(name, fmt.Sprintf("%d", f.Len())) {
					return
				}
			case !yield(name, f.Elem().Interface()):
				return
			}
		}
	}
}

func settingsOf(p any) map[string]any { return maps.Collect(eachSetting(p)) }
