package messages

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

type tapping struct {
	command.Flags
	out      *bufio.Writer
	count    int
	progress *command.Progress
	began    func()

	mu       sync.Mutex
	open     int
	recorded int
	missed   int
}

var errEnough = errors.New("recorded the requested number of messages")

func (t *tapping) run(ctx context.Context, entities []string) error {
	for _, entity := range entities {
		if _, _, isSubscription := core.SplitSubscription(entity); isSubscription || strings.Contains(entity, "/$") {
			return command.Usagef("--tap: clients cannot send to %s: specify the queue or topic that clients send to", entity)
		}
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var running sync.WaitGroup
	for _, entity := range entities {
		running.Go(func() { end(t.entity(ctx, entity, len(entities))) })
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

func (t *tapping) entity(ctx context.Context, entity string, all int) error {
	response, err := t.Request(ctx, command.Inquiry{Method: http.MethodGet, Path: api.TapPath, Names: []string{entity}})
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	t.mu.Lock()
	if t.open++; t.open == all {
		t.began()
	}
	t.mu.Unlock()
	in := bufio.NewReader(response.Body)
	for {
		line, err := in.ReadBytes('\n')
		if err == nil {
			err = t.take(line, in.Buffered() == 0)
		}
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = fmt.Errorf("the gateway ended the recording of %s: run the command again", entity)
			}
			return err
		}
	}
}

func (t *tapping) take(line []byte, last bool) error {
	if len(bytes.TrimSpace(line)) == 0 { // the gateway sends empty lines to keep the connection open
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var missed api.Missed
	if bytes.HasPrefix(line, []byte(`{"missed"`)) && json.Unmarshal(line, &missed) == nil {
		t.missed += missed.Missed
		return nil
	}
	if t.count > 0 && t.recorded == t.count {
		return errEnough
	}
	if _, err := t.out.Write(line); err != nil {
		return err
	}
	if t.recorded++; t.recorded == t.count {
		return errEnough
	}
	t.progress.At(t.recorded)
	if last {
		return t.out.Flush()
	}
	return nil
}
