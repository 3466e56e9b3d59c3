package config_test

import (
	"strings"
	"testing"
	"time"
)

func TestDeadLettersAreRead(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, map[string]string{"c.yaml": "dead-letters:\n  - {entity: orders, keep: 30d}\n"}, nil, "--config=$DIR/c.yaml")
	if d := c.DeadLetters[0]; d.Entity != "orders" || d.Keep != 30*24*time.Hour {
		t.Errorf("got %+v", d)
	}
}

func TestDeadLettersAreChecked(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `dead-letters:
  - {entity: a, keep: 1s}
  - {entity: A, keep: 1h}
  - {keep: 1h}
  - {entity: b}
`}
	_, err := load(t, files, nil, "--config=$DIR/c.yaml")
	for _, want := range []string{
		"dead-letters[0].keep: 1s is too short: use at least 1m", `"A" is listed twice`,
		"dead-letters[2].entity: the entity is missing", "dead-letters[3].keep: 0s is too short",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}
