package main

import (
	"context"
	"path/filepath"
	"time"
)

// goStress runs those of the Go SDK's stress programs that end by themselves, from a checkout.
type goStress struct {
	checkout string
}

// stressTime bounds a program.
const stressTime = 15 * time.Minute

var stressPrograms = []string{
	"constantDetach", "constantDetachmentSender", "emptySessions", "finitePeeks", "finiteSendAndReceive", "finiteSessions",
	"idleFastReconnect", "openCloseMeasurements", "rapidOpenClose", "receiveCancellation", "sendAndReceiveDrain",
}

func (k *goStress) prepare(ctx context.Context, dir string) ([]*suite, error) {
	for _, part := range []string{"stress", "azservicebus"} { // the first wants the second beside it
		if err := copyTree(filepath.Join(dir, part), filepath.Join(k.checkout, "sdk", "messaging", part)); err != nil {
			return nil, err
		}
	}
	s := &suite{
		kind:    k,
		name:    "azservicebus/stress",
		dir:     filepath.Join(dir, "stress"),
		about:   "The stress programs that end by themselves, out of a checkout, with the SDK's version there. One passes when it ends well. The others, `infiniteSendAndReceive`, `longRunningRenewLock` and `mostlyIdleReceiver`, take hours or days.",
		groups:  byFile("", 1),
		version: "",
	}
	// Its list of modules may be behind that of the SDK beside it.
	if _, err := output(ctx, s.dir, "go", "build", "-mod=mod", "-o", binary(s), "./internal/servicebus"); err != nil {
		return nil, err
	}
	var err error
	s.version, err = versionIn(filepath.Join(dir, "azservicebus", "internal", "constants.go"), `Version = "([^"]*)"`)
	return []*suite{s}, err
}

func (k *goStress) list(_ context.Context, s *suite) error {
	s.tests = stressPrograms
	return nil
}

func (k *goStress) run(ctx context.Context, s *suite, g *gateway, tests []string, ended func(string, result)) {
	for _, test := range tests {
		bounded, cancel := context.WithTimeout(ctx, stressTime)
		cmd := g.command(bounded, binary(s), test)
		cmd.Dir, cmd.Env = s.dir, append(g.environment(), "ENV_FILE=/dev/null")
		printed, err := cmd.CombinedOutput()
		cancel()
		got := result{outcome: passed, printed: string(printed)}
		if err != nil {
			got.outcome = failed
		}
		ended(test, got)
	}
}
