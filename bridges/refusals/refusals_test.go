package refusals_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
)

func logTo(b *bytes.Buffer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: level}))
}

func TestLevels(t *testing.T) {
	t.Parallel()
	for _, code := range core.Codes() {
		var b bytes.Buffer
		refusals.New().Write(logTo(&b, slog.LevelDebug), refusals.Told{Tracking: "t-1", Code: code, Entity: "orders", Err: errors.New("the reason")}, "conn", "c1")
		want := "level=INFO msg=refused"
		switch code {
		case core.Internal:
			want = "level=ERROR msg=failed"
		case core.Timeout:
			want = "level=DEBUG msg=refused"
		}
		want += ` tracking=t-1 code=` + string(code) + ` entity=orders conn=c1 err="the reason"` + "\n"
		if _, got, _ := strings.Cut(b.String(), " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A client that goes away while the gateway works for it is no failure of the gateway.
func TestACancelledCallIsNotLoggedAsAnError(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	refusals.New().Write(logTo(&b, slog.LevelInfo), refusals.Told{Tracking: "t-1", Code: core.Internal, Err: fmt.Errorf("purge: %w", context.Canceled)})
	if b.Len() > 0 {
		t.Errorf("got %s", b.String())
	}
}

func TestEveryCodeHasAStatusAndWords(t *testing.T) {
	t.Parallel()
	for _, code := range core.Codes() {
		if refusals.HTTPStatus(code) < 400 || refusals.Text(code) == "" {
			t.Errorf("%s: got status %d and text %q", code, refusals.HTTPStatus(code), refusals.Text(code))
		}
	}
}

func TestStrangersCannotFillTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log, l := logTo(&b, slog.LevelInfo), refusals.New()
		tell := func(stranger bool) bool {
			b.Reset()
			l.Write(log, refusals.Told{Tracking: "t", Code: core.Unauthorized, Stranger: stranger})
			return b.Len() > 0
		}
		told := 0
		for range 10_000 {
			if tell(true) {
				told++
			}
		}
		if told != 40 {
			t.Errorf("%d lines about strangers at once", told)
		}
		if !tell(false) {
			t.Error("strangers keep others out of the log")
		}
		time.Sleep(time.Second)
		if !tell(true) || !strings.Contains(b.String(), " left_out=9960\n") {
			t.Errorf("got %q", b.String())
		}
		if !tell(true) || strings.Contains(b.String(), "left_out") || tell(true) {
			t.Errorf("got %q", b.String())
		}
	})
}

func TestOneConnectionLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log, l := logTo(&b, slog.LevelInfo), refusals.New()
		loud, quiet := l.Share(), l.Share()
		for range 10_000 {
			loud.Write(log, refusals.Told{Tracking: "loud", Code: core.LockLost})
		}
		quiet.Write(log, refusals.Told{Tracking: "quiet", Code: core.LockLost})
		if loud, quiet := strings.Count(b.String(), "=loud"), strings.Count(b.String(), "=quiet"); loud != 100 || quiet != 1 {
			t.Errorf("%d and %d lines", loud, quiet)
		}
	})
}

func TestExcessRefusalsAreLoggedAtDebug(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log, share := logTo(&b, slog.LevelDebug), refusals.New().Share()
	for range 1000 {
		share.Write(log, refusals.Told{Tracking: "t", Code: core.LockLost})
	}
	if all, fine := strings.Count(b.String(), "\n"), strings.Count(b.String(), "level=DEBUG"); all != 1000 || fine < 800 {
		t.Errorf("%d lines, %d of them for debugging", all, fine)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	long := strings.Repeat("ä", 1<<20)
	refusals.New().Write(logTo(&b, slog.LevelInfo), refusals.Told{Tracking: "t", Code: core.NotFound, Entity: long, Err: errors.New(long), Stranger: true})
	if b.Len() > 1500 || !strings.Contains(b.String(), "ä…") || strings.Contains(b.String(), "�") {
		t.Errorf("%d bytes: %.400s", b.Len(), b.String())
	}
}
