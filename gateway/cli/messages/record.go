package messages

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	peekPause = 200 * time.Millisecond
	// If the last peek found new messages, the next peek requests firstAsk to mostAsked messages.
	firstAsk, mostAsked = 32, 250
)

type recordOptions struct {
	command.Flags
	count  int
	length string
	once   bool
	fresh  bool
	tap    bool
}

func Record(environ []string) *cobra.Command {
	var o recordOptions
	c := &cobra.Command{
		Use:   "record ENTITY…",
		Short: "Print messages as they arrive, without removing them, for crosstown replay",
		Long: `Print messages as they arrive, without removing them, for crosstown replay.

ENTITY is a queue, a subscription written TOPIC/Subscriptions/NAME, or the dead-letter
queue of either, with /$DeadLetterQueue at its end. The command records the messages of all
sessions. It peeks at the entities and prints their messages, one JSON object per line,
with every property, type and time. Then it prints messages as they arrive, until it
is interrupted. A scheduled message is recorded when it becomes active.

The command peeks five times a second: it misses a message that a receiver completes before the
next peek. With --tap the command misses no message that clients send to a queue or topic
through this gateway from now on, but it does not record messages that are forwarded to the
entity or sent through another gateway. To record these too, without --tap, record a
subscription from which no client receives.`,
		Example: `  crosstown record orders > orders.jsonl
  crosstown record orders events/Subscriptions/eu --new --for 10m > busy.jsonl
  crosstown record orders events --tap > all.jsonl
  crosstown record 'orders/$DeadLetterQueue' --once | crosstown replay --to orders --speed max`,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.BindConnection(c, environ)
	f := c.Flags()
	f.IntVar(&o.count, "count", 0, "end after this number of messages; 0: do not end")
	f.StringVar(&o.length, "for", "", "end after this `duration`, such as 10m")
	f.BoolVar(&o.once, "once", false, "end when the messages that the entities hold are recorded")
	f.BoolVar(&o.fresh, "new", false, "skip the messages that the entities already hold")
	f.BoolVar(&o.tap, "tap", false, "record all messages that clients send to queues and topics through this gateway from now on, even if they are received at once")
	c.MarkFlagsMutuallyExclusive("once", "new", "tap")
	return c
}

func (o *recordOptions) run(c *cobra.Command, args []string) error {
	if o.count < 0 {
		return command.Usagef("--count is %d: use a positive number, or 0 for no limit", o.count)
	}
	ctx := c.Context()
	if o.length != "" {
		length, err := config.ParseDuration(o.length)
		if err != nil || length <= 0 {
			return command.Usagef("--for is %q: write a duration above 0, such as 10m", o.length)
		}
		limited, cancel := context.WithTimeout(ctx, length)
		defer cancel()
		ctx = limited
	}
	t, entities, err := watched(&o.Flags, args)
	if err != nil {
		return err
	}
	if o.tap {
		return o.runTap(ctx, c, t, entities)
	}
	out := bufio.NewWriterSize(c.OutOrStdout(), 1<<16)
	r := &recorder{
		count: o.count, once: o.once, silent: o.fresh, progress: command.NewProgress(c.ErrOrStderr(), "recorded"), idle: out.Flush,
		use: func(entity string, a amqp.Arrival) error {
			line := lineOf(entity, a)
			return command.NewEncoder(out).Encode(&line)
		},
		began: func() error {
			return command.Line(c.ErrOrStderr(), "recording the messages that arrive; interrupt to end")
		},
	}
	err = r.watch(ctx, t, entities, "record %s/Subscriptions/NAME; crosstown subscription create makes one for the recording")
	err = cmp.Or(err, out.Flush())
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "recorded %s\n", command.Messages(r.recorded))
	return err
}

func (o *recordOptions) runTap(ctx context.Context, c *cobra.Command, t *command.Target, entities []string) error {
	r := &tapping{
		Flags: o.Flags, out: bufio.NewWriterSize(c.OutOrStdout(), 1<<16), count: o.count, progress: command.NewProgress(c.ErrOrStderr(), "recorded"),
		began: func() {
			_, _ = fmt.Fprintln(c.ErrOrStderr(), "recording the messages that are sent; interrupt to end")
		},
	}
	err := r.run(ctx, entities)
	if ctx.Err() != nil {
		err = nil // the user has interrupted the command
	}
	err = errors.Join(err, r.out.Flush())
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "recorded %s\n", command.Messages(r.recorded))
	if r.missed > 0 {
		err = errors.Join(err, fmt.Errorf("missed %s, because clients sent messages faster than the command read them: record fewer entities at a time", command.Messages(r.missed)))
	}
	return t.Explain(err)
}

func watched(o *command.Flags, args []string) (*command.Target, []string, error) {
	t, first, err := o.TargetEntity(args)
	if err != nil {
		return nil, nil, err
	}
	return t, append([]string{first}, args[min(1, len(args)):]...), nil
}

type track struct {
	entity    string
	partition uint16
	next      int64
	ask       int
	found     []amqp.Arrival
	empty     bool // whether this pass has read all messages of the partition
}

type recorder struct {
	peek     func(ctx context.Context, entity string, state *core.State, from int64, most int) ([]amqp.Arrival, error)
	use      func(entity string, a amqp.Arrival) error // processes a message
	idle     func() error                              // called before each peek
	began    func() error                              // called after the first pass, unless once is true
	tracks   []*track
	count    int
	once     bool
	silent   bool // ignore the messages that the first pass finds
	recorded int
	progress *command.Progress
}

// watch peeks at entities repeatedly. It refuses a topic with an error that ends with advice.
func (r *recorder) watch(ctx context.Context, t *command.Target, entities []string, advice string) error {
	for _, entity := range entities {
		name, _, _ := strings.Cut(entity, "/$")
		if isTopic(ctx, t, name) {
			return command.Usagef("%s is a topic, whose messages are in its subscriptions: "+advice, name, name)
		}
	}
	holder, _, _ := strings.Cut(entities[0], "/$")
	link, err := t.Link(ctx, holder)
	if err != nil {
		return t.Explain(err)
	}
	defer link.Close()
	r.peek = link.Peek
	if err := r.run(ctx, entities); ctx.Err() == nil {
		return t.Explain(err)
	}
	return nil // the user has interrupted the command
}

func (r *recorder) run(ctx context.Context, entities []string) error {
	for _, entity := range entities {
		if err := r.open(ctx, entity); err != nil {
			return err
		}
	}
	for {
		done, err := r.pass(ctx)
		if err != nil || done || r.once {
			return err
		}
		if r.began != nil {
			if err := r.began(); err != nil {
				return err
			}
			r.began, r.silent = nil, false
		}
		if !wake.After(ctx, peekPause) {
			return ctx.Err()
		}
	}
}

func (r *recorder) open(ctx context.Context, entity string) error {
	r.discover(entity, 0)
	for from := int64(0); from >= 0; { // from is negative after the highest possible partition
		first, err := r.peek(ctx, entity, nil, from, 1)
		if err != nil || len(first) == 0 {
			return err
		}
		partition, _ := core.SplitSequenceNumber(first[0].SequenceNumber)
		r.discover(entity, partition)
		from = core.SequenceNumber(partition+1, 0)
	}
	return nil
}

func (r *recorder) pass(ctx context.Context) (done bool, err error) {
	for _, t := range r.tracks {
		t.empty = false
	}
	for {
		for i := 0; i < len(r.tracks); i++ { // look may add tracks
			for t := r.tracks[i]; len(t.found) == 0 && !t.empty; {
				if err := r.look(ctx, t); err != nil {
					return false, err
				}
			}
		}
		var earliest *track
		for _, t := range r.tracks {
			if len(t.found) > 0 && (earliest == nil || t.found[0].EnqueuedTime.Before(earliest.found[0].EnqueuedTime)) {
				earliest = t
			}
		}
		if earliest == nil {
			return false, nil
		}
		a := earliest.found[0]
		if earliest.found = earliest.found[1:]; r.silent {
			continue
		}
		if err := r.use(earliest.entity, a); err != nil {
			return false, err
		}
		if r.recorded++; r.recorded == r.count {
			return true, nil
		}
		r.progress.At(r.recorded)
	}
}

// look peeks at one partition. If the answer contains messages of later partitions, look adds
// tracks for these. If the last peek found nothing, look requests only one message.
func (r *recorder) look(ctx context.Context, t *track) error {
	if err := r.idle(); err != nil {
		return err
	}
	from := core.SequenceNumber(t.partition, t.next)
	all, err := r.peek(ctx, t.entity, nil, from, t.ask)
	if err != nil {
		return err
	}
	own := 0
	for _, a := range all {
		partition, n := core.SplitSequenceNumber(a.SequenceNumber)
		if partition != t.partition || a.SequenceNumber < from {
			r.discover(t.entity, partition)
			continue
		}
		own++
		t.next = n + 1
		if a.State != core.Scheduled {
			t.found = append(t.found, a)
		}
	}
	t.empty = own == 0
	t.ask = 1
	if own > 0 {
		t.ask = min(max(firstAsk, 2*own), mostAsked)
	}
	return nil
}

func (r *recorder) discover(entity string, partition uint16) {
	for _, t := range r.tracks {
		if t.entity == entity && t.partition == partition {
			return
		}
	}
	r.tracks = append(r.tracks, &track{entity: entity, partition: partition, ask: firstAsk})
}

type tapping struct {
	command.Flags
	out      *bufio.Writer
	count    int
	progress *command.Progress
	began    func()

	mu       sync.Mutex
	open     int
	recorded int
	missed   int
}

var errEnough = errors.New("recorded the requested number of messages")

func (t *tapping) run(ctx context.Context, entities []string) error {
	for _, entity := range entities {
		if _, _, isSubscription := core.SplitSubscription(entity); isSubscription || strings.Contains(entity, "/$") {
			return command.Usagef("--tap: clients cannot send to %s: specify the queue or topic that clients send to", entity)
		}
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var running sync.WaitGroup
	for _, entity := range entities {
		running.Go(func() { end(t.entity(ctx, entity, len(entities))) })
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

func (t *tapping) entity(ctx context.Context, entity string, all int) error {
	response, err := t.Request(ctx, command.Inquiry{Method: http.MethodGet, Path: api.TapPath, Names: []string{entity}})
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	t.mu.Lock()
	if t.open++; t.open == all {
		t.began()
	}
	t.mu.Unlock()
	in := bufio.NewReader(response.Body)
	for {
		line, err := in.ReadBytes('\n')
		if err == nil {
			err = t.take(line, in.Buffered() == 0)
		}
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = fmt.Errorf("the gateway ended the recording of %s: run the command again", entity)
			}
			return err
		}
	}
}

func (t *tapping) take(line []byte, last bool) error {
	if len(bytes.TrimSpace(line)) == 0 { // the gateway sends empty lines to keep the connection open
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var missed api.Missed
	if bytes.HasPrefix(line, []byte(`{"missed"`)) && json.Unmarshal(line, &missed) == nil {
		t.missed += missed.Missed
		return nil
	}
	if t.count > 0 && t.recorded == t.count {
		return errEnough
	}
	if _, err := t.out.Write(line); err != nil {
		return err
	}
	if t.recorded++; t.recorded == t.count {
		return errEnough
	}
	t.progress.At(t.recorded)
	if last {
		return t.out.Flush()
	}
	return nil
}
