package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestStoppingAProcessStopsItsFamily(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("families are known from /proc")
	}
	p, err := launch(t.TempDir(), "parent", []string{"WHO=parent"}, "/bin/sh", "-c", "sleep 1000 & echo $WHO is ready; wait")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := p.prints(t.Context(), "parent is ready"); err != nil || out != "parent is ready\n" {
		t.Errorf("got %q %v", out, err)
	}
	var all []member
	if err := p.await(t.Context(), func() error { // the child is the shell's copy before it is sleep
		if all, err = family(p.cmd.Process.Pid); err == nil && (len(all) != 2 || all[1].name != "sleep") {
			err = os.ErrNotExist
		}
		return err
	}); err != nil {
		t.Fatalf("got %+v: %v", all, err)
	}
	p.stop()
	deadline := time.Now().Add(time.Minute)
	for _, m := range all {
		for {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.pid))
			if err != nil || strings.Contains(string(stat), ") Z ") {
				break // gone, or left to the process that collects it
			}
			if time.Now().After(deadline) {
				t.Fatalf("%+v runs on", m)
			}
		}
	}
}

func TestAProcessThatEndsSaysWhy(t *testing.T) {
	t.Parallel()
	p, err := launch(t.TempDir(), "broken", nil, "/bin/sh", "-c", "echo no room; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.prints(t.Context(), "ready"); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("got %v, want what it printed", err)
	}
}
