package interop

import (
	"path/filepath"
	"testing"
)

func TestRustAzservicebus(t *testing.T) {
	interop(t)
	cargo := need(t, "cargo")
	dir := installed(t, "azservicebus-rs", func(dir string) error {
		return in(dir, cargo, "install", "--quiet", "--debug", "--locked", "--path", ".", "--root", ".")
	})
	program := filepath.Join(dir, "bin", "story")
	onEachEngine(t, func(s *story) {
		s.run(dir, nil, program)
		s.run(dir, []string{"STORY_SECURED=1", "STORY_NAME=tls", "SSL_CERT_FILE=" + s.ca}, program)
	})
}
