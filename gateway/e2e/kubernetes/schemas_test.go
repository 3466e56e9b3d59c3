package kubernetes

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// kubernetesModule has the API's description among its files; nothing of it is built.
	kubernetesModule  = "k8s.io/kubernetes@v1.33.5"
	kubernetesVersion = "1.33.5"
	kubeconform       = "github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0"
	// patience bounds each program, downloads included.
	patience = 5 * time.Minute
)

// output runs a program outside of this module and returns what it prints.
func output(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = os.TempDir()
	c.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	return string(out) + errs.String(), err
}

// fetched skips where there is no way to the Go module proxy, or no program.
func fetched(t *testing.T, what, out string, err error) {
	t.Helper()
	if err != nil {
		t.Skipf("%s: %v\n%s", what, err, out)
	}
}

// schemas writes the JSON Schemas of Kubernetes' own kinds, and returns their directory.
func schemas(t *testing.T) string {
	t.Helper()
	out, err := output(t, "go", "mod", "download", "-json", kubernetesModule)
	fetched(t, "get "+kubernetesModule, out, err)
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(out[:strings.LastIndex(out, "}")+1]), &module); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(module.Dir, "api", "openapi-spec", "swagger.json"))
	if err != nil {
		t.Fatal(err)
	}
	var swagger struct{ Definitions map[string]map[string]any }
	if err := json.Unmarshal(data, &swagger); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, d := range swagger.Definitions {
		if d["properties"] != nil && d["additionalProperties"] == nil {
			d["additionalProperties"] = false
		}
		switch {
		case d["format"] == "int-or-string":
			d["type"] = []string{"string", "integer"}
		case strings.HasSuffix(name, ".Quantity"):
			d["type"] = []string{"string", "number"}
		}
		delete(d, "format")
	}
	write(t, filepath.Join(dir, "definitions.json"), map[string]any{"definitions": swagger.Definitions})
	for name, d := range swagger.Definitions {
		kinds, _ := d["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			kind, _ := k.(map[string]any)
			file := strings.ToLower(strings.Join([]string{text(kind["kind"]), strings.Split(text(kind["group"]), ".")[0], text(kind["version"])}, "-"))
			write(t, filepath.Join(dir, strings.ReplaceAll(file, "--", "-")+".json"), map[string]any{"$ref": "definitions.json#/definitions/" + name})
		}
	}
	return dir
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func write(t *testing.T, path string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
