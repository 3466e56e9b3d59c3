// Package kubernetes checks what the repository has for Kubernetes: that it is
// what Kubernetes' API describes, by kubeconform, that the chart renders, by Helm,
// and that the gateway takes what it is given there.
package kubernetes

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

const deploy = "../../../configs/deploy"

// checker checks manifests.
type checker struct{ program, schemas string }

// newChecker builds kubeconform: Go's cache keeps it.
func newChecker(t *testing.T) checker {
	t.Helper()
	c := checker{program: filepath.Join(t.TempDir(), "kubeconform"), schemas: schemas(t)}
	dir := filepath.Dir(c.program)
	t.Setenv("GOBIN", dir)
	out, err := output(t, "go", "install", kubeconform)
	fetched(t, "build "+kubeconform, out, err)
	return c
}

// problems is what is wrong with a file, "" if nothing is.
func (c checker) problems(t *testing.T, path string, skipped ...string) string {
	t.Helper()
	out, err := output(t, c.program, "-strict", "-summary", "-kubernetes-version", kubernetesVersion, "-skip", strings.Join(skipped, ","),
		"-schema-location", c.schemas+"/{{.ResourceKind}}{{.KindSuffix}}.json", path)
	if err != nil || strings.Contains(out, "found in 0 file") {
		return fmt.Sprintf("%v\n%s", err, out)
	}
	t.Log(strings.TrimSpace(out))
	return ""
}

// save writes a manifest to a file, and returns its path.
func save(t *testing.T, manifest string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheManifestsAreWhatKubernetesDescribes(t *testing.T) {
	c := newChecker(t)
	path, err := filepath.Abs(deploy + "/kubernetes/crosstown.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.problems(t, path); got != "" {
		t.Error(got)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for was, is := range map[string]string{ // the check is one
		"replicas: 2":                "replicas: two",
		"readinessProbe:":            "readyProbe:",
		"minAvailable: 1":            "minAvailable: [1]",
		"kind: Deployment":           "kind: Deploying",
		"policy/v1":                  "policy/v9",
		"containerPort: 5672":        "port: 5672",
		"enableServiceLinks: false":  "enableServiceLinks: 7",
		"requests: {cpu: 250m, memo": "requests: {cpu: [], memo",
	} {
		bad := strings.Replace(string(good), was, is, 1)
		if bad == string(good) {
			t.Errorf("the manifests have no %q", was)
		}
		if c.problems(t, save(t, bad)) == "" {
			t.Errorf("%q in the place of %q was not noticed", is, was)
		}
	}
	takes(t, string(good), map[string]string{"policy": "RootManageSharedAccessKey=K:Send,Listen,Manage", "store": "redis://redis:6379/0"}, "redis://")
}

// helm finds the program, which is too large to be built by the way.
var helm = sync.OnceValues(func() (string, error) { return exec.LookPath("helm") })

func render(t *testing.T, release string, args ...string) (string, error) {
	t.Helper()
	program, err := helm()
	fetched(t, "find helm (go install helm.sh/helm/v3/cmd/helm@v3.22.0 makes one, in some minutes)", "", err)
	chart, err := filepath.Abs(deploy + "/helm/crosstown")
	if err != nil {
		t.Fatal(err)
	}
	return output(t, program, append([]string{"template", release, chart, "--kube-version", kubernetesVersion, "--namespace", "bus"}, args...)...)
}

const fullValues = `
store: redis://redis:6379/0
policies: ["RootManageSharedAccessKey=K:Send,Listen,Manage", "app=L:Send"]
tls: {secret: bus-tls}
config: {queues: [{name: orders, lock-duration: 30s}]}
env: [{name: CROSSTOWN_LOG_LEVEL, value: debug}]
service: {type: LoadBalancer, annotations: {a: b}}
metrics: {podMonitor: true}
podLabels: {team: a}
podAnnotations: {a: "true"}
imagePullSecrets: [{name: registry}]
nodeSelector: {disk: ssd}
tolerations: [{key: bus, operator: Exists}]
affinity: {nodeAffinity: {}}
`

func TestTheChartRendersWhatKubernetesDescribes(t *testing.T) {
	c, full := newChecker(t), save(t, fullValues)
	for name, args := range map[string][]string{
		"least":    {"--set", `policies={RootManageSharedAccessKey=K:Send\,Listen\,Manage}`},
		"claim":    {"--set", "existingSecret=mine", "--set", "persistence.existingClaim=disk", "--set", "persistence.sync=always"},
		"redis":    {"--set", "store=redis://r:6379/0", "--set", "replicas=3", "--set", `policies={RootManageSharedAccessKey=K:Send\,Listen\,Manage}`},
		"existing": {"--set", "existingSecret=mine", "--set", "store=", "--set", "replicas=2", "--set", "metrics.enabled=false", "--set", "minAvailable=0"},
		"full":     {"-f", full},
	} {
		rendered, err := render(t, "messages", args...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, rendered)
		}
		if got := c.problems(t, save(t, rendered), "PodMonitor"); got != "" {
			t.Errorf("%s: %s\n%s", name, got, rendered)
		}
		store := "redis://"
		if name == "least" || name == "claim" {
			store = "file"
		}
		takes(t, rendered, map[string]string{"policy": "RootManageSharedAccessKey=K:Send,Listen,Manage", "store": "redis://redis:6379/0"}, store)
		for _, text := range []string{"type: Recreate", "claimName: "} {
			if got := strings.Contains(rendered, text); got != (store == "file") {
				t.Errorf("%s: %q is there: %v\n%s", name, text, got, rendered)
			}
		}
		if got := strings.Contains(rendered, "kind: PersistentVolumeClaim"); got != (name == "least") {
			t.Errorf("%s: a claim is made: %v\n%s", name, got, rendered)
		}
		if got := strings.Contains(rendered, "kind: PodDisruptionBudget"); got != (name == "redis") {
			t.Errorf("%s: a budget is made: %v\n%s", name, got, rendered)
		}
	}
	program, _ := helm()
	chart, err := filepath.Abs(deploy + "/helm/crosstown")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := output(t, program, "lint", chart, "--strict", "-f", full); err != nil {
		t.Errorf("lint: %v\n%s", err, out)
	}
	for missing, args := range map[string][]string{"store": {"--set", "store="}, "policies": {}, "replicas": {"--set", "existingSecret=mine", "--set", "replicas=2"}} {
		if out, err := render(t, "messages", args...); err == nil || !strings.Contains(out, missing+": set") {
			t.Errorf("without %s: got %v\n%s", missing, err, out)
		}
	}
}

// manifest is what is looked at of an object.
type manifest struct {
	Kind       string
	Data       map[string]string
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Env []struct {
						Name, Value string
						ValueFrom   struct {
							SecretKeyRef struct{ Key string } `yaml:"secretKeyRef"`
						} `yaml:"valueFrom"`
					}
				}
			}
		}
	}
}

// takes loads the gateway's settings as the container of a deployment does, with
// what its secret holds. Its store begins with a text.
func takes(t *testing.T, manifests string, secret map[string]string, store string) {
	t.Helper()
	environ := map[string]string{"CROSSTOWN_DATA": "/data"}
	d := yaml.NewDecoder(strings.NewReader(manifests))
	for {
		var m manifest
		if d.Decode(&m) != nil {
			break
		}
		maps.Copy(secret, m.StringData)
		if file, ok := m.Data["crosstown.yaml"]; ok {
			environ["CROSSTOWN_CONFIG"] = save(t, file)
		}
		for _, c := range m.Spec.Template.Spec.Containers {
			for _, v := range c.Env {
				if v.Name != "CROSSTOWN_CONFIG" {
					environ[v.Name] = v.Value + "\x00" + v.ValueFrom.SecretKeyRef.Key
				}
			}
		}
	}
	var entries []string
	for name, v := range environ {
		if value, key, ok := strings.Cut(v, "\x00"); ok {
			v = value + secret[key]
		}
		entries = append(entries, name+"="+v)
	}
	slices.Sort(entries)
	c, err := config.Load(nil, entries)
	if err != nil {
		t.Fatalf("the gateway does not take %q:\n%v", entries, err)
	}
	if c.HasDevKey() || len(c.Listen) != 3 || !strings.HasPrefix(c.Store, store) {
		t.Errorf("got %+v", c)
	}
}
