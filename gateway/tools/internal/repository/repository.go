// Package repository finds the repository that a tool works on.
package repository

import (
	"errors"
	"os"
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
