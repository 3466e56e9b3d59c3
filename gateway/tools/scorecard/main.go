// Scorecard runs the live tests of the SDKs for Azure Service Bus against a gateway and records how
// many pass. The tests come from the module cache, or from a checkout that the caller names; they
// are not part of this repository. File names in flags are relative to the repository's root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/tools/internal/repository"
)

type options struct {
	suites, stores, only                  string
	sdks                                  map[string]*string // folders, by kind
	timeout                               time.Duration
	jobs                                  int
	amend                                 bool
	crosstown, results, out, logs, readme string
	dir                                   string // where everything is made; "" makes one
}

// kinds are all kinds of suites, in the order of the report.
var kinds = []struct {
	name     string
	sdk      string // what the folder must be that the caller names
	optional bool   // it may name none
	make     func(folder string, o *options) kind
}{
	{"go", "a checkout of azure-sdk-for-go (sdk/messaging), for its stress programs", true, func(folder string, o *options) kind { return &goSuites{o.timeout, folder} }},
	{"js", "a checkout of azure-sdk-for-js (sdk/servicebus/service-bus and sdk/test-utils)", false, func(folder string, _ *options) kind { return &vitest{folder} }},
	{"python", "an unpacked source distribution of azure-servicebus, or its folder in a checkout of azure-sdk-for-python", false, func(folder string, _ *options) kind { return &pytest{folder} }},
	{"java", "a checkout of azure-sdk-for-java (sdk/servicebus/azure-messaging-servicebus)", false, func(folder string, _ *options) kind { return &junit{folder} }},
	{"dotnet", "scenarios with the .NET SDK: a program and its source", false, func(folder string, _ *options) kind { return &dotnet{folder} }},
}

func main() {
	o := options{sdks: map[string]*string{}}
	flag.StringVar(&o.suites, "suites", "go", "the SDKs whose suites run, separated by commas; none only writes the report anew")
	flag.StringVar(&o.stores, "stores", "memory,file,redis", "the gateway's stores to run on, separated by commas; redis starts a redis-server for each gateway")
	flag.StringVar(&o.only, "run", "", "run only the tests whose suite/name match this regular `expression`, and print what came out instead of writing it")
	for _, k := range kinds {
		o.sdks[k.name] = flag.String(k.name, "", "`folder` of "+k.sdk)
	}
	flag.DurationVar(&o.timeout, "timeout", 4*time.Minute, "how long one test may take")
	flag.IntVar(&o.jobs, "jobs", 1, "how many gateways share the tests of a suite, where its tests allow that")
	flag.BoolVar(&o.amend, "amend", false, "write what came out of the tests of -run in the place of what was known of them")
	flag.StringVar(&o.crosstown, "crosstown", "bin/crosstown", "the gateway's `binary`")
	flag.StringVar(&o.results, "results", "gateway/tools/scorecard/results.json", "the `file` that keeps results")
	flag.StringVar(&o.out, "out", "SCORECARD.md", "the `file` to write")
	flag.StringVar(&o.readme, "readme", "README.md", "the `file` whose table is written between its markers")
	flag.StringVar(&o.dir, "dir", "", "`directory` to work in, which stays; default a temporary one")
	flag.StringVar(&o.logs, "logs", "", "`directory` for what tests print that do not pass; default none")
	flag.Parse()
	if err := repository.Enter(); err != nil {
		fmt.Fprintf(os.Stderr, "scorecard: %v\n", err)
		os.Exit(1)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := scoreAll(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "scorecard: %v\n", err)
		cancel()
		os.Exit(1)
	}
}

// scoreAll runs every suite on every store and writes the report.
func scoreAll(ctx context.Context, o options) error {
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
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	suites, err := prepare(ctx, &o)
	if err != nil {
		return err
	}
	all, written := &record{}, o.only == "" || o.amend
	if written {
		if all, err = readRecord(o.results); err != nil {
			return err
		}
	}
	r := runner{only: only, options: o}
	for _, s := range suites {
		for store := range strings.SplitSeq(o.stores, ",") {
			tests := r.tests(s)
			sum, err := r.score(ctx, s, store, tests)
			if err != nil {
				return err
			}
			if sum == nil {
				continue
			}
			engine, _, _ := strings.Cut(sum.Store, ",")
			if !o.amend {
				all.put(s, engine, sum)
			} else if err := all.merge(s, engine, tests, sum); err != nil {
				return err
			}
			if written { // a later suite may fail
				if err := all.write(o.results); err != nil {
					return err
				}
			}
		}
	}
	if !written {
		_, err = os.Stdout.Write(all.markdown(reasons))
		return err
	}
	return errors.Join(os.WriteFile(o.out, all.markdown(reasons), 0o644), all.writeTable(o.readme))
}

// prepare prepares and lists all requested suites.
func prepare(ctx context.Context, o *options) ([]*suite, error) {
	var suites []*suite
	asked := strings.FieldsFunc(o.suites, func(c rune) bool { return c == ',' })
	for _, k := range kinds {
		i := slices.Index(asked, k.name)
		if i < 0 {
			continue
		}
		asked = slices.Delete(asked, i, i+1)
		folder := *o.sdks[k.name]
		if folder == "" && !k.optional {
			return nil, fmt.Errorf("the suites of %s need -%s, the folder of %s", k.name, k.name, k.sdk)
		}
		if folder != "" {
			var err error
			if folder, err = filepath.Abs(folder); err != nil {
				return nil, err
			}
		}
		dir := filepath.Join(o.dir, k.name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		kind := k.make(folder, o)
		made, err := kind.prepare(ctx, dir)
		if err != nil {
			return nil, err
		}
		for _, s := range made {
			s.sdk = k.name
			if s.kind == nil {
				s.kind = kind
			}
			if err := s.kind.list(ctx, s); err != nil {
				return nil, err
			}
		}
		suites = append(suites, made...)
	}
	if len(asked) > 0 && asked[0] != "none" {
		return nil, fmt.Errorf("there are no suites of %s", strings.Join(asked, ", "))
	}
	return suites, nil
}
