package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/crosstown-mq/crosstown/internal/built"
)

// TestPipelinesStartAGatewayWithTheirEntities runs the script of each pipeline in examples/ci that starts the
// program, on a port of its own and without the tests of the reader, and lists the queues.
func TestPipelinesStartAGatewayWithTheirEntities(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not at hand")
	}
	program, err := built.Gateway(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"github-actions.yml", "gitlab-ci.yml", "azure-pipelines.yml"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "servicebus"), os.DirFS("../examples/ci/servicebus")); err != nil {
				t.Fatal(err)
			}
			bin := filepath.Join(dir, ".crosstown", "bin")
			if err := os.MkdirAll(bin, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(program, filepath.Join(bin, "crosstown")); err != nil {
				t.Fatal(err)
			}
			port := freePort(t)
			connection := "Endpoint=sb://localhost:" + port + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true"
			script := startingScript(t, filepath.Join("../examples/ci", name))
			script = strings.NewReplacer("5672", port, "--store memory", "--store memory --listen 127.0.0.1:"+port, "/tmp/", dir+"/").Replace(script)

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c := exec.CommandContext(ctx, shell, "-c", "set -e\n"+script+"\ncrosstown queue list\nkill $!\nwait $!")
			c.Dir = dir
			c.Env = append(os.Environ(), "RUNNER_TEMP="+dir, "AGENT_TEMPDIRECTORY="+dir, "HOME="+dir,
				"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "CROSSTOWN_CONNECTION_STRING="+connection)
			out, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "session-queue") {
				t.Errorf("%v\n%s\n%s", err, script, out)
			}
			if pem, err := os.ReadFile(filepath.Join(dir, "ca.pem")); err != nil || !strings.HasPrefix(string(pem), "-----BEGIN CERTIFICATE-----") {
				t.Errorf("the authority: %v %s", err, pem)
			}
		})
	}
}

// startingScript is the script of a pipeline that starts the program, without the tests of the reader.
func startingScript(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pipeline any
	if err := yaml.Unmarshal(text, &pipeline); err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts(pipeline) {
		if strings.Contains(script, "--emulator-config") {
			return regexp.MustCompile(`(?m)^npm .*$`).ReplaceAllString(script, "")
		}
	}
	t.Fatalf("%s starts no program", file)
	return ""
}

// scripts are the texts of a YAML document, with the texts of a list as the lines of one.
func scripts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		all = append(all, v)
	case []any:
		var lines []string
		for _, element := range v {
			if line, ok := element.(string); ok {
				lines = append(lines, line)
			} else {
				all = append(all, scripts(element)...)
			}
		}
		all = append(all, strings.Join(lines, "\n"))
	case map[string]any:
		for _, value := range v {
			all = append(all, scripts(value)...)
		}
	}
	return all
}
