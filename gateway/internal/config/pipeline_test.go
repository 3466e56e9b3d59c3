package config_test

import (
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core/rules"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

func TestPipelinesAreRead(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, map[string]string{"c.yaml": `
plugins:
  - {name: geo, path: geo-router, unavailable: park}
  - {name: to, path: to-router}
pipelines:
  - entity: orders/*
    ingress:
      - plugin: geo
        parameters: {region: west, limit: 5, strict: true}
      - {plugin: to, unavailable: pass}
    to: {plugin: to}
  - entity: inbox
    follow-to: [letters-*, other]
`}, nil, "--config=$DIR/c.yaml")
	if len(c.Pipelines) != 2 || c.Pipelines[0].Entity != "orders/*" || len(c.Pipelines[0].Ingress) != 2 || c.Pipelines[0].To.Plugin != "to" || len(c.Pipelines[1].FollowTo) != 2 {
		t.Fatalf("got %+v", c.Pipelines)
	}
	stages := c.Pipelines[0].Ingress
	p, err := stages[0].Parameters()
	if region, _ := p.Get("region"); err != nil || region != "west" || p.Len() != 3 {
		t.Errorf("parameters: got %v, %v", p, err)
	}
	for i, want := range []string{config.Park, config.Pass} {
		if got := c.UnavailableAt(&stages[i]); got != want {
			t.Errorf("stage %d: got %q, want %q", i, got, want)
		}
	}
	if got := c.UnavailableAt(c.Pipelines[0].To); got != "" {
		t.Errorf("where nothing is said: got %q", got)
	}
}

func TestWhatIsWrongWithPipelinesIsReported(t *testing.T) {
	t.Parallel()
	_, err := load(t, map[string]string{"c.yaml": `plugins:
  - {name: geo, path: geo-router, unavailable: wait}
pipelines:
  - entity: "a b"
    ingress: [{plugin: Geo}]
  - entity: orders
    ingress: [{plugin: geo, unavailable: drop, parameters: {list: [1]}}]
    to: {plugin: geo}
    follow-to: ["a b"]
  - entity: Orders
  - entity: x
    ingress: [{plugin: geo, colour: red}]
`}, nil, "--config=$DIR/c.yaml")
	if err == nil {
		t.Fatal("nothing is reported")
	}
	for _, want := range []string{
		`plugins[0].unavailable: "wait" is unknown: use one of refuse, pass, park`,
		`c.yaml:4: pipelines[0].entity: "a b" is neither`,
		`pipelines[0].ingress[0].plugin: the plugin "Geo" is not configured: use geo`,
		`pipelines[1].ingress[0].unavailable: "drop" is unknown`,
		"pipelines[1].ingress[0]: parameters.list is [1]",
		"pipelines[1].follow-to: the setting follow-to and a plugin listed under to both",
		`pipelines[1].follow-to[0]: "a b" is neither`,
		`pipelines[2].entity: "Orders" is listed twice`,
		"pipelines[2]: the pipeline is empty",
		"pipelines[3].ingress[0].colour",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
	_, err = load(t, map[string]string{"c.yaml": "pipelines: [{entity: q, to: {plugin: p}}]"}, nil, "--config=$DIR/c.yaml")
	if err == nil || !strings.Contains(err.Error(), `the plugin "p" is not configured: configure the plugin under plugins`) {
		t.Errorf("without plugins: got %v", err)
	}
}

func TestARuleMayBeWhatAPluginSays(t *testing.T) {
	t.Parallel()
	text := "topics: [{name: t, subscriptions: [{name: s, rules: [{name: r, plugin: it's, parameters: {region: west, 'a]b': 5}, %s}]}]}]"
	c := mustLoad(t, map[string]string{"c.yaml": strings.Replace(text, "%s", "action: SET x = 1", 1)}, nil, "--config=$DIR/c.yaml")
	rule, err := c.Topics[0].Subscriptions[0].Rules[0].Rule()
	if err != nil || rule.Filter.SQL != "plugin('it''s', [a]]b] = @p1, [region] = @p2)" {
		t.Fatalf("got %+v, %v", rule, err)
	}
	compiled, err := rules.Compile(rule)
	if err != nil {
		t.Fatal(err)
	}
	call := compiled.Calls()[0]
	region, _ := call.Parameters().Get("region")
	odd, _ := call.Parameters().Get("a]b")
	if call.Name != "it's" || region != "west" || odd != int64(5) {
		t.Errorf("it asks %q with %v and %v", call.Name, region, odd)
	}
	_, err = load(t, map[string]string{"c.yaml": strings.Replace(text, "%s", "sql: 1=1", 1)}, nil, "--config=$DIR/c.yaml")
	if err == nil || !strings.Contains(err.Error(), "the rule has a plugin and another condition") {
		t.Errorf("with sql besides: got %v", err)
	}
}
