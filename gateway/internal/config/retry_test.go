package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

func TestRetriesAreReadInTheirOrder(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `retries:
  - {entity: orders/*, backoff: 5s, factor: 1.5, max: PT10M, jitter: 0.2}
  - {entity: "*", backoff: 250ms, factor: 2}
`}
	c := mustLoad(t, files, nil, "--config=$DIR/c.yaml")
	want := []config.Retry{
		{Selector: config.Selector{Entity: "orders/*"}, Backoff: 5 * time.Second, Factor: 1.5, Max: 10 * time.Minute, Jitter: 0.2},
		{Selector: config.Selector{Entity: "*"}, Backoff: 250 * time.Millisecond, Factor: 2},
	}
	if !reflect.DeepEqual(c.Retries, want) {
		t.Errorf("got %+v, want %+v", c.Retries, want)
	}
}

func TestRetriesAreChecked(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `retries:
  - {entity: a, backoff: 5}
  - {entity: A, backoff: 25h}
  - {backoff: 1s}
  - {entity: b}
  - {entity: c, backoff: 5s, max: 4s}
  - {entity: d, backoff: 5s, max: 48h}
  - {entity: e, backoff: 5s, factor: 0.5, jitter: 1.5}
  - {entity: f, backoff: 5s, factor: .nan, jitter: -1}
  - {entity: g, backoff: 5s, factor: twice}
  - {entity: h, backoff: 5s, facter: 2}
`}
	_, err := load(t, files, nil, "--config=$DIR/c.yaml")
	for _, want := range []string{
		"retries[0].backoff: 5 has no unit",
		`"A" is listed twice`,
		"retries[1].backoff: 25h0m0s is out of range: use 1ms to 24h0m0s",
		"retries[2].entity: the entity is missing",
		"retries[3].backoff: 0s is out of range",
		"retries[4].max: 4s is out of range: use a duration from 5s, the backoff, to 24h0m0s",
		"retries[5].max: 48h0m0s is out of range",
		"retries[6].factor: 0.5 is out of range",
		"retries[6].jitter: 1.5 is out of range: use 0 to 1",
		"retries[7].factor: NaN is out of range",
		"retries[7].jitter: -1 is out of range",
		"retries[8].factor: twice is not a number: write one such as 2 or 0.5",
		"retries[9].facter",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}
