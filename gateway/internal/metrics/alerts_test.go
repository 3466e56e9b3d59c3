package metrics_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

var (
	alertMetric   = regexp.MustCompile(`(crosstown_[a-z_]+)(\{[^}]*\})?`)
	alertMatch    = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
	alertGrouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// checkAlerts compares configs/deploy/prometheus-rules.yml with what is shown: metrics, labels, and
// headings of the runbooks.
func checkAlerts(t *testing.T, got scrape) {
	t.Helper()
	data, err := os.ReadFile("../../../configs/deploy/prometheus-rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			metrics := alertMetric.FindAllStringSubmatch(r.Expr, -1)
			if strings.Count(r.Expr, "(") != strings.Count(r.Expr, ")") || len(metrics) == 0 && !strings.HasPrefix(r.Expr, "up{") {
				t.Errorf("%s: %s", r.Alert, r.Expr)
			}
			for _, m := range metrics {
				family := got[m[1]]
				if family == nil {
					t.Errorf("%s asks for %s, which no gateway shows", r.Alert, m[1])
					continue
				}
				labels := labelNames(family)
				for _, match := range alertMatch.FindAllStringSubmatch(m[2], -1) {
					if !labels[match[1]] {
						t.Errorf("%s: %s has no label %s", r.Alert, m[1], match[1])
					}
				}
				for _, by := range alertGrouping.FindAllStringSubmatch(r.Expr, -1) {
					for name := range strings.SplitSeq(by[1], ", ") {
						if !labels[name] {
							t.Errorf("%s: %s has no label %s", r.Alert, m[1], name)
						}
					}
				}
			}
			if _, err := model.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: for: %v", r.Alert, err)
			}
			heading := r.Annotations["runbook"]
			if heading == "" || !strings.Contains(strings.ToLower(string(page)), "\n### "+strings.ToLower(heading)+"\n") {
				t.Errorf("%s: docs/operations.md has no section %q", r.Alert, heading)
			}
		}
	}
}

func labelNames(family *dto.MetricFamily) map[string]bool {
	names := map[string]bool{}
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			names[l.GetName()] = true
		}
	}
	return names
}
