package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
)

// reply is an error that the server has answered.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestFailuresOfTheServerAreBusyWhenTryingAgainMayHelp(t *testing.T) {
	t.Parallel()
	s := &Server{Client: conn.Client{Log: slog.New(slog.DiscardHandler)}}
	for _, c := range []struct {
		err  error
		want core.Code
	}{
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), core.Busy},
		{reply("CLUSTERDOWN Hash slot not served"), core.Busy},
		{reply("LOADING Redis is loading the dataset in memory"), core.Busy},
		{reply("MASTERDOWN Link with MASTER is down"), core.Busy},
		{reply("READONLY You can't write against a read only replica."), core.Busy},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), core.Busy},
		{reply("NOAUTH Authentication required."), core.Busy},
		{reply("WRONGPASS invalid username-password pair or user is disabled."), core.Busy},
		{reply("NOPERM this user has no permissions"), core.Busy},
		{reply("ERR ACL failure in script: User gateway has no permissions to run the 'xadd' command"), core.Busy},
		{reply("MISCONF Errors writing to the AOF file"), core.Busy},
		{reply("EXECABORT Transaction discarded because of previous errors."), core.Busy},
		{reply("ERR max number of clients reached"), core.Busy},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, core.Busy},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, core.Busy},
		{io.EOF, core.Busy},
		{redis.ErrPoolTimeout, core.Busy},
		{context.DeadlineExceeded, core.Busy},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value"), core.Internal},
		{fmt.Errorf("decode: %w", core.MessageNotFound), core.MessageNotFound},
		{nil, ""},
	} {
		got := s.WrapError("append", c.err)
		if core.CodeOf(got) != c.want || c.err != nil && !errors.Is(got, c.err) {
			t.Errorf("%v: got %v with code %q, want code %q around the cause", c.err, got, core.CodeOf(got), c.want)
		}
		if text := core.TextOf(got); (text != "") != (c.want == core.Busy) {
			t.Errorf("%v: the text for peers is %q", c.err, text)
		}
	}
}

func TestOnlyARefusalIsCertainToHaveNoEffect(t *testing.T) {
	t.Parallel()
	s := &Server{Client: conn.Client{Log: slog.New(slog.DiscardHandler)}}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{fmt.Errorf("redis: connection pool: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true},
		{redis.ErrPoolTimeout, true},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), true},
		{reply("EXECABORT Transaction discarded because of previous errors."), true},
		{reply("READONLY You can't write against a read only replica."), true},
		{reply("WRONGPASS invalid username-password pair"), true},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, false},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, false},
		{io.EOF, false},
		{io.ErrUnexpectedEOF, false},
		{context.DeadlineExceeded, false},
		{context.Canceled, false},
		{reply("UNBLOCKED force unblock"), false},
		{reply("NOPERM this user has no permissions"), false}, // a script may have come to that halfway
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value"), false},
		{conn.ErrUnanswered, false},
		{core.Busy, false},
		{nil, false},
	} {
		err := s.WrapError("append", conn.Certain(c.err))
		if core.IsNotDone(err) != c.want {
			t.Errorf("%v: certain to have no effect: got %t, want %t", c.err, !c.want, c.want)
		}
		if core.CodeOf(err) != core.CodeOf(s.WrapError("append", c.err)) {
			t.Errorf("%v: got code %s", c.err, core.CodeOf(err))
		}
	}
}
