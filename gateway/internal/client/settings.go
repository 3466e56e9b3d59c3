package client

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// apply lays the settings that were given over p, whose fields have the same
// names and the types that the SDK chose.
func apply(given *config.QueueSettings, p *admin.QueueProperties) {
	from, to := reflect.ValueOf(given).Elem(), reflect.ValueOf(p).Elem()
	for i := range from.NumField() {
		v := from.Field(i)
		if v.Kind() != reflect.Pointer || v.IsNil() {
			continue
		}
		field := to.FieldByName(from.Type().Field(i).Name)
		v = v.Elem()
		if d, ok := v.Interface().(time.Duration); ok {
			v = reflect.ValueOf(isoDuration(d))
		}
		field.Set(reflect.New(field.Type().Elem()))
		field.Elem().Set(v.Convert(field.Type().Elem()))
	}
}

// isoDuration writes d in seconds, and core.Forever as .NET's largest TimeSpan.
func isoDuration(d time.Duration) string {
	if d >= core.Forever {
		return "P10675199DT2H48M5.4775807S"
	}
	return "PT" + strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "S"
}

// eachSetting yields the settings that p holds, by the names of the management API.
func eachSetting(p *admin.QueueProperties) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		v := reflect.ValueOf(p).Elem()
		for i := range v.NumField() {
			f := v.Field(i)
			switch {
			case f.IsNil():
			case f.Kind() == reflect.Slice: // authorization rules: their keys are nobody's business
				if !yield(v.Type().Field(i).Name, fmt.Sprintf("%d", f.Len())) {
					return
				}
			case !yield(v.Type().Field(i).Name, f.Elem().Interface()):
				return
			}
		}
	}
}

func settingsOf(p *admin.QueueProperties) map[string]any { return maps.Collect(eachSetting(p)) }
