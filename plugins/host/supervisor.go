package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/plugins"
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

type supervised struct {
	opts    Options
	log     *slog.Logger
	launch  func(context.Context) (*instance, error)
	reloads chan reload
	retired sync.WaitGroup // instances that still answer their last calls
	counts  counters

	current atomic.Pointer[instance]

	mu      sync.Mutex
	state   State
	changed chan struct{} // closed and replaced when the state changes
}

type reload struct {
	sum  string // checksum of the new program; "" for the configured one
	done chan error
}

func newSupervised(o Options, log *slog.Logger) *supervised {
	p := &supervised{
		opts: o.withDefaults(), log: log.With("plugin", o.Name), reloads: make(chan reload), changed: make(chan struct{}),
	}
	p.launch = func(ctx context.Context) (*instance, error) { return launch(ctx, p.opts, p.log) }
	p.state = State{Name: o.Name, Path: o.Path, Condition: Starting, Since: time.Now()}
	return p
}

func (p *supervised) run(ctx context.Context) {
	defer p.retired.Wait()
	var (
		i        *instance
		failures int
		err      error
	)
	for {
		began := time.Now()
		if i == nil {
			i, err = p.launch(ctx)
		}
		if i != nil {
			p.begin(i, time.Since(began))
			lived := time.Now()
			err = p.watch(ctx, i)
			if time.Since(lived) >= p.opts.BackoffMax {
				failures = 0
			}
		}
		if ctx.Err() != nil {
			break
		}
		failures++
		i = p.rest(ctx, failures, err)
	}
	p.set(Stopped, 0, nil)
}

// watch watches i and the instances that replace it. It returns why it lost an instance, or nil
// when ctx ends.
func (p *supervised) watch(ctx context.Context, i *instance) error {
	health := time.NewTicker(p.opts.HealthInterval)
	defer health.Stop()
	for {
		select {
		case <-ctx.Done():
			p.set(Stopped, 0, nil)
			p.current.Store(nil)
			i.retire(context.WithoutCancel(ctx))
			return nil
		case <-i.session.done:
			return p.discard(i, i.session.cause())
		case <-i.process.exited:
			return p.discard(i, errors.New("the plugin ended"))
		case r := <-p.reloads:
			i = p.replace(ctx, i, r)
		case <-health.C:
			if p.isGreedy(i.process.ID()) {
				i = p.replace(ctx, i, reload{done: make(chan error, 1)})
			}
			if err := p.check(ctx, i); err != nil && ctx.Err() == nil {
				return p.discard(i, err)
			}
		}
	}
}

func (p *supervised) isGreedy(pid string) bool {
	if p.opts.Memory > 0 {
		if n := occupied(pid); n > p.opts.Memory {
			p.log.Warn("the plugin uses too much memory: replacing its process", "bytes", n, "limit", p.opts.Memory)
			return true
		}
	}
	if p.opts.Files > 0 {
		if n := openFiles(pid); n > p.opts.Files {
			p.log.Warn("the plugin has too many open files: replacing its process", "files", n, "limit", p.opts.Files)
			return true
		}
	}
	return false
}

func (p *supervised) check(ctx context.Context, i *instance) error {
	if i.session.lately(p.opts.CallTimeout) {
		return nil // a recent answer shows that the plugin works, and a health check might have to wait behind calls
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.CallTimeout)
	defer cancel()
	err := i.check(ctx)
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

func (p *supervised) discard(i *instance, err error) error {
	p.current.CompareAndSwap(i, nil)
	i.session.fail(err)
	ended := false
	select {
	case <-i.process.exited:
		ended = true
	case <-time.After(50 * time.Millisecond): // the stream may end slightly before the process
	}
	i.close(0)
	if ended || i.process.failed { // failed: the process ended by itself, but later than the wait above
		return fmt.Errorf("the plugin ended (%s)", i.process.ended)
	}
	return err
}

// replace launches a new instance. If that does not work, the instance old, if any, continues.
func (p *supervised) replace(ctx context.Context, old *instance, r reload) *instance {
	before := p.opts.SHA256
	if r.sum != "" {
		p.opts.SHA256 = r.sum
	}
	began := time.Now()
	next, err := p.launch(ctx)
	if err != nil {
		p.opts.SHA256 = before
		p.log.Warn("cannot reload the plugin: the old process continues", "err", err)
		r.done <- err
		return old
	}
	if old != nil {
		p.begin(next, time.Since(began))
		p.retired.Go(func() { old.retire(context.WithoutCancel(ctx)) })
	}
	r.done <- nil
	return next
}

func (p *supervised) begin(i *instance, after time.Duration) {
	p.current.Store(i)
	d := describe(i.description, i.process.ID(), plugins.Contract)
	p.mu.Lock()
	p.state.Description = d
	p.state.Launches++
	p.mu.Unlock()
	p.set(Ready, 0, nil)
	p.log.Info("plugin ready", "version", d.Version, "pid", d.PID, "after", after.Round(time.Millisecond))
}

// rest pauses before the next launch. If Reload launches an instance meanwhile, rest returns it.
func (p *supervised) rest(ctx context.Context, failures int, err error) *instance {
	pause, condition := min(p.opts.BackoffMin<<min(failures-1, 20), p.opts.BackoffMax), Restarting
	if failures >= p.opts.Failures || isUnusable(err) {
		pause, condition = p.opts.Off, Off
	}
	// Add a random part, so that plugins that failed together are not relaunched together.
	pause = pause*3/4 + rand.N(pause/2+1)
	p.set(condition, failures, err)
	p.log.Warn("the plugin is not available", "condition", string(condition), "failures", failures, "again", pause.Round(time.Millisecond), "err", err)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			return nil
		case r := <-p.reloads:
			if i := p.replace(ctx, nil, r); i != nil {
				return i
			}
		}
	}
}

func (p *supervised) set(c Condition, failures int, problem error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Condition, p.state.Since, p.state.Failures = c, time.Now(), failures
	if problem != nil {
		p.state.Problem = problem.Error()
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// status returns the state, and a channel that is closed when the state changes.
func (p *supervised) status() (State, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state, p.changed
}

func (p *supervised) snapshot() State {
	s, _ := p.status()
	s.Calls = p.counts.calls()
	if i := p.current.Load(); i != nil {
		s.Calls.Waiting = i.session.waiting()
	}
	return s
}

type Condition string

const (
	Starting   Condition = "starting"   // the first launch is in progress
	Ready      Condition = "ready"      // the plugin answers calls
	Restarting Condition = "restarting" // the process ended or a launch failed; the next launch is soon
	Off        Condition = "off"        // too many failures; the next launch is later
	Stopped    Condition = "stopped"    // the plugin ended with the gateway
)

type State struct {
	Name         string    `json:"name"`
	Path         string    `json:"path"`
	Condition    Condition `json:"condition"`
	Since        time.Time `json:"since"` // when the condition began
	Problem      string    `json:"problem,omitempty"`
	Calls        Calls     `json:"calls"`
	Launches     int       `json:"launches"` // successful launches
	Failures     int       `json:"failures"` // consecutive failures
	*Description `json:"plugin,omitempty"`
}

type Description struct {
	Name         string   `json:"name"`
	Version      string   `json:"version,omitempty"`
	Contract     int      `json:"contract"`
	PID          string   `json:"pid"`
	Router       bool     `json:"router"`
	NeedsBody    bool     `json:"needsBody"`
	ContentTypes []string `json:"contentTypes,omitempty"` // content types of a serializer
}

type Calls struct {
	Answered int64 `json:"answered"`
	Messages int64 `json:"messages"` // messages in answered calls
	Late     int64 `json:"late"`     // calls that were not answered in time
	Failed   int64 `json:"failed"`   // calls that were refused, lost with a process, or answered with a failure
	Waiting  int   `json:"waiting"`  // messages of calls that wait or were sent
}

type counters struct{ answered, messages, late, failed atomic.Int64 }

func (c *counters) calls() Calls {
	return Calls{Answered: c.answered.Load(), Messages: c.messages.Load(), Late: c.late.Load(), Failed: c.failed.Load()}
}

func describe(d *pb.Description, pid string, contract int) *Description {
	return &Description{
		Name: d.Name, Version: d.Version, Contract: contract, PID: pid,
		Router: d.Router != nil, NeedsBody: d.Router.GetNeedsBody(),
		ContentTypes: d.Serializer.GetContentTypes(),
	}
}

// acquire returns the current instance. If none is ready yet, acquire waits for one.
func (p *supervised) acquire(ctx context.Context) (*instance, error) {
	for {
		if i := p.current.Load(); i != nil {
			return i, nil
		}
		s, changed := p.status()
		if i := p.current.Load(); i != nil {
			return i, nil
		}
		switch s.Condition {
		case Stopped:
			return nil, core.Refuse(core.Busy, "The plugin %s has stopped because the gateway is stopping. Connect again.", p.opts.Name)
		case Off:
			return nil, core.Refuse(core.Busy, "The plugin %s has failed. The gateway will launch it again after a pause. Try again later.", p.opts.Name)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type answer struct {
	*pb.Response
	from *instance
}

// ask sends the request that build encodes, for the given number of messages. The code of an error
// is Busy or Timeout, or the error is context.Cause(ctx), if ctx has ended.
func (p *supervised) ask(ctx context.Context, messages int, build func(*instance) (*pb.Request, error)) (answer, error) {
	within, cancel := context.WithTimeout(ctx, p.opts.CallTimeout)
	defer cancel()
	for {
		i, err := p.acquire(within)
		if err != nil {
			return answer{}, p.refuse(ctx, err)
		}
		r, err := build(i)
		if err != nil {
			return answer{}, p.refuse(ctx, err)
		}
		r.TimeoutMs = uint32(p.opts.CallTimeout.Milliseconds())
		a, err := i.session.ask(within, r, messages)
		if errors.Is(err, errNotTaken) { // another instance replaces this one
			p.current.CompareAndSwap(i, nil)
			continue
		}
		if err != nil {
			return answer{}, p.refuse(ctx, err)
		}
		p.counts.answered.Add(1)
		return answer{a, i}, nil
	}
}

// mismatch ends the session, because the plugin answered the request with an unsuitable field.
func (p *supervised) mismatch(a answer, request, field string) error {
	return p.garbage(a, fmt.Errorf("it answered a request '%s' with %T: the answer must have the field '%s' or 'failure'", request, a.Answer, field))
}

func (p *supervised) garbage(a answer, err error) error {
	err = fmt.Errorf("the plugin sent an invalid answer: %w", err)
	a.from.session.fail(err)
	return p.refuse(context.Background(), err)
}

// refuse returns the error for the caller of ask. It counts the call unless ctx has ended.
func (p *supervised) refuse(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		p.counts.late.Add(1)
		return core.Refuse(core.Timeout, "The plugin %s did not answer within %v.", p.opts.Name, p.opts.CallTimeout)
	}
	p.counts.failed.Add(1)
	p.log.Debug("call failed", "err", err)
	if core.TextOf(err) != "" {
		return err
	}
	if errors.Is(err, errFull) {
		return core.Refuse(core.Busy, "The plugin %s is overloaded. Try again later.", p.opts.Name)
	}
	return core.Refuse(core.Busy, "The plugin %s is not available. Try again later.", p.opts.Name)
}
