package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

func TestHistoriesAreReadInTheirOrder(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `explain:
  - {entity: orders/*, keep: 36h, max: 5000}
  - {entity: "*"}
namespaces:
  - name: other
    policies: [{name: p, key: secret, rights: Manage}]
    explain: [{entity: q, keep: P2D}]
`}
	c := mustLoad(t, files, nil, "--config=$DIR/c.yaml")
	want := []config.History{{Selector: config.Selector{Entity: "orders/*"}, Keep: 36 * time.Hour, Max: 5000}, {Selector: config.Selector{Entity: "*"}}}
	if !reflect.DeepEqual(c.Histories, want) {
		t.Errorf("got %+v, want %+v", c.Histories, want)
	}
	if got := c.Namespaces[0].Histories; !reflect.DeepEqual(got, []config.History{{Selector: config.Selector{Entity: "q"}, Keep: 48 * time.Hour}}) {
		t.Errorf("of another namespace: got %+v", got)
	}
}

func TestHistoriesAreChecked(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `explain:
  - {entity: a, keep: 5}
  - {entity: A, keep: 30s}
  - {keep: 1h}
  - {entity: b, keep: 2000h}
  - {entity: c, max: 10}
  - {entity: d, max: 20000000}
  - {entity: news/subscriptions/eu}
  - {entity: e, most: 5}
`}
	_, err := load(t, files, nil, "--config=$DIR/c.yaml")
	for _, want := range []string{
		"explain[0].keep: 5 has no unit",
		`explain[1].entity: "A" is listed twice`,
		"explain[1].keep: 30s is out of range: use 1m0s to 744h0m0s",
		"explain[2].entity: the entity is missing",
		"explain[3].keep: 2000h0m0s is out of range",
		"explain[4].max: 10 is out of range: use 100 to 10000000",
		"explain[5].max: 20000000 is out of range",
		`explain[6].entity: "news/subscriptions/eu" is a subscription, whose history is recorded with that of its topic: write "news"`,
		"explain[7].most",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}
