package main

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestDocumentsLinkToWhatThereIs follows every relative link of the Markdown
// files, to a file and to a heading in it.
func TestDocumentsLinkToWhatThereIs(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"`)
	for _, page := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(prose(t, page), -1) {
			target, err := url.Parse(found[1] + found[2])
			if err != nil || target.Scheme != "" {
				continue // elsewhere, or no link but code
			}
			file := page
			if target.Path != "" {
				file = filepath.Join(filepath.Dir(page), filepath.FromSlash(target.Path))
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: link to %s: %v", page, target, err)
				continue
			}
			if target.Fragment != "" && !hasHeading(t, file, target.Fragment) {
				t.Errorf("%s: link to %s: no such heading", page, target)
			}
		}
	}
}

// TestTablesHaveHeaders fails on rows of a table that no header precedes: an empty line ends a table.
func TestTablesHaveHeaders(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		lines := strings.Split(prose(t, page), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "|") && (i == 0 || !strings.HasPrefix(lines[i-1], "|")) && (i+1 == len(lines) || !strings.HasPrefix(lines[i+1], "|--")) {
				t.Errorf("%s: the row %.60q has no header", page, line)
			}
		}
	}
}

// TestConfigurationPageNamesEveryFlag compares docs/configuration.md with the
// flags of the command line, both ways.
func TestConfigurationPageNamesEveryFlag(t *testing.T) {
	t.Parallel()
	flags := regexp.MustCompile("--[a-z]+(?:-[a-z]+)*")
	_, help, _ := invoke(t, nil, "serve", "--help")
	known := map[string]bool{"--help": true} // of every command
	page := prose(t, "../docs/configuration.md")
	for line := range strings.Lines(help) {
		flag, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "-h, ")), " ")
		if !strings.HasPrefix(flag, "--") {
			continue
		}
		known[flag] = true
		if flag != "--help" && !strings.Contains(page, "`"+flag+"`") {
			t.Errorf("docs/configuration.md has no %s", flag)
		}
	}
	for _, flag := range flags.FindAllString(page, -1) {
		if !known[flag] {
			t.Errorf("docs/configuration.md has %s, which is not a flag", flag)
		}
	}
}

// TestTheIndexListsEveryPage looks in docs/README.md for each page of docs.
func TestTheIndexListsEveryPage(t *testing.T) {
	t.Parallel()
	listed, err := filepath.Glob("../docs/*.md")
	if err != nil || len(listed) == 0 {
		t.Fatal(listed, err)
	}
	index := prose(t, "../docs/README.md")
	for _, page := range listed {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// TestSecurityPageNamesTestsThatAreThere looks for each test that docs/security.md cites.
func TestSecurityPageNamesTestsThatAreThere(t *testing.T) {
	t.Parallel()
	cited := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(prose(t, "../docs/security.md"), -1)
	if len(cited) < 20 {
		t.Errorf("only %d tests are cited", len(cited))
	}
	var tests strings.Builder
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range cited {
		if !strings.Contains(tests.String(), "\nfunc "+name[1]+"(") {
			t.Errorf("docs/security.md cites %s, which is not a test", name[1])
		}
	}
}

// TestTheReleaseHasWhatItNames looks for the files that .goreleaser.yaml puts into archives.
func TestTheReleaseHasWhatItNames(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var release struct {
		Builds   []struct{ Main, Binary string }
		Archives []struct{ Files []string }
	}
	if err := yaml.Unmarshal(text, &release); err != nil {
		t.Fatal(err)
	}
	if len(release.Builds) != 1 || len(release.Archives) != 1 || release.Builds[0].Binary != "crosstown" {
		t.Fatalf("got %+v, want one archive of crosstown", release)
	}
	for _, pattern := range append(release.Archives[0].Files, release.Builds[0].Main) {
		if found, err := filepath.Glob(filepath.Join("..", pattern)); err != nil || len(found) == 0 {
			t.Errorf("%s matches no file: %v", pattern, err)
		}
	}
}

// TestReadmeIsShort holds the README at 150 lines: what is longer belongs to docs.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines > 150 {
		t.Errorf("README.md has %d lines, of 150; move some to docs", lines)
	}
}

// pages returns the Markdown files of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "target" || strings.HasPrefix(entry.Name(), ".") && path != ".."):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// prose returns a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?ms)^ *```.*?^ *```").ReplaceAllString(string(text), "")
}

// hasHeading tells whether a page has a heading of an anchor, as forges make
// anchors of headings.
func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(prose(t, page)) {
		heading := strings.TrimLeft(line, "#")
		if heading == line {
			continue
		}
		heading = dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
		if strings.ReplaceAll(heading, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestTheServiceOfSystemdIsSound loads the settings of the unit as the gateway does, and has systemd verify
// the unit where it is at hand.
func TestTheServiceOfSystemdIsSound(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../configs/deploy/systemd/crosstown.service")
	if err != nil {
		t.Fatal(err)
	}
	environ := []string{"CROSSTOWN_POLICY=RootManageSharedAccessKey=a-key-of-its-own:Send,Listen,Manage"}
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "ExecStart="); ok {
			if calls := crosstownCommands(command); len(calls) != 1 || understand(calls[0], true) != nil {
				t.Errorf("no command: %s", command)
			}
		}
		if setting, ok := strings.CutPrefix(line, "Environment="); ok {
			environ = append(environ, strings.TrimSpace(setting))
		}
	}
	if code, _, stderr := invoke(t, environ, "config", "print"); code != exitOK || len(environ) < 3 {
		t.Errorf("%v: %s", environ, stderr)
	}
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not at hand")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := writeFile(t, "crosstown.service", strings.ReplaceAll(string(text), "/usr/local/bin/crosstown", program))
	if out, err := exec.CommandContext(t.Context(), verify, "verify", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
