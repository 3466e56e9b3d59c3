// Scorecard runs other people's live tests against a gateway and writes down how
// many pass: those of the Go SDK for Azure Service Bus, data and management, and
// the integration tests of the AMQP library below it. Their code is copied out
// of the module cache while it runs and is no part of this repository.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

type options struct {
	stores, only         string
	timeout              time.Duration
	crosstown, out, logs string
	dir                  string // "" makes one
}

func main() {
	var o options
	flag.StringVar(&o.stores, "stores", "memory,spawn", "the gateway's stores to run on, separated by commas")
	flag.StringVar(&o.only, "run", "", "run only the tests whose suite/name match this regular `expression`, and print what came out instead of writing it")
	flag.DurationVar(&o.timeout, "timeout", 4*time.Minute, "how long one test may take")
	flag.StringVar(&o.crosstown, "crosstown", "bin/crosstown", "the gateway's `binary`")
	flag.StringVar(&o.out, "out", "SCORECARD.md", "the `file` to write")
	flag.StringVar(&o.dir, dirFlag, "", "`directory` to work in; default a temporary one")
	flag.StringVar(&o.logs, "logs", "", "`directory` for what tests print that do not pass; default none")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := score(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "scorecard: %v\n", err)
		cancel()
		os.Exit(1)
	}
}

// score runs every suite on every store and writes the report.
func score(ctx context.Context, o options) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	if o.crosstown, err = filepath.Abs(o.crosstown); err != nil {
		return err
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "scorecard-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(o.dir) }()
	}
	suites, err := build(ctx, o.dir)
	if err != nil {
		return err
	}
	if busy(ctx) {
		return alone(ctx, o.dir)
	}
	var report report
	for _, s := range suites {
		if err := s.classify(ctx, o.timeout); err != nil {
			return err
		}
		report.suites = append(report.suites, s)
	}
	for store := range strings.SplitSeq(o.stores, ",") {
		g, err := startGateway(ctx, o.crosstown, store, filepath.Join(o.dir, "gateway-"+store))
		if err != nil {
			return err
		}
		r := runner{gateway: g, only: only, options: o}
		results := map[string]result{}
		for _, s := range suites {
			r.run(ctx, s, results)
		}
		report.columns = append(report.columns, column{g.about, results})
		if err := g.stop(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if o.only != "" {
		_, err = os.Stdout.Write(report.markdown(reasons))
		return err
	}
	return os.WriteFile(o.out, report.markdown(reasons), 0o644)
}
