package repository

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRootIsAboveTheModuleOfTools(t *testing.T) {
	t.Parallel()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "gateway", "tools", "go.mod")); err != nil {
		t.Error(err)
	}
}

func TestRootOutsideOfTheRepositoryIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+Module+"/other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if root, err := above(dir); err == nil {
		t.Errorf("got %s, want an error", root)
	}
}

func TestGatewayThatIsBuiltIsNotBuiltAgain(t *testing.T) {
	built := filepath.Join(t.TempDir(), "crosstown")
	if err := os.WriteFile(built, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(gatewayVariable, built)
	if got, err := Gateway(t.TempDir()); err != nil || got != built {
		t.Errorf("got %s %v, want %s", got, err, built)
	}
	if _, set := os.LookupEnv(gatewayVariable); set {
		t.Error("the variable is left in the environment of gateways")
	}
	for path, want := range map[string]string{"crosstown": "is not an absolute path", built + "-not": "no such file"} {
		t.Setenv(gatewayVariable, path)
		if _, err := Gateway(t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}
