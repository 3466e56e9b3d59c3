package config_test

import (
	"strings"
	"testing"
	"time"
)

func TestMetricsAreOffTheListenersUnlessAsked(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, nil, nil)
	if c.AdminListen != "" || c.Metrics.MaxEntities != 0 || c.Metrics.Refresh != 0 {
		t.Errorf("got %q, %+v", c.AdminListen, c.Metrics)
	}
	c = mustLoad(t, map[string]string{"c.yaml": "admin-listen: 0.0.0.0:9095\nmetrics: {max-entities: 20, refresh: 1m}\n"}, nil, "--config=$DIR/c.yaml")
	if c.AdminListen != "0.0.0.0:9095" || c.Metrics.MaxEntities != 20 || c.Metrics.Refresh != time.Minute {
		t.Errorf("got %q, %+v", c.AdminListen, c.Metrics)
	}
}

func TestBadSettingsOfMetricsAreReported(t *testing.T) {
	t.Parallel()
	_, err := load(t, map[string]string{"c.yaml": "admin-listen: 127.0.0.1:5672\nmetrics: {max-entities: 0, refresh: 10ms}\n"}, nil, "--config=$DIR/c.yaml")
	if err == nil {
		t.Fatal("loaded")
	}
	for _, want := range []string{
		"c.yaml:1: admin-listen: 127.0.0.1:5672 is already an address for clients: ",
		"c.yaml:2: metrics.max-entities: 0 is out of range: ",
		"c.yaml:2: metrics.refresh: 10ms is too short: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nlacks\n%s", err, want)
		}
	}
}
