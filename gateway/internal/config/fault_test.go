package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/faults"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "crosstown.yaml")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`allow-faults: true
faults:
  - {name: busy, entity: orders, code: server-busy, times: 2, life: 2h}
  - {operation: deliver, effect: reorder, delay: 2s, properties: {colour: red}}
`)
	c, err := load(t, nil, nil, "--config="+file)
	if err != nil {
		t.Fatal(err)
	}
	rules := c.FaultRules()
	if len(rules) != 2 || rules[0].Name != "busy" || rules[1].Name != "configured-2" || rules[0].Code != "server-busy" || rules[0].Times != 2 || rules[0].Life != 2*time.Hour ||
		rules[1].Effect != faults.Reorder || rules[1].Delay != 2*time.Second || rules[1].Properties["colour"] != "red" {
		t.Errorf("got %+v", rules)
	}
	write(`faults:
  - {name: a}
  - {name: a, effect: explode}
  - {name: a}
`)
	_, err = load(t, nil, nil, "--config="+file)
	for _, want := range []string{"faults: the namespace does not allow faults", `faults[1]: The effect "explode" is not possible`, "faults[2]: The fault rule 'a' already"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
