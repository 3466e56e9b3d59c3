package operate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
)

// Connection is crosstown connection.
func Connection(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use: "connection", Short: "List and close the connections of clients to a gateway",
		Long: `List and close the connections of clients to a gateway.

The commands need Manage on the namespace. A policy of the gateway's own namespace
allows them for the connections of all namespaces. They are about the one gateway
that the connection string leads to.`,
	})
	c.AddCommand(connectionListCommand(environ), connectionCloseCommand(environ))
	return c
}

func connectionListCommand(environ []string) *cobra.Command {
	var o command.Flags
	c := &cobra.Command{
		Use: "list", Short: "List connections: clients, policies, and what they send to and receive from", Args: cobra.NoArgs,
		Example: `  crosstown connection list
  crosstown connection list --json | jq '.connections[] | select(.product | contains("azsdk-go"))'`,
	}
	o.Bind(c, environ)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var list api.ConnectionList
		if err := o.Ask(c.Context(), command.Inquiry{Method: http.MethodGet, Path: api.ConnectionsPath}, &list); err != nil {
			return err
		}
		if o.JSON {
			return json.NewEncoder(c.OutOrStdout()).Encode(list)
		}
		return printConnections(c.OutOrStdout(), list.Connections, time.Now())
	}
	return c
}

func printConnections(out io.Writer, all []api.Connection, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no connections")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tNAMESPACE\tPROTOCOL\tPEER\tPOLICIES\tOPEN FOR\tLINKS\tCLIENT") // an error comes with Flush
	for i := range all {
		a := &all[i]
		var links []string
		for j := range a.Links {
			links = append(links, linkText(&a.Links[j]))
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%v\t%s\t%s\n", a.ID, cmp.Or(a.Namespace, "-"), a.Protocol, a.Peer, cmp.Or(strings.Join(a.Policies, ","), "-"),
			max(now.Sub(a.Since), 0).Round(time.Second), cmp.Or(strings.Join(links, ", "), "-"), cmp.Or(a.Product, "-"))
	}
	return w.Flush()
}

// linkText is a link in a few characters: ← for one that receives, → for one that sends.
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
		Use: "close ID...", Short: "Close connections by their ids", Args: cobra.MinimumNArgs(1),
		Long: `Close connections by their ids, which 'connection list' and the gateway's log show.

What is under way on a connection is done first, within 10 s (drain-timeout). Then the
client is told that an operator has closed the connection: SDKs connect again by
themselves, and no message is lost. Messages that the client has locked stay locked
until their locks end; sessions that it holds are given back.

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
			if o.JSON {
				if err := json.NewEncoder(c.OutOrStdout()).Encode(closed); err != nil {
					return err
				}
				continue
			}
			if _, err := fmt.Fprintf(c.OutOrStdout(), "closed connection %s of %s from %s\n", closed.ID, cmp.Or(closed.Product, "a client"), closed.Peer); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}
