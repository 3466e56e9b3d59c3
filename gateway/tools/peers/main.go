// Peers compares Crosstown with NATS JetStream and RabbitMQ: it runs every scenario on every system
// in turn, on one machine, with the load driver of `crosstown bench`. It writes the tables of
// README.md and docs/performance.md.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/tools/internal/repository"
)

type options struct {
	systems, scenarios string
	rounds             int
	messages           int64
	settle             string
	seed               uint64
	list, write        bool

	crosstown, driver, dir                  string
	results, performance, readme, recordOut string
}

const usage = `Measure Crosstown beside NATS JetStream and RabbitMQ, with the same load driver and
the same checks: each message is sent, acknowledged, received and accepted, none is
lost or doubled, and no queue holds one afterwards. A round runs every scenario on
every system, in shuffled order. Reported are medians over the rounds with an interval
of confidence, and their ratio to NATS with its default settings. What is compared is
the broker's CPU time per message, its Redis included; the client's is apart.

NATS and other brokers' clients are built on demand. RabbitMQ is run where it is
installed. Every broker gets a directory and ports of its own. Files that flags name are
looked for from the repository's root.

Usage: go -C gateway/tools run ./peers [flags]        (make bench-peers, in the root)

  make bench-peers ROUNDS=3
  make bench-peers SYSTEMS=memory,redis,nats SCENARIOS=1k-4x4,lone ROUNDS=5
  make bench-peers SCENARIOS=scale ROUNDS=3
  make bench-peers WRITE=1                   the tables of README.md and docs/performance.md

Flags:
`

func main() {
	var o options
	flag.StringVar(&o.systems, "systems", "", "the systems to measure, separated by commas; default all (see -list)")
	flag.StringVar(&o.scenarios, "scenarios", peersGroup, "the scenarios to run, or groups of them, separated by commas (see -list)")
	flag.IntVar(&o.rounds, "rounds", 10, "how many rounds; 0 with -write makes the tables anew from the results file")
	flag.Int64Var(&o.messages, "messages", 0, "messages of each scenario that counts them; default each scenario's own number")
	flag.StringVar(&o.settle, "settle", "first", "first: receivers accept without confirmation, which every broker offers; batch: the broker confirms")
	flag.Uint64Var(&o.seed, "seed", 1, "the `number` that the order is shuffled by")
	flag.BoolVar(&o.list, "list", false, "list systems and scenarios, and run nothing")
	flag.BoolVar(&o.write, "write", false, "write the results file and the tables of README.md and docs/performance.md; needs whole groups on all systems")
	flag.StringVar(&o.recordOut, "json", "", "`file` to write this run's results to")
	flag.StringVar(&o.crosstown, "crosstown", "bin/crosstown", "the gateway's `binary`")
	flag.StringVar(&o.driver, "driver", "", "the `binary` whose command bench is the load driver; default the gateway's, give it to measure another version's gateway")
	flag.StringVar(&o.dir, "dir", "", "`directory` for the brokers' data and logs, which stays; default a temporary one")
	flag.StringVar(&o.results, "results", "gateway/tools/peers/results.json", "the `file` that keeps results")
	flag.StringVar(&o.performance, "performance", "docs/performance.md", "the `file` whose tables are written between their markers")
	flag.StringVar(&o.readme, "readme", "README.md", "the `file` whose table is written between its markers")
	flag.Usage = func() {
		_, _ = fmt.Fprint(flag.CommandLine.Output(), usage) // as PrintDefaults does
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := repository.Enter()
	if flag.NArg() > 0 {
		err = fmt.Errorf("%q is not a flag: see -help", flag.Arg(0))
	}
	if err == nil {
		err = run(ctx, &o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "peers: %v\n", err)
		cancel()
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	if o.list {
		return list(os.Stdout)
	}
	all, err := readRecord(o.results)
	if err != nil {
		return err
	}
	if o.rounds == 0 && o.write {
		return all.writeTables(o)
	}
	p, err := newPlan(o)
	if err != nil {
		return err
	}
	measured, err := measure(ctx, o, p)
	if err != nil {
		return err
	}
	maps.Copy(all, measured)
	if o.recordOut != "" {
		if err := measured.write(o.recordOut); err != nil {
			return err
		}
	}
	if o.write {
		if err := all.write(o.results); err != nil {
			return err
		}
		if err := all.writeTables(o); err != nil {
			return err
		}
	} else if _, err := os.Stdout.WriteString(measured.markdown()); err != nil {
		return err
	}
	return measured.problems()
}

// measure runs a plan, in a directory of its own.
func measure(ctx context.Context, o *options, p *plan) (_ record, err error) {
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "peers-"); err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }() // a leftover in the temp directory harms no run
	}
	// RabbitMQ may run as another user, and paths of sockets are short.
	l := &lab{progress: os.Stderr, settle: o.settle}
	for to, path := range map[*string]string{&l.dir: dir, &l.crosstown: o.crosstown, &l.driver: cmp.Or(o.driver, o.crosstown), &l.tools: "gateway/tools"} {
		if *to, err = filepath.Abs(path); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, err
	}
	for _, binary := range []string{l.crosstown, l.driver} {
		if _, err := os.Stat(binary); err != nil {
			return nil, fmt.Errorf("the gateway's binary: %w (make build makes it)", err)
		}
	}
	return p.execute(ctx, l)
}

// list names what can be chosen.
func list(w *os.File) error {
	var b strings.Builder
	b.WriteString("systems\n")
	for _, s := range systems {
		fmt.Fprintf(&b, "  %-17s %s\n", s.name, s.title)
	}
	for _, group := range groups {
		fmt.Fprintf(&b, "scenarios, group %s\n", group)
		for _, s := range scenarios {
			if s.group == group {
				fmt.Fprintf(&b, "  %-17s %s\n", s.name, s.title)
			}
		}
	}
	_, err := w.WriteString(b.String())
	return err
}

// lab is where brokers run.
type lab struct {
	dir       string
	crosstown string // the gateway's binary
	driver    string // for AMQP 1.0
	tools     string // the folder of the module of NATS and other brokers' clients
	settle    string // how receivers accept
	progress  *os.File
}

// say prints progress.
func (l *lab) say(format string, args ...any) {
	if l.progress != nil {
		_, _ = fmt.Fprintf(l.progress, format+"\n", args...) // progress that no reader sees is no failure
	}
}

// startTimeout bounds the start of a broker.
const startTimeout = time.Minute
