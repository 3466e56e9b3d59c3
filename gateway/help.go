package main

import (
	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli"
)

// usageTemplate is cobra's own without what no command here has. The flags of crosstown itself are those
// of crosstown serve, and are listed there: between them the commands would be hard to find.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$commands := .Commands}}{{if .HasParent}}

Commands:{{range $commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $commands}}{{if and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{end}}{{if .HasParent}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{else}}

Flags:
  -h, --help      help for crosstown
  -v, --version   print the version
  and those of the gateway, which "crosstown serve --help" lists{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} [command] --help" explains a command.{{end}}
`

// grouped lists the commands by what they are for.
func grouped(root *cobra.Command) {
	root.SetUsageTemplate(usageTemplate)
	root.AddGroup(cli.Groups()...)
	root.SetHelpCommandGroupID(cli.SetUp)
	root.SetCompletionCommandGroupID(cli.SetUp)
}
