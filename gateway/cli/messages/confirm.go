package messages

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
)

// confirmation is the flag --yes of commands that remove messages.
type confirmation struct{ yes bool }

func (o *confirmation) bind(c *cobra.Command) {
	c.Flags().BoolVar(&o.yes, "yes", false, "do not ask before messages are removed")
}

// confirm asks on a terminal whether to go on. Without a terminal --yes must be given.
func (o *confirmation) confirm(c *cobra.Command, what string) error {
	if o.yes {
		return nil
	}
	in := c.InOrStdin()
	if !command.IsTerminal(in) {
		return command.Usagef("this would %s, for ever: confirm with --yes", what)
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "This will %s, for ever. Go on? [y/N] ", what)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		return command.Usagef("there is no answer on standard input: confirm with --yes")
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return fmt.Errorf("nothing was removed")
	}
	return nil
}
