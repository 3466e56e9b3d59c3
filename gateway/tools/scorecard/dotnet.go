package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// dotnet runs scenarios with the .NET SDK. A folder has them as a self-contained program
// (scenarios-linux-x64.tar.xz) and as source (scenarios/Program.cs), without the SDK's assemblies:
// DOTNET_LIB names a folder with these, or DOTNET_REPO a repository that contains them.
type dotnet struct {
	folder string
}

var (
	assemblies   = []string{"Azure.Messaging.ServiceBus", "Azure.Core.Amqp", "Microsoft.Azure.Amqp"}
	scenarioName = regexp.MustCompile(`(?m)^\s*\("([^"]+)", async`)
)

// committed is where the repository has the assemblies.
const committed = "HEAD:bin/Debug/net8.0/"

func (k *dotnet) prepare(ctx context.Context, dir string) ([]*suite, error) {
	if _, err := output(ctx, dir, "tar", "-xJf", filepath.Join(k.folder, "scenarios-linux-x64.tar.xz")); err != nil {
		return nil, err
	}
	programs, err := filepath.Glob(filepath.Join(dir, "*", "scenarios"))
	if err != nil || len(programs) != 1 {
		return nil, fmt.Errorf("%s has no program named scenarios: %w", k.folder, err)
	}
	dir = filepath.Dir(programs[0])
	for _, name := range assemblies {
		name += ".dll"
		library, repository := os.Getenv("DOTNET_LIB"), os.Getenv("DOTNET_REPO")
		var text []byte
		switch {
		case library != "":
			text, err = os.ReadFile(filepath.Join(library, name))
		case repository != "":
			text, err = exec.CommandContext(ctx, "git", "-C", repository, "show", committed+name).Output()
		default:
			err = errors.New("DOTNET_LIB or DOTNET_REPO must name the assemblies of the .NET SDK")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return nil, err
		}
	}
	return []*suite{{
		name:    "scenarios",
		version: "7.19.0",
		about:   "These are forty scenarios of this project with the unmodified SDK, not tests of the SDK's authors. They use the ports of Service Bus in a separate network namespace.",
		dir:     dir,
		gateway: variant{ports: true},
	}}, nil
}

func (k *dotnet) list(_ context.Context, s *suite) error {
	source, err := os.ReadFile(filepath.Join(k.folder, "scenarios", "Program.cs"))
	if err != nil {
		return err
	}
	for _, found := range scenarioName.FindAllSubmatch(source, -1) {
		s.tests = append(s.tests, string(found[1]))
	}
	if len(s.tests) == 0 {
		return fmt.Errorf("%s names no scenarios", k.folder)
	}
	return nil
}

func (k *dotnet) run(ctx context.Context, s *suite, g *gateway, tests []string, ended func(string, result)) {
	cmd := g.command(ctx, filepath.Join(s.dir, "scenarios"), tests...)
	cmd.Dir = s.dir
	cmd.Env = append(g.environment(), "CS="+g.connection(rootPolicy, rootKey))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return
	}
	cmd.Stderr = os.Stderr
	if cmd.Start() != nil {
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		verdict, text, ok := strings.Cut(lines.Text(), "  ")
		for _, test := range tests {
			switch {
			case !ok:
			case verdict == "pass" && text == test:
				ended(test, result{outcome: passed})
			case verdict == "FAIL" && strings.HasPrefix(text, test+": "):
				ended(test, result{outcome: failed, printed: text})
			}
		}
	}
	_ = cmd.Wait() // it fails when a scenario does
}
