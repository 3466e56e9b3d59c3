package operate

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func Remote(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{Use: "remote", Short: "Show the remote brokers that a gateway forwards to or pulls from"})
	c.AddCommand(command.Asking(&cobra.Command{
		Use: "list", Short: "List the remotes of a namespace with their state and the messages that wait for them", Args: cobra.NoArgs,
		Long: `List the remotes of a namespace with their state and the number of messages that wait for them.

The command needs Manage on the namespace. With Manage on the gateway's own namespace, it
lists the remotes of all namespaces.`,
	}, environ, command.About(http.MethodGet, api.RemotesPath), printRemotes))
	return c
}

func printRemotes(out io.Writer, _ []string, states *[]api.Remote) error {
	now := time.Now()
	if len(*states) == 0 {
		return command.Line(out, "no remotes: the gateway's configuration lists no remotes for this namespace")
	}
	w := command.NewTable(out)
	for _, s := range *states {
		condition := "connected"
		if !s.Connected {
			condition = "not connected: " + s.Error
		}
		w.Row(s.Namespace+"/"+s.Name, s.Address, fmt.Sprintf("%s, for %v", condition, now.Sub(s.Since).Round(time.Second)))
		for _, from := range s.Waiting {
			what := from.Entity
			if from.DeadLetters {
				what += "'s dead letters"
			}
			since := ""
			if !from.Oldest.IsZero() {
				since = fmt.Sprintf(", for up to %v", now.Sub(from.Oldest).Round(time.Second))
			}
			w.Row("", what+" → "+from.To, fmt.Sprintf("%d waiting%s", from.Waiting, since))
		}
		for _, t := range s.Targets {
			w.Row("", "→ "+t.Entity, fmt.Sprintf("%d sent, %d dead-lettered, %d under way, round trip %v", t.Sent, t.Parked, t.UnderWay, t.RoundTrip.Round(10*time.Microsecond)))
		}
		for _, from := range s.Sources {
			state := fmt.Sprintf("%d pulled, %d dead-lettered at the remote", from.Received, from.Parked)
			if !from.Attached {
				state += "; not attached: " + cmp.Or(from.Error, "not connected")
			}
			w.Row("", from.From+" → "+from.Into, state)
		}
	}
	return w.Flush()
}
