package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

func TestCircuitBreakersAreRead(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `circuit-breakers:
  - {entity: orders}
  - {entity: "*", failures: 33.4%, of: 10, consecutive: 3, pause: 1m}
`}
	c := mustLoad(t, files, nil, "--config=$DIR/c.yaml")
	for i, want := range []config.CircuitBreaker{{Selector: config.Selector{Entity: "orders"}, Failures: "50%", Of: 20, Consecutive: 5, Pause: 5 * time.Second}, {Selector: config.Selector{Entity: "*"}, Failures: "33.4%", Of: 10, Consecutive: 3, Pause: time.Minute}} {
		if got, failures, err := c.CircuitBreakers[i].Limits(); err != nil || got != want || failures != []int{10, 4}[i] {
			t.Errorf("%d: got %+v, %d, %v, want %+v", i, got, failures, err, want)
		}
	}
}

func TestCircuitBreakersAreChecked(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `circuit-breakers:
  - {entity: a, failures: "50"}
  - {entity: A, failures: 0%}
  - {failures: 101%}
  - {entity: b, of: 0}
  - {entity: c, consecutive: 1001}
  - {entity: d, pause: 10ms}
  - {entity: e, pause: 5}
  - {entity: f, pauses: 5s}
`}
	_, err := load(t, files, nil, "--config=$DIR/c.yaml")
	for _, want := range []string{
		`circuit-breakers[0].failures: "50" is not a percentage: use 1% to 100%, such as 50%`,
		`"A" is listed twice`,
		`circuit-breakers[1].failures: "0%" is not a percentage: use 1% to 100%, such as 50%`,
		"circuit-breakers[2].entity: the entity is missing",
		`circuit-breakers[2].failures: "101%" is not`,
		"circuit-breakers[3].of: 0 is out of range: use 1 to 1000",
		"circuit-breakers[4].consecutive: 1001 is out of range: use 1 to 1000",
		"circuit-breakers[5].pause: 10ms is out of range: use 100ms to 1h",
		"circuit-breakers[6].pause: 5 has no unit",
		"circuit-breakers[7].pauses",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}
