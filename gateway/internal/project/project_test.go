package project_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/project"
)

func source(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestProjectsAreReadyToUse follows what their README says, without network.
func TestProjectsAreReadyToUse(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds programs")
	}
	t.Parallel()
	for _, kind := range []string{project.Router, project.Serializer} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "mine")
			p := project.Project{Kind: kind, Name: "mine-" + kind, Dir: dir, Replace: source(t)}
			written, err := p.Write()
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range written {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
			// The sums of what Crosstown needs are known here; tidy keeps those of the project.
			sums, err := os.ReadFile(filepath.Join(p.Replace, "go.sum"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, line := range []string{"mod tidy", "vet .", "test .", "build -o " + p.Name + " ."} {
				c := exec.Command("go", strings.Fields(line)...)
				c.Dir = dir
				c.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
				if out, err := c.CombinedOutput(); err != nil {
					t.Fatalf("go %s: %v\n%s", line, err, out)
				}
			}
			inUse(t, &p)
		})
	}
}

func TestSourceInAPathWithASpace(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(source(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	p := project.Project{Kind: project.Router, Name: "mine", Dir: filepath.Join(t.TempDir(), "mine"), Replace: filepath.Join(t.TempDir(), "the source")}
	if err := os.Mkdir(p.Replace, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.Replace, "go.mod"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(); err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Replace.Dir}}", "github.com/crosstown-mq/crosstown")
	list.Dir, list.Env = p.Dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := list.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != p.Replace {
		t.Errorf("got %s %v, want %s", out, err, p.Replace)
	}
}

// inUse fails unless the README's configuration is one, and has the plugin asked.
func inUse(t *testing.T, p *project.Project) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(p.Dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, from, _ := strings.Cut(string(readme), "```yaml\n")
	text, _, _ := strings.Cut(from, "```")
	file := filepath.Join(t.TempDir(), "crosstown.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(nil, []string{"HOME=" + t.TempDir(), "CROSSTOWN_CONFIG=" + file})
	if err != nil {
		t.Fatalf("%v, in\n%s", err, text)
	}
	asked := len(c.Pipelines) == 1 && c.Pipelines[0].Ingress[0].Plugin == p.Name || slices.Contains(c.Serializers.Chain, p.Name)
	if !asked || len(c.Queues) != 1 {
		t.Errorf("nothing asks the plugin in\n%s", text)
	}
}

func TestWhatCannotBeWrittenSaysWhy(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "here"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	for want, p := range map[string]project.Project{
		"not a type":                   {Kind: "filter", Name: "a", Dir: fresh},
		"not a valid name":             {Kind: project.Router, Name: "A/b", Dir: fresh},
		"is not empty":                 {Kind: project.Router, Name: "a", Dir: full},
		"does not contain Crosstown's": {Kind: project.Router, Name: "a", Dir: fresh, Replace: full},
	} {
		if _, err := p.Write(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestSourceIsFoundAbove(t *testing.T) {
	t.Parallel()
	own := source(t)
	if got := project.Source("", t.TempDir(), filepath.Join(own, "gateway", "internal")); got != own {
		t.Errorf("got %q, want %q", got, own)
	}
	if got := project.Source(t.TempDir()); got != "" {
		t.Errorf("elsewhere: got %q", got)
	}
	for version, want := range map[string]bool{
		"v1.2.3": true, "v0.1.0-rc.1": true, "": false, "(devel)": false, "v0.1.0+dirty": false,
		"v0.0.0-20260102030405-0123456789ab": false, "v0.1.1-0.20260102030405-0123456789ab": false,
	} {
		if got := project.Published(version); got != want {
			t.Errorf("%q is published: %t, want %t", version, got, want)
		}
	}
}

func TestAReleaseIsRequired(t *testing.T) {
	t.Parallel()
	p := project.Project{Kind: project.Router, Name: "a", Dir: filepath.Join(t.TempDir(), "a"), Version: "v1.2.3"}
	if _, err := p.Write(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(p.Dir, "go.mod"))
	if err != nil || !slices.Contains(strings.Split(string(text), "\n"), "require github.com/crosstown-mq/crosstown v1.2.3") {
		t.Errorf("got %s, %v", text, err)
	}
}
