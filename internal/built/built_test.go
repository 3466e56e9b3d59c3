package built

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGatewayOfTheVariableIsNotBuiltAgain(t *testing.T) {
	program := filepath.Join(t.TempDir(), "crosstown")
	if err := os.WriteFile(program, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(variable, program)
	if got, err := Gateway(t.TempDir()); err != nil || got != program {
		t.Errorf("got %s %v, want %s", got, err, program)
	}
	for path, want := range map[string]string{"crosstown": "give an absolute path", program + "-not": "no such file"} {
		t.Setenv(variable, path)
		if _, err := Gateway(t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}
