package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestThePlaceOfTheEmulatorsContainerIsTaken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "Config.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	sql := []string{"ACCEPT_EULA=Y", "SQL_SERVER=db", "MSSQL_SA_PASSWORD=secret", "SQL_WAIT_INTERVAL=15"}
	everywhere := []any{":5672", ":5300", ":5671", ":8443"}
	for _, c := range []struct {
		name    string
		given   map[string]any
		environ []string
		file    string
		listen  any
		config  any
		dev     any
		problem string
	}{
		{name: "a plain start", environ: append(sql, "EMULATOR_HTTP_PORT=1"), file: file},
		{name: "declined", given: map[string]any{"emulator": "false"}, file: file},
		{"as it comes", map[string]any{"emulator": "true"}, sql, file, everywhere, file, true, ""},
		{"without a file", map[string]any{"emulator": true}, sql, file + ".none", everywhere, nil, true, ""},
		{"another port", map[string]any{"emulator": true}, []string{"EMULATOR_HTTP_PORT=5310"}, file, []any{":5672", ":5310", ":5671", ":8443"}, file, true, ""},
		{"the same port", map[string]any{"emulator": true}, []string{"EMULATOR_HTTP_PORT=5672"}, file, []any{":5672", ":5671", ":8443"}, file, true, ""},
		{"no port", map[string]any{"emulator": true}, []string{"EMULATOR_HTTP_PORT=http"}, file, everywhere, file, true, `EMULATOR_HTTP_PORT: "http" is not a port`},
		{
			"what is set stays",
			map[string]any{"emulator": true, "listen": "127.0.0.1:1", "emulator-config": "mine.json", "dev-key-anywhere": "false"},
			[]string{"EMULATOR_HTTP_PORT=5310"},
			file, "127.0.0.1:1", "mine.json", "false", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, values := &report{origins: origins{}}, c.given
			if values == nil {
				values = map[string]any{}
			}
			addContainer(values, c.environ, c.file, r)
			got, isList := values["listen"].([]any)
			if want, _ := c.listen.([]any); isList && !slices.Equal(got, want) || !isList && values["listen"] != c.listen {
				t.Errorf("listen: got %v, want %v", values["listen"], c.listen)
			}
			if values["emulator-config"] != c.config || values["dev-key-anywhere"] != c.dev {
				t.Errorf("got file %v and key %v, want %v and %v", values["emulator-config"], values["dev-key-anywhere"], c.config, c.dev)
			}
			if err := r.err(); err == nil != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("got problem %v, want %q", err, c.problem)
			}
		})
	}
}
