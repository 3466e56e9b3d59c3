// Package redisserver finds and runs redis-server and valkey-server for tests and tools.
package redisserver

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var names = []string{"redis-server", "valkey-server"}

// oldest is the first major version with XADD 0-* and sharded Pub/Sub.
const oldest = 7

func Find() (path string, ok bool) {
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if Check(path) == nil {
			return path, true
		}
	}
	return "", false
}

var versionText = regexp.MustCompile(`v=(\d+)\.(\S+)`)

func Check(path string) error { return CheckVersion(path, oldest, 0) }

func CheckVersion(path string, major, minor int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return fmt.Errorf("cannot ask %s for its version: %w", path, err)
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("%s does not report its version: it must be redis-server or valkey-server", path)
	}
	hasMajor, _ := strconv.Atoi(string(m[1]))
	text, _, _ := strings.Cut(string(m[2]), ".")
	hasMinor, _ := strconv.Atoi(text)
	if hasMajor < major || hasMajor == major && hasMinor < minor {
		return fmt.Errorf("%s has version %s.%s: version %d.%d or newer is needed", path, m[1], m[2], major, minor)
	}
	return nil
}
