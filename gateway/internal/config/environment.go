package config

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/internal/spelling"
)

const envPrefix = "CROSSTOWN_"

// otherVariables begin with envPrefix, but are not settings. Only tests use BINARY.
var otherVariables = []string{envPrefix + "BINARY", envPrefix + "CONNECTION_STRING", envPrefix + "CONTEXT", envPrefix + "CONTEXTS", fileVariable, policyVariable}

// serviceLink matches variables that Kubernetes and Docker set for a service called crosstown or
// crosstown-….
var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP|SCTP).*)?$|_NAME$|_ENV_`)

// envLayer reads settings from environ. It reports unknown variables that begin with envPrefix.
func envLayer(environ []string, all []setting, r *report) layer {
	l := newLayer()
	known := slices.Clone(otherVariables)
	byVariable := map[string]setting{}
	for _, s := range all {
		known = append(known, s.variable())
		byVariable[s.variable()] = s
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		s, ok := byVariable[name]
		switch {
		case ok && value != "":
			l.set(s.path, value, name)
		case ok, slices.Contains(otherVariables, name), serviceLink.MatchString(name):
		default:
			text := "no setting has this variable: unset it"
			if near := spelling.Nearest(name, known); len(near) > 0 {
				text = "no setting has this variable: did you mean " + near[0] + "?"
			}
			r.addAt(origin{source: name}, "%s", text)
		}
	}
	return l
}

func Data(environ []string) string {
	if dir := Variable(environ, envPrefix+"DATA"); dir != "" {
		return dir
	}
	if base := Variable(environ, "XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "crosstown")
	}
	if home := Variable(environ, "HOME"); home != "" {
		return filepath.Join(home, ".local", "share", "crosstown")
	}
	if base := Variable(environ, "LOCALAPPDATA"); filepath.IsAbs(base) { // on Windows
		return filepath.Join(base, "crosstown")
	}
	return ""
}

// Variable returns the value in the last NAME=VALUE entry for name in environ, or "".
func Variable(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
