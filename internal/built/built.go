// Package built provides the programs that tests run.
//
// go test repeats a cached result while the files that the test has read are unchanged. So this
// package reads a program's sources, or the program, so that a change makes the tests run again.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Tests of other modules, whose go.sum covers this one, build its programs, too.
const module = "github.com/crosstown-mq/crosstown"

const variable = "CROSSTOWN_BINARY"

// Without CROSSTOWN_BINARY, or with flags for go build, Gateway builds the program in dir.
func Gateway(dir string, flags ...string) (string, error) {
	program := os.Getenv(variable)
	if program == "" || len(flags) > 0 {
		return build(filepath.Join(dir, "crosstown"), module+"/gateway", flags)
	}
	if !filepath.IsAbs(program) {
		return "", fmt.Errorf("%s=%s is not an absolute path: give an absolute path, because the tests of each package run in another directory", variable, program)
	}
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("cannot read the program that %s names (%w): run make build to create the program, or unset the variable so that the tests build it", variable, err)
	}
	return program, nil
}

func Program(dir, pkg string) (string, error) {
	return build(filepath.Join(dir, filepath.Base(pkg)), pkg, nil)
}

func build(program, pkg string, flags []string) (string, error) {
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	root := "" // the test's folder
	if strings.HasPrefix(pkg, module+"/") {
		found, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			return "", fmt.Errorf("cannot find the folder of %s: %w", module, err)
		}
		root = strings.TrimSpace(string(found))
	}
	c := exec.Command("go", append(append([]string{"build", "-o", program}, flags...), pkg)...)
	c.Dir = root
	if len(flags) == 0 {
		c.Env = append(os.Environ(), "CGO_ENABLED=0") // as in make build, so that both use the same build cache
	}
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	const ofMainModule = "{{if .Module}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}" // one line per package, mostly empty
	list := exec.Command("go", "list", "-deps", "-f", ofMainModule, pkg)
	list.Dir = root
	var stderr strings.Builder
	list.Stderr = &stderr
	folders, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w\n%s", pkg, err, &stderr)
	}
	for folder := range strings.Lines(string(folders)) {
		if folder = strings.TrimSpace(folder); folder == "" {
			continue
		}
		if _, err := os.ReadDir(folder); err != nil {
			return "", err
		}
	}
	return program, nil
}
