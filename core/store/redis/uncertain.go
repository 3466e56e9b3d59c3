package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

// isUnreachable reports whether err comes from the connection, not from the server, so that it is
// unknown whether the command ran.
func isUnreachable(err error) bool {
	if e, ok := errors.AsType[net.Error](err); ok {
		if _, bare := e.(syscall.Errno); !bare { // that is of a file or a process
			return true
		}
	}
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, redis.ErrClosed) || errors.Is(err, net.ErrClosed) {
		return true
	}
	// go-redis has no error types for Sentinel and cluster discovery.
	text := err.Error()
	return strings.HasPrefix(text, "redis: all sentinels") || strings.HasPrefix(text, "redis: cluster has no nodes") ||
		strings.HasPrefix(text, "redis: connection pool") || strings.HasPrefix(text, "cluster is down")
}

// refusing are replies of servers that have not run the command, because they do not serve now or
// refuse the connection.
var refusing = []string{
	"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "MOVED", "ASK", "BUSY", "OOM", "MISCONF",
	"NOREPLICAS", "EXECABORT", "max number of clients", "NOAUTH", "WRONGPASS",
}

// certain marks the error of a step that was sent once as core.NotDone if the server has not begun
// the step.
func certain(err error) error {
	if didNotRun(err) {
		return core.CertainlyNotDone(err)
	}
	return err
}

// mayHaveRun reports whether a script whose call failed may have done something: its answer was lost,
// or it broke off.
func mayHaveRun(err error) bool {
	return err != nil && !didNotRun(err) && !redis.HasErrorPrefix(err, "NOSCRIPT")
}

func didNotRun(err error) bool {
	if err == nil {
		return false
	}
	if few, ok := errors.AsType[*notReplicated](err); ok {
		return few.refused
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed) {
		return true
	}
	return slices.ContainsFunc(refusing, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}
