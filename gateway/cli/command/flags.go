package command

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

type Flags struct {
	Environ          []string // NAME=VALUE entries
	ConnectionString string   // "" if the flag is not set
	Context          string
	CA               string // PEM file of a trusted authority
	Data             string // data directory of the local gateway
	Format
}

func (o *Flags) Bind(c *cobra.Command, environ []string) {
	o.BindConnection(c, environ)
	o.Format.Bind(c)
}

// FlagsOf reads the flags for a shell completion. c may have only some of these flags.
func FlagsOf(c *cobra.Command, environ []string) *Flags {
	text := func(name string) string {
		if f := c.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return &Flags{Environ: environ, ConnectionString: text("connection-string"), Context: text("context"), CA: text("ca"), Data: text("data")}
}

func (o *Flags) BindConnection(c *cobra.Command, environ []string) {
	o.BindWhere(c, environ)
	c.Flags().StringVar(&o.Data, "data", config.Data(environ), "data `directory` of the local gateway, whose development CA is trusted for this machine")
}

func (o *Flags) BindWhere(c *cobra.Command, environ []string) {
	o.Environ = environ
	f := c.Flags()
	f.StringVar(&o.ConnectionString, "connection-string", "", "namespace to use, as a Service Bus connection `string` (default $"+ConnectionVariable+", else the current context, else a local gateway)")
	f.StringVar(&o.Context, "context", "", "`name` of the context to use (crosstown context list)")
	f.StringVar(&o.CA, "ca", "", "PEM `file` of an authority to trust for TLS")
	c.MarkFlagsMutuallyExclusive("connection-string", "context")
}

func (o *Flags) Given() bool { return o.ConnectionString != "" || o.Context != "" }

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
