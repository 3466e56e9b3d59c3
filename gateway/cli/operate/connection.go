package operate

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func Connection(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use: "connection", Short: "List and close the connections of clients to a gateway",
		Long: `List and close the connections of clients to a gateway.

The commands need Manage on the namespace. With Manage on the gateway's own namespace, they
apply to the connections of all namespaces. They act only on the gateway to which the
command connects.`,
	})
	c.AddCommand(command.Asking(&cobra.Command{
		Use: "list", Short: "List connections: clients, policies, and what they send to and receive from", Args: cobra.NoArgs,
		Example: `  crosstown connection list
  crosstown connection list --json | jq '.connections[] | select(.product | contains("azsdk-go"))'`,
	}, environ, command.About(http.MethodGet, api.ConnectionsPath), printConnections), connectionCloseCommand(environ))
	return c
}

func printConnections(out io.Writer, _ []string, list *api.ConnectionList) error {
	all, now := list.Connections, time.Now()
	if len(all) == 0 {
		return command.Line(out, "no connections")
	}
	w := command.NewTable(out, "ID", "NAMESPACE", "PROTOCOL", "PEER", "POLICIES", "OPEN FOR", "LINKS", "CLIENT")
	for i := range all {
		a := &all[i]
		var links []string
		for j := range a.Links {
			links = append(links, linkText(&a.Links[j]))
		}
		w.Row(a.ID, cmp.Or(a.Namespace, "-"), a.Protocol, a.Peer, cmp.Or(strings.Join(a.Policies, ","), "-"),
			max(now.Sub(a.Since), 0).Round(time.Second), cmp.Or(strings.Join(links, ", "), "-"), cmp.Or(a.Product, "-"))
	}
	return w.Flush()
}

func linkText(l *api.Link) string {
	if l.Direction == "send" {
		return "→" + l.Entity
	}
	text := "←" + l.Entity
	if l.Session != nil {
		text += fmt.Sprintf(" (session %q)", *l.Session)
	}
	if l.Mode == "receiveAndDelete" {
		text += " (deletes)"
	}
	return text
}

func connectionCloseCommand(environ []string) *cobra.Command {
	var o command.Flags
	c := &cobra.Command{
		Use: "close ID…", Short: "Close connections by their ids", Args: cobra.MinimumNArgs(1),
		Long: `Close connections by their ids, which crosstown connection list and the gateway's log show.

The gateway first finishes the work in flight on the connection, within drain-timeout. Then it
tells the client that an operator has closed the connection. SDKs connect again automatically,
and no message is lost. Messages that the client has locked stay locked until their locks end;
sessions that it holds are released.

To keep a client away, change or disable its policy, or disable the entity.`,
		Example: `  crosstown connection close 4f2a9c01be77d301`,
	}
	o.Bind(c, environ)
	c.RunE = func(c *cobra.Command, ids []string) error {
		for _, id := range ids {
			var closed api.Connection
			if err := o.Ask(c.Context(), command.Inquiry{Method: http.MethodDelete, Path: api.ConnectionsPath, Names: []string{id}}, &closed); err != nil {
				return err
			}
			if err := o.Tell(c, closed, "closed connection %s of %s from %s", closed.ID, cmp.Or(closed.Product, "a client"), closed.Peer); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}
