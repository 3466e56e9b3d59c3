package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/gateway/cli"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/cli/move"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

const (
	exitOK      = 0
	exitFailure = 1 // the command failed
	exitUsage   = 2 // the command line or the configuration is wrong

	exitDifferent = 3 // crosstown diff has found differences
	exitNothing   = 4 // the command found nothing, such as no message to print or remove
)

// run runs the command line, and returns the exit code. It ends soon after ctx ends.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	understood := false
	root := rootCommand(environ)
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		cli.Complete(root, environ) // only now: cobra keeps the functions, and so the whole tree, until the process ends
	}
	beforeRun(root, func(c *cobra.Command) error {
		err := checkText(c.Flags())
		understood = err == nil
		return err
	})
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	called, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code, text := exitFailure, indent(err.Error())
	switch {
	case errors.Is(err, move.ErrDifferent):
		return exitDifferent
	case isAn[command.Nothing](err):
		code = exitNothing
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		text = "interrupted"
	case !understood:
		code, text = exitUsage, fmt.Sprintf("%v\nsee: %s --help", misuse(called, err), called.CommandPath())
	case isAn[config.Problems](err):
		code, text = exitUsage, "the settings are wrong:\n  "+text
	case isAn[command.UsageError](err):
		code = exitUsage
	}
	_, _ = fmt.Fprintf(stderr, "crosstown: %s\n", text)
	return code
}

// These patterns match cobra's errors for wrong command lines. misuse replaces these errors.
var (
	wrongArguments = regexp.MustCompile(`arg\(s\),.* received (\d+)$`)
	wrongFlags     = []struct {
		theirs *regexp.Regexp
		ours   string
	}{
		{regexp.MustCompile(`none of the others can be; \[(.*)\] were all set$`), "%s cannot be combined: use one of them"},
		{regexp.MustCompile(`^at least one of the flags in the group \[(.*)\] is required$`), "no flag is given: use at least one of %s"},
		{regexp.MustCompile(`^required flag\(s\) "(.*)" not set$`), "%s is missing: the command requires it"},
	}
)

// misuse rewords errors of cobra and pflag about the command line of c, and adds a remedy.
func misuse(c *cobra.Command, err error) error {
	value, isValue := errors.AsType[*pflag.InvalidValueError](err)
	if number, isNumber := errors.AsType[*strconv.NumError](err); isValue && isNumber {
		flag := value.GetFlag()
		return fmt.Errorf("--%s is %q (%w): write a value of the type %s", flag.Name, value.GetValue(), number.Err, flag.Value.Type())
	}
	if m := wrongArguments.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1])
		return fmt.Errorf("the command line has %s: write %s", command.Plural(n, "argument"), c.UseLine())
	}
	for _, each := range wrongFlags {
		if m := each.theirs.FindStringSubmatch(err.Error()); m != nil {
			return fmt.Errorf(each.ours, "--"+strings.NewReplacer(`", "`, ", --", " ", ", --").Replace(m[1]))
		}
	}
	return err
}

func isAn[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// beforeRun makes c and its subcommands call f after they have parsed their flags.
func beforeRun(c *cobra.Command, f func(*cobra.Command) error) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := f(c); err != nil {
				return err
			}
			return run(c, args)
		}
	}
	for _, below := range c.Commands() {
		beforeRun(below, f)
	}
}

// checkText refuses values that are not UTF-8, because XML and JSON would replace their bytes. File
// names may have any bytes. Commands with the flag --config check their values in config.Load.
func checkText(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		holds, _ := pflag.UnquoteUsage(f)
		if v := f.Value.String(); !utf8.ValidString(v) && holds != "file" && holds != "directory" && flags.Lookup("config") == nil {
			err = fmt.Errorf("--%s: %.40q is not UTF-8: write it in UTF-8", f.Name, v)
		}
	})
	return err
}

func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n  ") }

func rootCommand(environ []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "crosstown",
		Short: "A self-hosted message gateway that speaks the protocols of Azure Service Bus",
		Long: `Crosstown is a self-hosted message gateway that speaks the protocols of Azure Service Bus.

Without a command it runs a gateway. Settings come from flags, then from environment
variables (--log-level is CROSSTOWN_LOG_LEVEL), then from the file of --config.`,
		Args:          command.Known,
		Version:       fullVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(c *cobra.Command, _ []string) error { return serveCommanded(c, environ) },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	config.Bind(root.Flags())
	serve := &cobra.Command{
		Use:   "serve",
		Short: "Serve until interrupted (the default)",
		Args:  cobra.NoArgs,
		RunE:  root.RunE,
	}
	serve.Flags().AddFlagSet(root.Flags())
	grouped(root)
	root.AddCommand(cli.In(cli.Operate, serve, backupCommand(environ), restoreCommand(environ))...)
	root.AddCommand(cli.In(cli.Test, testServerCommand())...)
	root.AddCommand(cli.In(cli.SetUp, versionCommand())...)
	root.AddCommand(cli.Commands(environ)...)
	cli.Exemplify(root)
	shortNames(root)
	return root
}

func shortNames(c *cobra.Command) {
	c.SuggestionsMinimumDistance = 2
	switch c.Name() {
	case "list":
		c.Aliases = append(c.Aliases, "ls")
	case "delete", "remove":
		c.Aliases = append(c.Aliases, "rm", "delete", "remove")
	}
	for _, below := range c.Commands() {
		shortNames(below)
	}
}

// usageTemplate is cobra's template without parts that no command uses. The root command lists no
// flags of crosstown serve: there are so many that they would hide the commands.
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

func grouped(root *cobra.Command) {
	root.SetUsageTemplate(usageTemplate)
	root.AddGroup(cli.Groups()...)
	root.SetHelpCommandGroupID(cli.SetUp)
	root.SetCompletionCommandGroupID(cli.SetUp)
}

// The linker sets version in the build of a release.
var version string

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), fullVersion())
			return err
		},
	}
}

func fullVersion() string {
	return fmt.Sprintf("crosstown %s %s %s/%s", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionText returns version. If version is "", it returns the module's version or revision.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
