package plugintest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// exampleT is the T of an example, which has none of its own.
type exampleT struct {
	testing.TB
	ctx     context.Context
	cleanup []func()
}

func newT() *exampleT { return &exampleT{ctx: context.Background()} }

func (t *exampleT) Helper()                           {}
func (t *exampleT) Context() context.Context          { return t.ctx }
func (t *exampleT) Cleanup(f func())                  { t.cleanup = append(t.cleanup, f) }
func (t *exampleT) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// end runs the clean-ups, the last one first.
func (t *exampleT) end() {
	for _, f := range slices.Backward(t.cleanup) {
		f()
	}
}
