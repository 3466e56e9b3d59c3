package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/internal/durable"
)

const (
	contextsVariable = "CROSSTOWN_CONTEXTS"
	ContextVariable  = "CROSSTOWN_CONTEXT"
)

type Context struct {
	ConnectionString string `json:"connectionString"`
	CA               string `json:"ca,omitempty"` // PEM file
}

func (c Context) Endpoint() string {
	parsed, err := auth.ParseConnectionString(c.ConnectionString)
	switch {
	case err != nil:
		return err.Error()
	case parsed.Emulator:
		return parsed.Host + " without TLS"
	}
	return parsed.Host
}

type Contexts struct {
	Path    string             `json:"-"`
	Current string             `json:"current,omitempty"` // "": none
	Named   map[string]Context `json:"contexts"`
}

func contextsPath(environ []string) string {
	if path := config.Variable(environ, contextsVariable); path != "" {
		return path
	}
	if dir := configDirectory(environ, runtime.GOOS); dir != "" {
		return filepath.Join(dir, "crosstown", "contexts.json")
	}
	return ""
}

func configDirectory(environ []string, system string) string {
	home := config.Variable(environ, "HOME")
	switch {
	case system == "windows":
		return config.Variable(environ, "AppData")
	case system == "darwin" && home != "":
		return filepath.Join(home, "Library", "Application Support")
	}
	if base := config.Variable(environ, "XDG_CONFIG_HOME"); filepath.IsAbs(base) {
		return base
	}
	if home != "" {
		return filepath.Join(home, ".config")
	}
	return ""
}

func LoadContexts(environ []string) (*Contexts, error) {
	f := &Contexts{Path: contextsPath(environ), Named: map[string]Context{}}
	if f.Path == "" {
		return f, nil
	}
	text, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the contexts: %w", err)
	}
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("cannot read the contexts in %s: %w: correct the file or remove it", f.Path, err)
	}
	if f.Named == nil {
		f.Named = map[string]Context{}
	}
	return f, nil
}

var contextNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func CheckContextName(name string) error {
	if !contextNames.MatchString(name) {
		return fmt.Errorf("%.70q is not a valid name for a context: use at most 63 letters, digits, dots, hyphens and underscores, beginning with a letter or digit", name)
	}
	return nil
}

func (f *Contexts) Names() []string { return slices.Sorted(maps.Keys(f.Named)) }

func (f *Contexts) Get(name string) (Context, error) {
	c, ok := f.Named[name]
	if !ok {
		return c, fmt.Errorf("context %q does not exist in %s: list contexts with crosstown context list, or create it with crosstown context save %[1]s", name, f.Path)
	}
	return c, nil
}

// Save replaces the file atomically. Only the owner of the file may read it: it contains keys.
func (f *Contexts) Save() error {
	if f.Path == "" {
		return fmt.Errorf("cannot determine the file for contexts, because neither XDG_CONFIG_HOME nor HOME is set: set %s to a file", contextsVariable)
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err = os.MkdirAll(filepath.Dir(f.Path), 0o700); err == nil {
		err = WriteWhole(f.Path, durable.Content(append(text, '\n')))
	}
	if err != nil {
		err = fmt.Errorf("cannot save the contexts: %w", err)
	}
	return err
}
