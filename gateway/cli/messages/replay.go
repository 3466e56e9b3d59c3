package messages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/internal/wake"
)

const (
	mostTogether  = 500
	bytesTogether = 4 << 20
	sendPatience  = time.Minute
	longestPause  = 100 * 365 * 24 * time.Hour
	mostRefusals  = 10
)

type replayOptions struct {
	command.Flags
	speed string
	to    []string
}

func Replay(environ []string) *cobra.Command {
	var o replayOptions
	c := &cobra.Command{
		Use:   "replay [FILE]",
		Short: "Send recorded messages again, at the pace at which they arrived",
		Long: `Send recorded messages again, at the pace at which they arrived.

FILE, or standard input, contains the lines that crosstown record, receive --json or backup
prints. The command sends bodies, message ids, and properties with their AMQP types as they
were recorded. An entity with duplicate detection therefore drops messages whose ids it has
seen. Sequence numbers, enqueued times and delivery counts are new.

Each message goes to the queue or topic in which it was recorded, unless --to specifies
another entity. A message of a subscription or of a dead-letter queue needs --to.`,
		Example: `  crosstown replay orders.jsonl
  crosstown replay busy.jsonl --speed 10x --to orders-test
  crosstown replay busy.jsonl --speed max --to orders=o2 --to events/Subscriptions/eu=events`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	o.BindConnection(c, environ)
	f := c.Flags()
	f.StringVar(&o.speed, "speed", "1x", "speed relative to the recording, such as 10x or 0.5x; max: without pauses")
	f.StringArrayVar(&o.to, "to", nil, "send to this `entity` instead of the recorded one, or FROM=TO for the messages of one entity; repeatable")
	return c
}

func parseSpeed(text string) (float64, error) {
	if text == "max" {
		return 0, nil
	}
	speed, err := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
	if err != nil || !(speed >= 1e-6 && speed <= 1e6) {
		return 0, command.Usagef("--speed is %q: write a factor such as 10x, or max", text)
	}
	return speed, nil
}

func (o *replayOptions) run(c *cobra.Command, args []string) error {
	speed, err := parseSpeed(o.speed)
	if err != nil {
		return err
	}
	t, err := o.Target()
	if err != nil {
		return err
	}
	name := strings.Join(args, "")
	in, err := command.OpenInput(c, name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // ignore the error: in was only read
	r := newReplayer(c, t, name, "replayed")
	r.speed = speed
	for _, to := range o.to {
		from, name, ok := strings.Cut(to, "=")
		if !ok {
			from, name = "", to
		}
		from = core.FoldName(from)
		if _, twice := r.moved[from]; twice || name == "" || ok && from == "" {
			return command.Usagef("--to is %q: write ENTITY once, for all messages, or FROM=TO once for the messages of each entity", to)
		}
		r.moved[from] = name
	}
	err = r.run(c.Context(), in)
	if r.sent == 0 && err != nil {
		return err
	}
	_, failed := fmt.Fprintf(c.OutOrStdout(), "replayed %s of %s\n", command.Messages(r.sent), r.name)
	return errors.Join(err, failed)
}

type link interface {
	Send(ctx context.Context, entity string, ms []*core.Message) []error
	Close()
}

type replayer struct {
	name      string
	speed     float64           // factor, such as 2 for twice the recorded speed; 0 means without pauses
	moved     map[string]string // new destination, by the recorded entity in folded case; "" is for all other entities
	otherwise string            // destination of messages that were recorded without an entity
	target    *command.Target
	progress  *command.Progress

	connect func(ctx context.Context, entity string) (link, error)
	link    link      // connection to the target; nil before the first message
	first   time.Time // recorded arrival time of the first message that has one
	began   time.Time // when the replay reached that message

	entity string
	ms     []*core.Message // messages to send together
	lines  []int           // line number of each message in ms
	size   int             // total size of ms in bytes
	sent   int
}

func newReplayer(c *cobra.Command, t *command.Target, name, verb string) *replayer {
	return &replayer{
		name: cmp.Or(name, "standard input"), moved: map[string]string{}, otherwise: t.EntityPath, target: t, progress: command.NewProgress(c.ErrOrStderr(), verb),
		connect: func(ctx context.Context, entity string) (link, error) { return t.Link(ctx, entity) },
	}
}

// run sends the recorded messages. When ctx ends, it sends those in ms, and waits for the results.
func (r *replayer) run(ctx context.Context, in io.Reader) (err error) {
	defer func() {
		err = errors.Join(err, r.flush(ctx))
		if r.link != nil {
			r.link.Close()
		}
	}()
	for line := range recordedLines(in) {
		if ctx.Err() != nil {
			return r.interrupted(line.n)
		}
		entity, err := line.entity, line.err
		if err == nil && line.stored != nil {
			entity, err = r.destination(entity)
		}
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", r.name, line.n, err)
		}
		if line.stored != nil {
			if err := r.add(ctx, line.n, entity, line.stored); err != nil {
				return err
			}
		}
		if !line.more {
			if err := r.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *replayer) interrupted(line int) error {
	return fmt.Errorf("%s: interrupted before line %d: send the other lines with: tail -n +%[2]d FILE | crosstown replay", r.name, line)
}

func (r *replayer) destination(entity string) (string, error) {
	if to, ok := r.moved[core.FoldName(entity)]; ok && entity != "" {
		return to, nil
	}
	if to, ok := r.moved[""]; ok {
		return to, nil
	}
	to := cmp.Or(entity, r.otherwise)
	_, _, isSubscription := core.SplitSubscription(to)
	switch {
	case to == "":
		return "", errors.New("the line has no entity: specify the target with --to ENTITY")
	case isSubscription || strings.Contains(to, "/$"):
		return "", fmt.Errorf("the message was recorded in %s, to which clients cannot send: specify a queue or topic with --to %[1]s=ENTITY", to)
	}
	return to, nil
}

func (r *replayer) add(ctx context.Context, line int, entity string, stored *core.Stored) error {
	if r.link == nil {
		var err error
		if r.link, err = r.connect(ctx, entity); err != nil {
			r.link = nil
			return r.target.Explain(err)
		}
	}
	if r.speed > 0 && !stored.EnqueuedTime.IsZero() {
		if r.first.IsZero() {
			r.first, r.began = stored.EnqueuedTime, time.Now()
		}
		after := time.Duration(min(float64(stored.EnqueuedTime.Sub(r.first))/r.speed, float64(longestPause)))
		if wait := time.Until(r.began.Add(after)); wait > 0 {
			if err := r.flush(ctx); err != nil {
				return err
			}
			if !wake.After(ctx, wait) {
				return r.interrupted(line)
			}
		}
	}
	if size := stored.Size(); entity != r.entity || len(r.ms) == mostTogether || r.size+size > bytesTogether {
		if err := r.flush(ctx); err != nil {
			return err
		}
		r.entity = entity
	}
	r.ms, r.lines, r.size = append(r.ms, stored.Message), append(r.lines, line), r.size+stored.Size()
	return nil
}

// flush sends the messages in ms. The error contains the numbers of lines that were refused.
func (r *replayer) flush(ctx context.Context) error {
	if len(r.ms) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendPatience)
	defer cancel()
	var errs []error
	refused := 0
	for i, err := range r.link.Send(ctx, r.entity, r.ms) {
		if err == nil {
			r.sent++
			continue
		}
		if refused++; refused <= mostRefusals {
			if away, ok := errors.AsType[*core.Away](err); ok {
				err = away.Err
			}
			errs = append(errs, fmt.Errorf("%s: line %d was not sent: %w", r.name, r.lines[i], r.target.Explain(err)))
		}
	}
	if refused > 0 && len(r.ms) > 1 {
		last := r.lines[len(r.lines)-1]
		errs = append(errs, fmt.Errorf("failed to send %s of lines %d to %d, and did not try the lines after %[3]d: repair the failed lines, then replay them and all lines after line %[3]d", command.Messages(refused), r.lines[0], last))
	}
	r.ms, r.lines, r.size = nil, nil, 0
	r.progress.At(r.sent)
	return errors.Join(errs...)
}
