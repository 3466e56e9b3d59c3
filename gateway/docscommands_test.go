package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// TestCommandsOfDocumentsAreUnderstood parses each crosstown command of the documents: of blocks of
// code with its arguments, of the text with its name and its flags.
func TestCommandsOfDocumentsAreUnderstood(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile("`(crosstown [^`]+)`")
	found := 0
	for _, page := range pages(t) {
		if filepath.Base(page) == "CHANGELOG.md" {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks.FindAllString(string(text), -1) {
			for _, args := range crosstownCommands(block) {
				found++
				if err := understand(args, true); err != nil {
					t.Errorf("%s: crosstown %s: %v", page, strings.Join(args, " "), err)
				}
			}
		}
		for _, code := range inline.FindAllStringSubmatch(prose(t, page), -1) {
			for _, args := range crosstownCommands(code[1]) {
				found++
				if err := understand(args, false); err != nil {
					t.Errorf("%s: `crosstown %s`: %v", page, strings.Join(args, " "), err)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d commands were found", found)
	}
}

// TestCommandsOfPipelinesAreUnderstood parses the commands in examples/ci, and the emulator's file there.
func TestCommandsOfPipelinesAreUnderstood(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../examples/ci/*.yml")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var pipeline any
		if err := yaml.Unmarshal(text, &pipeline); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found := 0
		for _, script := range scripts(pipeline) {
			for _, args := range crosstownCommands(script) {
				found++
				if err := understand(args, true); err != nil {
					t.Errorf("%s: crosstown %s: %v", file, strings.Join(args, " "), err)
				}
			}
		}
		if found < 3 {
			t.Errorf("%s: only %d commands were found", file, found)
		}
	}
	if code, _, stderr := invoke(t, []string{"HOME=" + t.TempDir()}, "config", "check", "../examples/ci/servicebus/Config.json"); code != exitOK {
		t.Errorf("the emulator's file: %s", stderr)
	}
}

// understand parses a command line as the program does, and does not run it.
func understand(args []string, whole bool) error {
	root := rootCommand(nil)
	disarm(root, whole)
	root.SetArgs(args)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	err := root.Execute()
	if !whole && isAn[*pflag.ValueRequiredError](err) {
		return nil
	}
	return err
}

// disarm takes from a command what it does; and, if the line is not whole, its demands.
func disarm(c *cobra.Command, whole bool) {
	if !c.HasSubCommands() || !c.HasParent() {
		c.PreRunE, c.RunE = nil, func(*cobra.Command, []string) error { return nil }
		if !whole && c.HasParent() {
			c.Args = cobra.ArbitraryArgs
			c.Flags().VisitAll(func(f *pflag.Flag) { delete(f.Annotations, cobra.BashCompOneRequiredFlag) })
		}
	}
	for _, below := range c.Commands() {
		disarm(below, whole)
	}
}

// blocks matches a block of code, its fences included.
var blocks = regexp.MustCompile("(?ms)^ *```.*?^ *```")

var assignment = regexp.MustCompile(`^\w+=`)

// crosstownCommands lists the arguments of each call of crosstown in lines of a shell.
func crosstownCommands(script string) (all [][]string) {
	script = strings.ReplaceAll(script, "\\\n", " ")
	for line := range strings.Lines(script) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		for _, words := range simpleCommands(line) {
			i := slices.IndexFunc(words, func(w string) bool {
				return !assignment.MatchString(w) && !slices.Contains([]string{"sudo", "exec", "time", "nohup", "do", "then", "if", "until", "run:", "-"}, w)
			})
			if i >= 0 && words[i] == "docker" && slices.Contains(words, "exec") { // the program may be called like its container
				i = len(words) - 1
				for i >= 0 && words[i] != "crosstown" {
					i--
				}
			}
			if i >= 0 && filepath.Base(words[i]) == "crosstown" {
				all = append(all, words[i+1:])
			}
		}
	}
	return all
}

// simpleCommands splits a line of a shell into its commands and their words; quotes, redirections and
// comments are taken away.
func simpleCommands(line string) (all [][]string) {
	var words []string
	var word strings.Builder
	var quote rune
	quoted := false
	endWord := func() {
		if word.Len() > 0 || quoted {
			words = append(words, word.String())
		}
		word.Reset()
		quoted = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			all = append(all, withoutRedirections(words))
		}
		words = nil
	}
	before := ' '
	for _, r := range line {
		last := before
		before = r
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, quoted = r, true
		case r == ' ' || r == '\t':
			endWord()
		case strings.ContainsRune("|;&)\n", r), r == '(' && last == '$':
			endCommand()
		case r == '#' && word.Len() == 0:
			endCommand()
			return all
		default:
			word.WriteRune(r)
		}
	}
	endCommand()
	return all
}

var redirection = regexp.MustCompile(`^\d?(<<<|>>?|<)(.*)$`)

func withoutRedirections(words []string) (kept []string) {
	for i := 0; i < len(words); i++ {
		m := redirection.FindStringSubmatch(words[i])
		if m == nil || strings.HasSuffix(words[i], ">") && len(m[2]) > 1 { // <TAB> is a key
			kept = append(kept, words[i])
		} else if m[2] == "" {
			i++ // its file
		}
	}
	return kept
}

// TestSettingsOfDocumentsAreThere checks the blocks of YAML that are parts of a configuration file: names
// that are no settings, and values that cannot be read.
func TestSettingsOfDocumentsAreThere(t *testing.T) {
	t.Parallel()
	found := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range yamlBlocks.FindAllStringSubmatch(string(text), -1) {
			var document any
			if err := yaml.Unmarshal([]byte(block[1]), &document); err != nil {
				t.Errorf("%s: %v in\n%s", page, err, block[1])
				continue
			}
			top, _ := document.(map[string]any)
			if !slices.ContainsFunc(slices.Collect(maps.Keys(top)), isSetting) {
				continue // of something else
			}
			found++
			_, _, stderr := invoke(t, []string{"HOME=" + t.TempDir()}, "config", "check", writeFile(t, "crosstown.yaml", block[1]))
			for line := range strings.Lines(stderr) {
				if strings.Contains(line, "the setting does not exist") {
					t.Errorf("%s: %s", page, line)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d parts of configurations were found", found)
	}
}

var yamlBlocks = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

// isSetting tells whether a name at the top of a file is one of a list that only configurations have.
func isSetting(name string) bool {
	return slices.Contains([]string{"queues", "topics", "policies", "issuers", "plugins", "pipelines", "serializers", "remotes", "retries", "explain", "hooks", "pushes", "namespaces", "allow-faults", "cors-origins"}, name)
}

// Every command that does something has an example in its help, and all examples are understood.
func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	pid := regexp.MustCompile(`\$\(pidof.*?\)`)
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			look(below)
		}
		if !c.HasSubCommands() && c.Runnable() && !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s: no example in its help begins with it: %q", c.CommandPath(), c.Example)
		}
		for _, args := range crosstownCommands(pid.ReplaceAllString(c.Example, "1")) {
			if err := understand(args, true); err != nil {
				t.Errorf("%s: its example crosstown %s: %v", c.CommandPath(), strings.Join(args, " "), err)
			}
		}
	}
	look(rootCommand(nil))
}
