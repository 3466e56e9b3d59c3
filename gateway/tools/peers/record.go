package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// record is what was measured, by group of scenarios.
type record map[string]*group

// group is one run of a group.
type group struct {
	Measured string     `json:"measured"` // the day
	Machine  string     `json:"machine"`
	Load     string     `json:"load"` // of the machine when the run began
	Rounds   int        `json:"rounds"`
	Settle   string     `json:"settle"`
	Systems  []*subject `json:"systems"`
	// Cells has samples by scenario and system: one for each round, null if the round has none.
	Cells    map[string]map[string][]sample `json:"cells"`
	Problems []string                       `json:"problems,omitempty"`
}

// subject is a system that was measured, or why it was not.
type subject struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version,omitempty"`
	Skipped string `json:"skipped,omitempty"`
}

// sample is one measurement, by the metrics' keys.
type sample map[string]float64

// newRecord returns a record of a plan, before its first round.
func newRecord(p *plan, l *lab) record {
	r := record{}
	for _, sc := range p.scenarios {
		if r[sc.group] == nil {
			r[sc.group] = &group{
				Measured: time.Now().UTC().Format(time.DateOnly), Machine: machine(l.dir), Load: loadAverage(),
				Rounds: p.o.rounds, Settle: p.o.settle, Cells: map[string]map[string][]sample{},
			}
			for _, sys := range p.systems {
				r[sc.group].Systems = append(r[sc.group].Systems, &subject{Name: sys.name, Title: sys.title})
			}
		}
	}
	return r
}

// put books a sample, or with nil that there is none.
func (g *group) put(scenario, system string, round int, s sample) {
	if g.Cells[scenario] == nil {
		g.Cells[scenario] = map[string][]sample{}
	}
	if g.Cells[scenario][system] == nil {
		g.Cells[scenario][system] = make([]sample, g.Rounds)
	}
	g.Cells[scenario][system][round] = s
}

// subjects returns a system's entry in every group.
func (r record) subjects(system string) []*subject {
	var all []*subject
	for _, g := range r {
		for _, s := range g.Systems {
			if s.Name == system {
				all = append(all, s)
			}
		}
	}
	return all
}

func (r record) skip(system, why string) {
	for _, s := range r.subjects(system) {
		s.Skipped = why
	}
}

func (r record) version(system, version string) {
	for _, s := range r.subjects(system) {
		s.Version = version
	}
}

// counts tells whether a cell has a sample of a round.
func (r record) counts(c cell, round int) bool {
	g := r[c.scenario.group]
	return g != nil && g.Cells[c.scenario.name][c.system.name] != nil && g.Cells[c.scenario.name][c.system.name][round] != nil
}

// problems returns an error when something was measured and does not count.
func (r record) problems() error {
	n := 0
	for _, g := range r {
		n += len(g.Problems)
	}
	if n > 0 {
		return fmt.Errorf("%d measurements do not count: see above", n)
	}
	return nil
}

// values returns a metric of a cell, by round; nil if there is none.
func (g *group) values(scenario, system, metric string) []*float64 {
	var all []*float64
	for _, s := range g.Cells[scenario][system] {
		if v, ok := s[metric]; ok {
			all = append(all, &v)
		} else {
			all = append(all, nil)
		}
	}
	return all
}

// readRecord reads a results file; one that is not there is empty.
func readRecord(path string) (record, error) {
	r := record{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("the results file %s: %w", path, err)
	}
	return r, nil
}

func (r record) write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// machine describes this machine, with the time that the disk under dir takes to sync a page.
func machine(dir string) string {
	about := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(info); m != nil {
			about[0] += " of " + string(m[1])
		}
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		about = append(about, "Linux "+string(bytes.TrimSpace(kernel)))
	}
	if took, err := syncTime(dir); err == nil {
		about = append(about, fmt.Sprintf("where a synced write of 4 KiB takes %s ms", figure(took.Seconds()*1e3)))
	}
	return strings.Join(about, ", ")
}

// syncTime is the median of 51 synced writes.
func syncTime(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }() // the directory goes, too
	took := make([]time.Duration, 51)
	for i := range took {
		began := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// loadAverage is the number of processes that want a core, on average over a minute.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
