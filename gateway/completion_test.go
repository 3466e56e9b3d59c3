package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What a shell asks for is answered with the names of a real gateway.
func TestCompletion(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--allow-faults")
	for _, args := range []string{
		"queue create orders", "queue create invoices", "topic create events", "topic create news",
		"subscription create events eu", "subscription create events us", "rule create events eu large --sql a=1",
		"namespace create suite-17", "fault add --name busy --entity nothing",
		"queue create carts --session-aware", "send carts x --session s-1",
	} {
		g.command(t, "", strings.Fields(args)...)
	}
	for _, c := range []struct{ line, want string }{
		{"queue show ", "carts invoices orders"},
		{"queue delete o", "orders"},
		{"queue purge ", "carts invoices orders"},
		{"queue create ", ""},
		{"queue show orders ", ""},
		{"topic show ", "events news"},
		{"subscription list ", "events news"},
		{"subscription show events ", "eu us"},
		{"subscription create events ", ""},
		{"rule list events ", "eu us"},
		{"rule show events eu ", "$Default large"},
		{"receive ", "carts invoices orders events/Subscriptions/eu events/Subscriptions/us"},
		{"peek events/Subscriptions/e", "events/Subscriptions/eu"},
		{"record orders inv", "invoices"},
		{"send e", "events"},
		{"deadletter list or", "orders"},
		{"scheduled list or", "orders"},
		{"session show carts ", "s-1"},
		{"token or", "orders"},
		{"send orders ", ""},
		{"queue update orders --forward-to ", "carts invoices orders events news"},
		{"namespace show suite", "suite-17"},
		{"namespace rotate suite-17 ", "RootManageSharedAccessKey"},
		{"clock show --namespace suite", "suite-17"},
		{"fault remove ", "busy"},
		{"fault add --operation del", "deliver"},
		{"fault add --effect drop", "drop-connection"},
		{"receive --mode ", "peeklock delete"},
		{"bench --mode la", "latency"},
		{"serve --store ", "auto file memory redis:// rediss://"},
		{"--sync ", "always interval never"},
		{"config print --log-level ", "debug info warn error"},
		{"plugin new ", "router serializer"},
		{"completion ", "bash fish powershell zsh"},
		{"cont", "context"},
	} {
		if got := complete(t, g, g.connection, c.line); got != c.want {
			t.Errorf("%q: got %q, want %q", c.line, got, c.want)
		}
	}
	g.command(t, "", "context", "save", "here", "--connection-string", g.connection)
	for _, line := range []string{"context show ", "queue list --context ", "migrate --from "} {
		if got := complete(t, g, "", line); !strings.HasPrefix(got, "here\tlocalhost:") {
			t.Errorf("%q: got %q, want the context with its endpoint", line, got)
		}
	}
	if got := complete(t, g, "", "queue show --context here or"); got != "orders" {
		t.Errorf("by a context: got %q", got)
	}
	for _, away := range []string{"Endpoint=sb://localhost:1;SharedAccessKeyName=a;SharedAccessKey=b", "nonsense"} {
		if got := complete(t, g, away, "receive "); got != "" {
			t.Errorf("without a gateway: got %q, want nothing", got)
		}
	}
}

// complete returns what a shell is offered at the end of a line.
func complete(t *testing.T, g *gateway, connection, line string) string {
	t.Helper()
	fields := strings.Split(line, " ")
	code, stdout, stderr := g.try(t, connection, "", append([]string{cobra.ShellCompNoDescRequestCmd}, fields...)...)
	if strings.Contains(line, "context ") || strings.Contains(line, "--from ") { // with descriptions
		code, stdout, stderr = g.try(t, connection, "", append([]string{cobra.ShellCompRequestCmd}, fields...)...)
	}
	if code != exitOK || !strings.HasPrefix(stderr, "Completion ended") {
		t.Errorf("%q: exit code %d, %s", line, code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, ":") {
		t.Errorf("%q: the last line is %q, no directive", line, last)
	}
	return strings.Join(lines[:len(lines)-1], " ")
}

// A script of each shell is printed, and the help has the command.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, stdout, stderr := invoke(t, nil, "completion", shell); code != exitOK || !strings.Contains(stdout, "__complete") || stderr != "" {
			t.Errorf("%s: exit code %d, %.80q %s", shell, code, stdout, stderr)
		}
	}
	_, help, _ := invoke(t, nil, "--help")
	if !slices.ContainsFunc(strings.Split(help, "\n"), func(line string) bool { return strings.HasPrefix(line, "  completion ") }) {
		t.Errorf("the help lacks completion:\n%s", help)
	}
}
