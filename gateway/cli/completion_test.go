package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFlagValuesAreThoseOfTheHelp compares the values that completion offers with the help of the flags.
func TestFlagValuesAreThoseOfTheHelp(t *testing.T) {
	t.Parallel()
	met := map[string]bool{}
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			look(below)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, key := range []string{c.Name() + " --" + f.Name, "--" + f.Name} {
				for _, value := range flagValues[key] {
					met[key] = true
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
	for key := range flagValues {
		if strings.Contains(key, " ") && !met[key] {
			t.Errorf("%s: there is no such flag", key)
		}
	}
}
