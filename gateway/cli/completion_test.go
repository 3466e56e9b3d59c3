package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
)

// TestFlagValuesAreThoseOfTheHelp compares the values that completion offers with the help of the flags.
func TestFlagValuesAreThoseOfTheHelp(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	ended, end := context.WithCancel(t.Context())
	end() // functions that ask a gateway return no names
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			look(below)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, key := range []string{c.Name() + " --" + f.Name, "--" + f.Name} {
				list := flags[key]
				if list == nil {
					continue
				}
				met[key] = true
				for _, value := range list(ended, &command.Flags{}, nil, "") {
					if !strings.Contains(f.Usage, value) && f.Name != "status" && f.Name != "rights" {
						t.Errorf("%s --%s: its help has no %s: %s", c.CommandPath(), f.Name, value, f.Usage)
					}
				}
			}
		})
	}
	for _, c := range Commands(nil) {
		look(c)
	}
	for key := range flags {
		if strings.Contains(key, " ") && !met[key] {
			t.Errorf("%s: there is no such flag", key)
		}
	}
}
