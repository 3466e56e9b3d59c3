package interop

import (
	"os/exec"
	"path/filepath"
	"testing"
)

func TestRustAzservicebus(t *testing.T) {
	interop(t)
	dir := rust(t, "azservicebus-rs")
	program := filepath.Join(dir, "bin", "story")
	onEachEngine(t, func(s *story) {
		s.run(dir, nil, program)
		s.run(dir, []string{"STORY_SECURED=1", "STORY_NAME=tls", "SSL_CERT_FILE=" + s.ca}, program)
	})
}

func TestRustAzureMessagingServiceBus(t *testing.T) {
	interop(t)
	dir := rust(t, "azure-rs")
	onEachEngine(t, func(s *story) { s.run(dir, []string{"SSL_CERT_FILE=" + s.ca}, filepath.Join(dir, "bin", "story")) })
}

// rust returns a copy of a folder with its program in bin/story.
func rust(t *testing.T, folder string) string {
	t.Helper()
	cargo := need(t, "cargo")
	if err := exec.Command(need(t, "pkg-config"), "--exists", "openssl").Run(); err != nil { // the crates build on it
		t.Skipf("no libssl-dev: pkg-config --exists openssl: %v", err)
	}
	return installed(t, folder, func(dir string) error {
		return in(dir, cargo, "install", "--quiet", "--debug", "--locked", "--path", ".", "--root", ".")
	})
}
