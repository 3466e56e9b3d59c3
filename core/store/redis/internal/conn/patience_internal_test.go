package conn

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// Calls do not wait for what has not served for two seconds, although the cluster serves others.
func TestPatienceWithASlotEndsWhileOthersAreServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := patience{Wait: 2 * time.Second, cluster: new(redis.ClusterClient), absences: newAbsences()}
		call := func(key string, answer error) (took time.Duration) {
			began := time.Now()
			_ = p.retry(t.Context(), redis.NewCmd(t.Context(), "GET", key), func() error { return answer }, passes)
			return time.Since(began)
		}
		tryAgain := refused("TRYAGAIN Multiple keys request during rehashing of slot")
		if took := call("{moves}a", tryAgain); took != 2*time.Second {
			t.Errorf("the first call: got %v, want the patience of 2 s", took)
		}
		for range 3 {
			if took := call("{stays}a", nil) + call("{moves}b", tryAgain); took != 0 {
				t.Errorf("a later call: got %v, want no wait", took)
			}
		}
		call("{moves}a", nil)
		if took := call("{moves}a", tryAgain); took != 2*time.Second {
			t.Errorf("a call after the slot was there again: got %v, want the patience of 2 s", took)
		}
	})
}

// lateTimer is a context whose own timer has not fired yet at its deadline.
type lateTimer struct {
	context.Context
	at time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.at, true }

// A dial that ends at the deadline says "i/o timeout"; the refusals before it are the reason.
func TestADeadlineDoesNotHideWhyAServerDidNotServe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := patience{Wait: 2 * time.Second, absences: newAbsences()}
		ctx := lateTimer{t.Context(), time.Now().Add(time.Second)}
		next := p.DialHook(func(context.Context, string, string) (net.Conn, error) {
			if time.Now().Before(ctx.at) {
				return nil, syscall.ECONNREFUSED
			}
			return nil, os.ErrDeadlineExceeded
		})
		c, err := next(ctx, "tcp", "127.0.0.1:1")
		if err == nil {
			_, err = c.Write(nil)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want the refusal", err)
		}
	})
}
