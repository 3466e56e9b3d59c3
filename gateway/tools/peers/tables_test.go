package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// measured is a record of three rounds, one of which has no figure of NATS.
func measured() record {
	g := &group{
		Measured: "2026-11-23", Machine: "2 cores", Load: "0.5", Rounds: 3, Settle: "first", Cells: map[string]map[string][]sample{},
		Systems: []*subject{
			{Name: "memory", Title: "Crosstown, memory", Version: "Crosstown v1"},
			{Name: "nats", Title: "NATS", Version: "NATS 2"},
			{Name: "rabbitmq-quorum", Title: "RabbitMQ", Skipped: "not installed"},
		},
		Problems: []string{"round 3, 1k-4x4 on nats: it is gone"},
	}
	for i, v := range []float64{10, 30, 20} {
		g.put("1k-4x4", "memory", i, sample{"cpu": v, "client": 1, "rate": 1000 * v})
	}
	g.put("1k-4x4", "nats", 0, sample{"cpu": 20, "client": 2, "rate": 50_000})
	g.put("1k-4x4", "nats", 1, sample{"cpu": 20, "client": 2, "rate": 50_000})
	g.put("1k-4x4", "nats", 2, nil)
	g.put("lone", "memory", 0, sample{"p50": 0.25})
	return record{peersGroup: g}
}

func TestTablesHaveMediansIntervalsAndRatios(t *testing.T) {
	t.Parallel()
	got := measured().markdown()
	for _, want := range []string{
		"Medians of 3 rounds; in brackets the interval that holds the median with 75 % confidence.",
		"Versions: Crosstown v1; NATS 2. Not measured: RabbitMQ (not installed).\n",
		"### 1 KiB, 4 senders, 4 receivers, 4 connections\n\n| | broker CPU, µs/message | ÷ NATS | client CPU, µs/message | messages/s |\n|---|--:|--:|--:|--:|\n",
		"| Crosstown, memory | 20.0 (10.0–30.0) | 1.00 (0.500–1.50) | 1.00 (1.00–1.00) | 20,000 (10,000–30,000) |\n",
		"| NATS | 20.0 (20.0–20.0) | 1 | 2.00 (2.00–2.00) | 50,000 (50,000–50,000) |\n",
		"### 1 KiB, one message at a time on one connection\n\n| | broker CPU, µs/message | client CPU, µs/message | p50, ms | p99, ms |\n",
		"| Crosstown, memory | – | – | 0.250 | – |\n",
		"- Not counted: round 3, 1k-4x4 on nats: it is gone.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "### 64 KiB") {
		t.Error("a scenario that was not run has a table")
	}
}

func TestTheReadmeHasMediansAndRatios(t *testing.T) {
	t.Parallel()
	got := measured()[peersGroup].summary()
	for _, want := range []string{
		"| Crosstown, memory | 20.0 (1.00) | – | – | – | 0.250 | – |\n",
		"| NATS | 20.0 (1.00) | – | – | – | – | – |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "RabbitMQ |") {
		t.Errorf("a system that was not measured has a row:\n%s", got)
	}
}

func TestTheScaleGroupBeginsWithHowCostGrows(t *testing.T) {
	t.Parallel()
	g := measured()[peersGroup]
	for queues, micros := range map[string]float64{"queues-1": 10, "queues-10": 12, "queues-100": 15} {
		g.put(queues, "memory", 0, sample{"cpu": micros})
	}
	got := g.markdown(scaleGroup)
	if want := "| Crosstown, memory | 10.0 | 12.0 | 15.0 | – | – | – | – |\n"; !strings.Contains(got, want) {
		t.Errorf("lacks %q:\n%s", want, got)
	}
}

func TestTablesAreWrittenBetweenTheirMarkers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := &options{readme: filepath.Join(dir, "README.md"), performance: filepath.Join(dir, "performance.md")}
	for path, name := range map[string]string{o.readme: "performance", o.performance: peersGroup} {
		page := "before\n<!-- " + name + " begins -->\nold\n<!-- " + name + " ends -->\nafter\n"
		if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time replaces the first
		if err := measured().writeTables(o); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		o.readme:      "before\n<!-- performance begins -->\n" + measured()[peersGroup].summary() + "<!-- performance ends -->\nafter\n",
		o.performance: "before\n<!-- peers begins -->\n" + measured().markdown() + "<!-- peers ends -->\nafter\n",
	} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("got %s %v, want %s", got, err, want)
		}
	}
	if err := replace(o.readme, scaleGroup, ""); err == nil || !strings.Contains(err.Error(), "<!-- scale begins -->") {
		t.Errorf("a page without markers: got %v", err)
	}
}

func TestThePagesHaveTheMarkers(t *testing.T) {
	t.Parallel()
	for path, names := range map[string][]string{"../../../README.md": {"performance"}, "../../../docs/performance.md": groups} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if begins, ends := "<!-- "+name+" begins -->\n", "<!-- "+name+" ends -->\n"; !strings.Contains(string(text), begins) || !strings.Contains(string(text), ends) {
				t.Errorf("%s has no place for the tables of %s", path, name)
			}
		}
	}
}

func TestARecordSurvivesItsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.json")
	if empty, err := readRecord(path); err != nil || len(empty) != 0 {
		t.Errorf("without a file: got %v %v", empty, err)
	}
	if err := measured().write(path); err != nil {
		t.Fatal(err)
	}
	if got, err := readRecord(path); err != nil || !reflect.DeepEqual(got, measured()) {
		t.Errorf("got %+v %v", got, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readRecord(path); err == nil {
		t.Error("a broken file passes")
	}
}
