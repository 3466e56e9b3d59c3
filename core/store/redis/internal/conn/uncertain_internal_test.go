package conn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// replyError is an error that a server answers.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func TestAScriptMayHaveRunUnlessTheServerSaysThatItDidNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{io.EOF, true},
		{fmt.Errorf("claim: %w", io.ErrUnexpectedEOF), true},
		{&net.OpError{Op: "read", Err: errors.New("connection reset")}, true},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, false},
		{redis.ErrPoolTimeout, false},
		{replyError("NOSCRIPT No matching script."), false},
		{replyError("LOADING Redis is loading the dataset in memory"), false},
		{replyError("ERR ACL failure in script: User gate has no permissions to run the 'zadd' command"), true},
	} {
		if got := MayHaveRun(c.err); got != c.want {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
}

// Errors of files and processes are no errors of a connection, although they have the methods of one.
func TestAnErrorOfAFileIsNoConnectionError(t *testing.T) {
	t.Parallel()
	_, err := os.ReadDir(filepath.Join(t.TempDir(), "none"))
	if cause, away := IsAway(err); away {
		t.Errorf("%v: got %q, want no cause", err, cause)
	}
	reset := &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	if _, away := IsAway(reset); !away {
		t.Errorf("%v: want unreachable", reset)
	}
}
