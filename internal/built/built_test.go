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

func TestProgramIsBuiltForATestOfAnotherModule(t *testing.T) {
	t.Chdir(filepath.Join("..", "..", "gateway", "tools"))
	program, err := Program(t.TempDir(), module+"/examples/plugins/to-router") // needs gRPC, which that module does not
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Error(err)
	}
}
