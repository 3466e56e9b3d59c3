package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

// IsUnreachable reports whether err comes from the connection. The command may then have run.
func IsUnreachable(err error) bool {
	if e, ok := errors.AsType[net.Error](err); ok {
		if _, bare := e.(syscall.Errno); !bare { // a bare Errno comes from a file or a process, not from the network
			return true
		}
	}
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, redis.ErrClosed) || errors.Is(err, net.ErrClosed) {
		return true
	}
	// go-redis has no types for the errors of Sentinel and of cluster discovery.
	text := err.Error()
	return strings.HasPrefix(text, "redis: all sentinels") || strings.HasPrefix(text, "redis: cluster has no nodes") ||
		strings.HasPrefix(text, "redis: connection pool") || strings.HasPrefix(text, "cluster is down")
}

// Certain marks err as CertainlyNotDone if DidNotRun(err), for a command that was sent only once.
func Certain(err error) error {
	if DidNotRun(err) {
		return core.CertainlyNotDone(err)
	}
	return err
}

// MayHaveRun reports whether the command may have changed something although it failed. Scripts that
// refuse have changed nothing, and commands that the gateway refuses were not sent.
func MayHaveRun(err error) bool {
	_, refused := errors.AsType[core.Code](err)
	return !refused && mayHaveRun(err)
}

func mayHaveRun(err error) bool {
	return err != nil && !DidNotRun(err) && !redis.HasErrorPrefix(err, "NOSCRIPT")
}

func DidNotRun(err error) bool {
	if err == nil {
		return false
	}
	if few, ok := errors.AsType[*NotReplicated](err); ok {
		return few.refused
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed) {
		return true
	}
	f := answered(err)
	return f != nil && !f.mayRun
}

// NotReplicated is the error of a call that too few replicas have confirmed. Unless refused is
// true, its effect is uncertain: do not send it again to another partition, or with another
// Transit.Key.
type NotReplicated struct {
	node      string
	want, got int
	reason    string // the server's answer, or which replicas lag
	refused   bool
}

func (e *NotReplicated) Error() string {
	text := fmt.Sprintf("redis at %s: %d of the %d replicas have confirmed in time", e.node, e.got, e.want)
	if e.refused {
		text = fmt.Sprintf("redis at %s does not have the %d replicas that replicas=%d requires", e.node, e.want, e.want)
	}
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

func IsNil(err error) bool { return errors.Is(err, redis.Nil) }

// If err only says that a transaction was aborted, Aborted returns the refusal that caused this.
func Aborted(cs []*redis.Cmd, err error) error {
	for _, c := range cs {
		if e := c.Err(); redis.HasErrorPrefix(err, "EXECABORT") && e != nil && !redis.HasErrorPrefix(e, "EXECABORT") {
			return core.CertainlyNotDone(fmt.Errorf("%w (%w)", e, err))
		}
	}
	return err
}

var ErrUnanswered = errors.New("the answer of Redis has an unexpected form")
