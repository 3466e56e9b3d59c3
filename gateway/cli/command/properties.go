package command

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// Properties parses the NAME=VALUE texts of a flag, and prepends prefix to the names. Whole numbers
// become int64, other numbers float64, and true and false bool. Other or quoted values are strings.
func Properties(flag string, texts []string, prefix string) (core.Properties, error) {
	var errs []error
	values := map[string]any{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if name = strings.TrimPrefix(name, prefix); !ok || name == "" {
			errs = append(errs, fmt.Errorf("%s is %q: write NAME=VALUE", flag, text))
			continue
		}
		values[prefix+name] = typed(value)
	}
	if err := errors.Join(errs...); err != nil {
		return core.Properties{}, err
	}
	var pairs []core.Property
	for _, name := range slices.Sorted(maps.Keys(values)) {
		pairs = append(pairs, core.Property{Key: name, Value: values[name]})
	}
	return core.NewProperties(pairs...)
}

func typed(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return f
	}
	switch {
	case text == "true" || text == "false":
		return text == "true"
	case len(text) > 1 && strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`):
		return text[1 : len(text)-1]
	default:
		return text
	}
}
