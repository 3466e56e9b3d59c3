package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func TestRateLimitsAreRead(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `rate-limits:
  - {entity: partner-api, rate: 5/s}
  - {entity: "*", rate: 6000/m, burst: 20}
`}
	c := mustLoad(t, files, nil, "--config=$DIR/c.yaml")
	for i, want := range []core.Rate{{Every: 200 * time.Millisecond, Burst: 1}, {Every: 10 * time.Millisecond, Burst: 20}} {
		if got, err := c.RateLimits[i].Limit(); err != nil || got != want {
			t.Errorf("%d: got %v, %v, want %v", i, got, err, want)
		}
	}
}

func TestRateLimitsAreChecked(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `rate-limits:
  - {entity: a, rate: "5"}
  - {entity: A, rate: 0/s}
  - {rate: 1/s}
  - {entity: b}
  - {entity: c, rate: 1/h, burst: -1}
  - {entity: d, rate: 1/h, bursts: 2}
`}
	_, err := load(t, files, nil, "--config=$DIR/c.yaml")
	for _, want := range []string{
		`rate-limits[0].rate: "5" is not a rate: use a number and a unit, such as 5/s, 300/m or 10/h`,
		`"A" is listed twice`,
		`rate-limits[1].rate: "0/s" allows no messages: to stop deliveries, set the status of the entity to ReceiveDisabled`,
		"rate-limits[2].entity: the entity is missing",
		`rate-limits[3].rate: "" is not a rate`,
		"rate-limits[4].burst: -1 is out of range: use 1 to 1000000",
		"rate-limits[5].bursts",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}
