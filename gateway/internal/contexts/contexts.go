// Package contexts keeps named ways to connect to a namespace in a file of the user.
package contexts

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
)

// The variables of the environment: the file with the contexts, and the context to use.
const (
	FileVariable = "CROSSTOWN_CONTEXTS"
	Variable     = "CROSSTOWN_CONTEXT"
)

// Context is a named way to connect.
type Context struct {
	ConnectionString string `json:"connectionString"`
	CA               string `json:"ca,omitempty"` // PEM file of an authority to trust for TLS
}

// Endpoint is where a context connects to, and whether without TLS.
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

// File holds the contexts of a user.
type File struct {
	Path     string             `json:"-"`
	Current  string             `json:"current,omitempty"` // "": none
	Contexts map[string]Context `json:"contexts"`
}

// Path returns where the contexts are kept in an environment of NAME=VALUE entries: what FileVariable
// says, else a file in the user's configuration directory, else "".
func Path(environ []string) string {
	if path := config.Variable(environ, FileVariable); path != "" {
		return path
	}
	if dir := directory(environ, runtime.GOOS); dir != "" {
		return filepath.Join(dir, "crosstown", "contexts.json")
	}
	return ""
}

// directory is os.UserConfigDir for an environment.
func directory(environ []string, system string) string {
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

// Load reads a file of contexts. One that is missing holds none.
func Load(path string) (*File, error) {
	f := &File{Path: path, Contexts: map[string]Context{}}
	if path == "" {
		return f, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("contexts: %s: %w: correct the file or remove it", path, err)
	}
	if f.Contexts == nil {
		f.Contexts = map[string]Context{}
	}
	return f, nil
}

var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Check reports whether a context can have a name.
func Check(name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("%.70q is no name for a context: use at most 63 letters, digits, dots, hyphens and underscores, a letter or digit first", name)
	}
	return nil
}

// Names returns the names of the contexts, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

// Get returns a context.
func (f *File) Get(name string) (Context, error) {
	c, ok := f.Contexts[name]
	if !ok {
		return c, fmt.Errorf("there is no context %q in %s: crosstown context list shows what there is, crosstown context save %[1]s makes it", name, f.Path)
	}
	return c, nil
}

// Save replaces the file at once. Only its owner may read it: it holds keys.
func (f *File) Save() error {
	if f.Path == "" {
		return fmt.Errorf("neither XDG_CONFIG_HOME nor HOME names a place for contexts: set %s to a file", FileVariable)
	}
	dir := filepath.Dir(f.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, ".contexts-*") // mode 0600
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	defer func() { _ = os.Remove(temp.Name()) }() // gone already after the rename
	_, err = temp.Write(append(text, '\n'))
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	if err := os.Rename(temp.Name(), f.Path); err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	return nil
}
