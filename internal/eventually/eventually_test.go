package eventually_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// failing is a test that records its failure.
type failing struct {
	*testing.T
	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestAConditionThatHoldsLateEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		eventually.True(t, "a minute passes", func() bool { return time.Since(began) >= time.Minute })
		if took := time.Since(began); took > time.Minute+time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestAConditionThatNeverHoldsFailsTheTestWithItsName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &failing{T: t}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			eventually.True(f, "the queue is empty", func() bool { return false })
		}()
		<-ended
		if !strings.Contains(f.said, "the queue is empty") {
			t.Errorf("got %q", f.said)
		}
	})
}
