// Package project writes initial projects for the authors of plugins.
package project

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

const module = "github.com/crosstown-mq/crosstown"

// unreleased stands for the version of Crosstown's module if none is published.
const unreleased = "v0.0.0-00010101000000-000000000000"

const (
	Router     = "router"
	Serializer = "serializer"
)

type Project struct {
	Kind    string
	Name    string // name of the plugin, its program and its module
	Dir     string // directory of the new project; must be missing or empty
	Version string // version of Crosstown's module that the project requires, such as v1.2.3; "" if none is published
	Replace string // directory of Crosstown's source; "" to download it
}

var (
	names    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	releases = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)
	pseudo   = regexp.MustCompile(`[.-]\d{14}-[0-9a-f]{12}$`)
)

func Published(version string) bool {
	return releases.MatchString(version) && !pseudo.MatchString(version)
}

// Source returns the directory of Crosstown's source: one of the directories near, or of their
// parents. It returns "" if none has the source.
func Source(near ...string) string {
	for _, dir := range near {
		for dir != "" {
			if holdsSource(dir) {
				return dir
			}
			above := filepath.Dir(dir)
			if above == dir {
				break
			}
			dir = above
		}
	}
	return ""
}

func holdsSource(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && strings.HasPrefix(string(text), "module "+module+"\n")
}

func (p *Project) Write() ([]string, error) {
	if p.Kind != Router && p.Kind != Serializer {
		return nil, fmt.Errorf("%q is not a type of plugin: use %s or %s", p.Kind, Router, Serializer)
	}
	if !names.MatchString(p.Name) {
		return nil, fmt.Errorf("%q is not a valid name for a plugin: use lower-case letters, digits and hyphens", p.Name)
	}
	if there, err := os.ReadDir(p.Dir); err == nil && len(there) > 0 {
		return nil, fmt.Errorf("the directory %s is not empty: choose another", p.Dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	goMod, err := p.goMod()
	if err != nil {
		return nil, err
	}
	files := map[string]string{"go.mod": goMod, ".gitignore": "/" + p.Name + "\n"}
	written := []string{"main.go", "main_test.go", "README.md", "go.mod", ".gitignore"}
	for name, source := range map[string]string{
		"main.go": p.Kind + "/main.go", "main_test.go": p.Kind + "/main_test.go", "README.md": "README.md",
	} {
		if files[name], err = p.fill("templates/" + source + ".tmpl"); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(p.Dir, 0o755); err != nil {
		return nil, err
	}
	for _, name := range written {
		if err := os.WriteFile(filepath.Join(p.Dir, name), []byte(files[name]), 0o644); err != nil {
			return nil, err
		}
	}
	return written, nil
}

func (p *Project) goMod() (string, error) {
	version := p.Version
	if !Published(version) {
		version = unreleased
	}
	text := fmt.Sprintf("module %s\n\ngo 1.26.0\n\nrequire %s %s\n", p.Name, module, version)
	if p.Replace == "" {
		return text, nil
	}
	source, err := filepath.Abs(p.Replace)
	if err != nil {
		return "", err
	}
	if !holdsSource(source) {
		return "", fmt.Errorf("the directory %s does not contain Crosstown's source: specify another", source)
	}
	return text + fmt.Sprintf("\nreplace %s => %q\n", module, source), nil
}

func (p *Project) fill(name string) (string, error) {
	t, err := template.ParseFS(templates, name)
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(filepath.Join(p.Dir, p.Name))
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct {
		Project
		Title, Path string
		Unpublished bool
	}{*p, strings.ToUpper(p.Name[:1]) + p.Name[1:], path, !Published(p.Version)})
	return b.String(), err
}
