// Package container shows without a container engine that the image does what
// the Dockerfile says: a root directory laid out like the image's, with
// namespaces of its own for mounts and the network, so that the ports are the
// real ones, and the official SDK as the client.
package container

import (
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

const repository = "../../.."

// compose is what is looked at in a file of Docker Compose.
type compose struct {
	Services map[string]struct {
		Build       string
		Image       string
		Environment map[string]string
		Volumes     []string
		Ports       []string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Networks    map[string]struct {
			Address string `yaml:"ipv4_address"`
		}
	}
	Volumes map[string]any
}

func readCompose(t *testing.T, name string) (c compose) {
	t.Helper()
	readYAML(t, name, &c)
	return c
}

func readYAML(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, name))
	if err == nil {
		err = yaml.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// digest ends the name of an image whose content cannot change.
var digest = regexp.MustCompile(`:[\w.-]+@sha256:[0-9a-f]{64}$`)

// required stands for a variable that whoever starts it must set.
var required = regexp.MustCompile(`\$\{(\w+):\?[^}]*\}`)

// settings are what the gateway makes of a service's environment. The image's
// own comes first.
func (c *compose) settings(t *testing.T, service string) *config.Config {
	t.Helper()
	environ := []string{"CROSSTOWN_EMULATOR=true", "CROSSTOWN_DATA=/data"}
	for name, v := range c.Services[service].Environment {
		environ = append(environ, name+"="+required.ReplaceAllString(v, "set-by-the-user"))
	}
	settings, err := config.Load(nil, environ)
	if err != nil {
		t.Fatalf("%s: %v", service, err)
	}
	return settings
}

// sound checks what a service refers to.
func (c *compose) sound(t *testing.T) {
	t.Helper()
	for name, s := range c.Services {
		if s.Build == "" && !digest.MatchString(s.Image) {
			t.Errorf("%s runs the image %s, want one pinned by digest", name, s.Image)
		}
		for other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s depends on %s, which there is not", name, other)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, named := c.Volumes[from]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join(repository, from)); err != nil {
				t.Errorf("%s mounts %s: %v", name, from, err)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s to other machines", name, p)
			}
		}
	}
}

func TestImagesAreBuiltOnPinnedImages(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(repository, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	bases := regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)`).FindAllStringSubmatch(string(data), -1)
	if len(bases) == 0 {
		t.Fatal("the Dockerfile has no FROM")
	}
	for _, base := range bases {
		if !digest.MatchString(base[1]) {
			t.Errorf("the Dockerfile builds on %s, want an image pinned by digest", base[1])
		}
	}
}

func TestTheSingleBoxIsSound(t *testing.T) {
	t.Parallel()
	c := readCompose(t, "docker-compose.yml")
	c.sound(t)
	settings := c.settings(t, "crosstown")
	if !settings.Emulator || !settings.HasDevKey() || !settings.HasConsole() {
		t.Errorf("it does not stand in for the emulator, with a console: %+v", settings)
	}
	published := c.Services["crosstown"].Ports
	for _, address := range settings.Listen {
		if _, port, _ := net.SplitHostPort(address); !slices.Contains(published, "127.0.0.1:"+port+":"+port) {
			t.Errorf("port %s is not published: %v", port, published)
		}
	}
}

func TestTheScaledTopologyIsSound(t *testing.T) {
	t.Parallel()
	c := readCompose(t, "docker-compose.scale.yml")
	c.sound(t)
	gateways := []string{"gateway-1", "gateway-2"}
	var addresses []string // of the cluster's nodes
	for name, s := range c.Services {
		if strings.HasPrefix(name, "redis-") {
			addresses = append(addresses, s.Networks["default"].Address+":6379")
		}
	}
	var monitored, reached []string
	for _, g := range gateways {
		settings := c.settings(t, g)
		if settings.Emulator || settings.HasDevKey() {
			t.Errorf("%s takes the public development key", g)
		}
		nodes := strings.Split(strings.TrimSuffix(strings.TrimPrefix(settings.Store, "redis://"), "/?cluster=true"), ",")
		if len(nodes) != 3 || len(addresses) != 6 || slices.ContainsFunc(nodes, func(n string) bool { return !slices.Contains(addresses, n) }) {
			t.Errorf("%s looks for %v, the cluster is %v", g, nodes, addresses)
		}
		collector, err := url.Parse(settings.Traces.Endpoint)
		if _, there := c.Services[collector.Hostname()]; err != nil || !there || settings.Traces.Sample == 1 {
			t.Errorf("%s is traced to %s, every %v", g, collector, settings.Traces.Sample)
		}
		_, port, _ := net.SplitHostPort(settings.AdminListen)
		monitored = append(monitored, g+":"+port)
		for _, address := range settings.Listen {
			_, port, _ := net.SplitHostPort(address)
			reached = append(reached, g+":"+port)
		}
	}

	var prometheus struct {
		ScrapeConfigs []struct {
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "configs/deploy/prometheus.yml", &prometheus)
	if got := prometheus.ScrapeConfigs[0].StaticConfigs[0].Targets; !slices.Equal(got, monitored) {
		t.Errorf("Prometheus asks %v, the gateways answer at %v", got, monitored)
	}

	haproxy, err := os.ReadFile(filepath.Join(repository, "configs/deploy/haproxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	var balanced, bound []string
	for line := range strings.SplitSeq(string(haproxy), "\n") {
		switch words := strings.Fields(line); {
		case len(words) > 2 && words[0] == "server":
			balanced = append(balanced, words[2])
		case len(words) > 1 && words[0] == "bind":
			bound = append(bound, "127.0.0.1"+words[1]+words[1])
		}
	}
	slices.Sort(balanced)
	slices.Sort(reached)
	if !slices.Equal(balanced, reached) {
		t.Errorf("the balancer goes to %v, the gateways listen at %v", balanced, reached)
	}
	if got := c.Services["balancer"].Ports; !slices.Equal(got, bound) {
		t.Errorf("the balancer listens at %v, published is %v", bound, got)
	}
}

func TestTheDashboardIsReady(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(repository, "configs/deploy/grafana/dashboards/crosstown.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		UID    string
		Panels []struct {
			ID         int
			Title      string
			Datasource struct{ UID string }
			Targets    []struct{ Expr string }
			GridPos    struct{ X, Y, W, H int }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	var sources struct{ Datasources []struct{ UID string } }
	readYAML(t, "configs/deploy/grafana/provisioning/datasources/prometheus.yml", &sources)
	for i, p := range dashboard.Panels {
		if p.Datasource.UID != sources.Datasources[0].UID || len(p.Targets) == 0 {
			t.Errorf("panel %q asks %v of %q", p.Title, p.Targets, p.Datasource.UID)
		}
		for _, target := range p.Targets {
			if strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") || strings.Count(target.Expr, "{") != strings.Count(target.Expr, "}") {
				t.Errorf("panel %q: %s", p.Title, target.Expr)
			}
		}
		for _, q := range dashboard.Panels[:i] {
			if p.ID == q.ID || p.GridPos.X < q.GridPos.X+q.GridPos.W && q.GridPos.X < p.GridPos.X+p.GridPos.W &&
				p.GridPos.Y < q.GridPos.Y+q.GridPos.H && q.GridPos.Y < p.GridPos.Y+p.GridPos.H {
				t.Errorf("panels %q and %q overlap", p.Title, q.Title)
			}
		}
	}
	if len(dashboard.Panels) == 0 || dashboard.UID == "" {
		t.Error("the dashboard is empty")
	}
}
