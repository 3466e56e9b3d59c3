package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// TestRangesAreReadAndFollowTheirPackages reads the range of every setting, and compares those that another
// package decides. The values of a setting are in its help.
func TestRangesAreReadAndFollowTheirPackages(t *testing.T) {
	t.Parallel()
	decided := map[string]int64{"partitions": core.MaxPartitions, "first-delay": int64(core.MaxBackoff), "max-delay": int64(core.MaxBackoff)}
	seen := 0
	var look func(typ reflect.Type)
	look = func(typ reflect.Type) {
		for _, f := range fields(typ) {
			inner := f.Type
			if inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				look(inner)
			}
			text, name, usage := f.Tag.Get("range"), f.Tag.Get("config"), f.Tag.Get("usage")
			for word := range strings.SplitSeq(f.Tag.Get("values"), ", ") {
				if !strings.Contains(usage, word) {
					t.Errorf("%s %s: the usage has no %q: %s", typ, name, word, usage)
				}
			}
			if text == "" {
				continue
			}
			seen++
			least, most := bounds(text)
			if least < 1 || most <= least {
				t.Errorf("%s %s: the range %q reads as %d to %d", typ, name, text, least, most)
			}
			if want, ok := decided[name]; ok && most != want {
				t.Errorf("%s %s: the range ends at %d, want %d", typ, name, most, want)
			}
		}
	}
	look(reflect.TypeFor[Config]())
	if seen < 30 {
		t.Errorf("only %d settings have a range", seen)
	}
}
