package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/bench"
)

// plan is what to run.
type plan struct {
	o         *options
	systems   []*system
	scenarios []*scenario
}

// newPlan chooses systems and scenarios, and reports everything that is wrong.
func newPlan(o *options) (*plan, error) {
	p := &plan{o: o}
	var problems []error
	asked := words(o.systems)
	for _, s := range systems {
		if len(asked) == 0 || slices.Contains(asked, s.name) {
			p.systems = append(p.systems, s)
		}
	}
	for _, name := range asked {
		if !slices.ContainsFunc(systems, func(s *system) bool { return s.name == name }) {
			problems = append(problems, fmt.Errorf("-systems %s: there is no such system: see -list", name))
		}
	}
	asked = words(o.scenarios)
	for _, s := range scenarios {
		if slices.Contains(asked, s.name) || slices.Contains(asked, s.group) {
			p.scenarios = append(p.scenarios, s)
		}
	}
	for _, name := range asked {
		if !slices.ContainsFunc(scenarios, func(s *scenario) bool { return s.name == name || s.group == name }) {
			problems = append(problems, fmt.Errorf("-scenarios %s: there is no such scenario or group: see -list", name))
		}
	}
	if o.rounds < 1 {
		problems = append(problems, fmt.Errorf("-rounds %d: use 1 or more, or 0 with -write", o.rounds))
	}
	if o.messages < 0 {
		problems = append(problems, fmt.Errorf("-messages %d: use a number above 0", o.messages))
	}
	if o.settle != string(bench.SettleFirst) && o.settle != string(bench.SettleBatch) {
		problems = append(problems, fmt.Errorf("-settle %q: use %s or %s", o.settle, bench.SettleFirst, bench.SettleBatch))
	}
	if o.write && !p.whole() {
		problems = append(problems, errors.New("-write replaces whole tables: leave out -systems and -messages, and give -scenarios groups only"))
	}
	if len(problems) == 0 && len(p.cells()) == 0 {
		problems = append(problems, errors.New("none of these scenarios is for these systems"))
	}
	return p, errors.Join(problems...)
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' })
}

// whole tells whether the plan has all there is of each of its groups.
func (p *plan) whole() bool {
	for _, s := range scenarios {
		inGroup := slices.ContainsFunc(p.scenarios, func(other *scenario) bool { return other.group == s.group })
		if inGroup && !slices.Contains(p.scenarios, s) {
			return false
		}
	}
	return len(p.systems) == len(systems) && p.o.messages == 0
}

// cell is one measurement of a round.
type cell struct {
	scenario *scenario
	system   *system
}

// cells returns those of one round, scenario by scenario.
func (p *plan) cells() []cell {
	var all []cell
	for _, sc := range p.scenarios {
		for _, sys := range p.systems {
			if sc.runsOn(sys.name) {
				all = append(all, cell{sc, sys})
			}
		}
	}
	return all
}

// cellOverhead is the time that a cell takes besides its load; startShare is the share of a round's
// time for starting brokers.
const (
	cellOverhead = 300 * time.Millisecond
	startShare   = 15 * time.Second
)

// estimate is how long the cells take, about.
func (p *plan) estimate(cells []cell) time.Duration {
	var sum time.Duration
	for _, c := range cells {
		seconds := c.scenario.seconds
		if n := c.count(p.o); n > 0 {
			seconds *= float64(n*max(c.system.share, 1)) / float64(c.scenario.messages)
		}
		sum += time.Duration(seconds*float64(time.Second)) + cellOverhead
	}
	return sum
}

// execution is a plan in flight.
type execution struct {
	*plan
	lab     *lab
	record  record
	brokers map[lot]*broker // of the round in flight
	skipped map[*system]bool

	begun       time.Time
	done, total time.Duration // as estimated
}

// lot is what scenarios share a broker for.
type lot struct {
	system *system
	setup  setup
}

// execute runs all rounds. Within a round, each scenario runs on all systems in turn, so that other
// load on the machine affects them equally. The brokers of a round run side by side, idle except
// for one; each round starts new ones.
func (p *plan) execute(ctx context.Context, l *lab) (record, error) {
	e := &execution{plan: p, lab: l, record: newRecord(p, l), skipped: map[*system]bool{}, begun: time.Now()}
	e.total = time.Duration(p.o.rounds) * (p.estimate(p.cells()) + startShare)
	l.say("rounds: %d, of %d measurements each; about %v on two idle cores", p.o.rounds, len(p.cells()), e.total.Round(time.Minute))
	for round := range p.o.rounds {
		if err := e.round(ctx, round); err != nil {
			return nil, err
		}
	}
	l.say("done in %v", time.Since(e.begun).Round(time.Second))
	return e.record, nil
}

func (e *execution) round(ctx context.Context, round int) error {
	random := rand.New(rand.NewPCG(e.o.seed, uint64(round)))
	e.brokers = map[lot]*broker{}
	defer func() {
		for _, b := range e.brokers {
			b.stop()
		}
	}()
	order := slices.Clone(e.scenarios)
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, sc := range order {
		turns := slices.Clone(e.systems)
		random.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		for _, sys := range turns {
			if !sc.runsOn(sys.name) {
				continue
			}
			e.turn(ctx, round, cell{sc, sys})
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if sc.setup != (setup{}) {
			e.close(ctx, round, func(l lot) bool { return l.setup == sc.setup })
		}
	}
	e.close(ctx, round, func(lot) bool { return true })
	return nil
}

// turn measures one cell and books the result.
func (e *execution) turn(ctx context.Context, round int, c cell) {
	group := e.record[c.scenario.group]
	defer func() { e.done += e.estimate([]cell{c}) }()
	if e.skipped[c.system] {
		return
	}
	b, err := e.broker(ctx, c)
	var why skipped
	switch {
	case errors.As(err, &why):
		e.lab.say("%s %s", c.system.name, why.Error())
		e.skipped[c.system] = true
		e.record.skip(c.system.name, string(why))
		return
	case err != nil:
		e.complain(ctx, round, c, fmt.Errorf("start: %w", err))
		return
	}
	e.record.version(c.system.name, b.version)
	report, err := e.drive(ctx, b, c)
	if err != nil {
		e.complain(ctx, round, c, err)
		return
	}
	s := sample{}
	var shown []string
	for _, m := range c.scenario.metrics {
		s[m.key] = m.of(report)
		shown = append(shown, figure(s[m.key])+" "+m.title)
	}
	group.put(c.scenario.name, c.system.name, round, s)
	e.lab.say("round %d/%d  %-12s %-17s %s%s", round+1, e.o.rounds, c.scenario.name, c.system.name, strings.Join(shown, ", "), e.left(c))
}

// left says how long the rest may take, from how long the done has taken.
func (e *execution) left(c cell) string {
	done := e.done + e.estimate([]cell{c})
	if done <= 0 || done >= e.total {
		return ""
	}
	rest := time.Duration(float64(time.Since(e.begun)) * float64(e.total-done) / float64(done))
	return fmt.Sprintf("  (%d %%, about %v left)", 100*done/e.total, rest.Round(time.Minute))
}

// complain books that a cell has no result.
func (e *execution) complain(ctx context.Context, round int, c cell, err error) {
	if ctx.Err() != nil {
		return // the whole run ends
	}
	problem := fmt.Sprintf("round %d, %s on %s: %v", round+1, c.scenario.name, c.system.name, err)
	e.lab.say("%s", problem)
	group := e.record[c.scenario.group]
	group.put(c.scenario.name, c.system.name, round, nil)
	group.Problems = append(group.Problems, problem)
}

// broker returns the broker for a cell, started if it does not run.
func (e *execution) broker(ctx context.Context, c cell) (*broker, error) {
	key := lot{c.system, c.scenario.setup}
	if b := e.brokers[key]; b != nil {
		return b, nil
	}
	b, err := c.system.start(ctx, e.lab, c.scenario.setup)
	if err == nil {
		e.brokers[key] = b
	}
	return b, err
}

// driveTimeout bounds one run of the driver.
const driveTimeout = 10 * time.Minute

// drive runs the load driver and returns its report, whose books balance.
func (e *execution) drive(ctx context.Context, b *broker, c cell) (*bench.Report, error) {
	args, err := c.command(b, e.o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, driveTimeout)
	defer cancel()
	driver := exec.CommandContext(ctx, b.driver, args...)
	var said bytes.Buffer
	driver.Stderr = &said
	out, err := driver.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(b.driver), err, lines[len(lines)-1])
	}
	var report bench.Report
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(b.driver), err, out)
	}
	return &report, c.check(&report, e.o)
}

// check returns why a report does not count.
func (c cell) check(r *bench.Report, o *options) error {
	if r.Mode == bench.Idle {
		return nil
	}
	if err := r.Check(); err != nil {
		return err
	}
	if n := c.count(o); n > 0 && r.Acknowledged != n {
		return fmt.Errorf("%d of %d messages were sent", r.Acknowledged, n)
	}
	if !r.Verified || r.Acknowledged == 0 || r.Received != r.Acknowledged || r.Settled != r.Received || r.Stale > 0 {
		return fmt.Errorf("of %d messages %d were received and %d accepted, besides %d of earlier runs", r.Acknowledged, r.Received, r.Settled, r.Stale)
	}
	return nil
}

// close ends brokers. If a queue still holds messages after all were accepted, its measurements do
// not count.
func (e *execution) close(ctx context.Context, round int, which func(lot) bool) {
	for key, b := range e.brokers {
		if !which(key) {
			continue
		}
		held, err := b.left(ctx)
		for _, q := range allQueues(key.setup) {
			c := cell{q.scenario, key.system}
			if !e.record.counts(c, round) {
				continue
			}
			if err != nil {
				e.complain(ctx, round, c, err)
			} else if n := held[q.name]; n != 0 {
				e.complain(ctx, round, c, fmt.Errorf("the queue %s holds %d messages that were accepted", q.name, n))
			}
		}
		b.stop()
		delete(e.brokers, key)
	}
}
