// Package repository finds the repository that a tool works on.
package repository

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Module is the path of the gateway's module, whose go.mod is in the root folder.
const Module = "github.com/crosstown-mq/crosstown"

// Root returns the root folder of the repository that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return above(dir)
}

// Enter makes the root the working directory, so that a tool finds files by their paths in the
// repository wherever it was started.
func Enter() error {
	root, err := Root()
	if err != nil {
		return err
	}
	return os.Chdir(root)
}

// gatewayVariable names a gateway that is already built, by its absolute path.
const gatewayVariable = "CROSSTOWN_BINARY"

// Gateway returns the gateway's binary for tests: the one that CROSSTOWN_BINARY names, else one that
// it builds in dir. It removes the variable from the environment, since a gateway refuses variables
// that are not its settings: call it once.
func Gateway(dir string) (string, error) {
	if built := os.Getenv(gatewayVariable); built != "" {
		if !filepath.IsAbs(built) {
			return "", fmt.Errorf("%s: %q is not an absolute path", gatewayVariable, built)
		}
		if _, err := os.Stat(built); err != nil {
			return "", fmt.Errorf("%s: %w", gatewayVariable, err)
		}
		return built, os.Unsetenv(gatewayVariable)
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "crosstown")
	build := exec.Command("go", "build", "-o", binary, "./gateway")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the gateway: %w\n%s", err, out)
	}
	return binary, nil
}

// above returns the first folder from dir upwards that has the go.mod of Module.
func above(dir string) (string, error) {
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && declares(string(text), Module) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory is not in Crosstown's repository: no go.mod above it has the module " + Module)
		}
		dir = parent
	}
}

// declares reports whether a go.mod is that of a module.
func declares(text, module string) bool {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		if words := strings.Fields(line); len(words) == 2 && words[0] == "module" {
			return words[1] == module
		}
	}
	return false
}
