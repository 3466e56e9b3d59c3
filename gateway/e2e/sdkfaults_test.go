package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/gateway/internal/sdkfaults"
)

func TestFaultsAsSDKsTakeThem(t *testing.T) {
	tell(t, func(e *env) {
		e.Run("Go", func(t *testing.T) {
			t.Parallel()
			sdkfaults.Want(t, "Go", func(told string) map[string]string { return goThroughFaults(t, told) })
		})
		for sdk, run := range map[string]func(e *env, story string, variables ...string){"Python": (*env).python, "JavaScript": (*env).node} {
			e.Run(sdk, func(t *testing.T) {
				t.Parallel()
				in := &env{T: t, gw: e.gw, plain: e.plain}
				sdkfaults.Want(t, sdk, func(told string) map[string]string {
					file := filepath.Join(t.TempDir(), "report.json")
					run(in, "faults", "STORY_CASES="+told, "STORY_REPORT="+file)
					return sdkfaults.Read(t, file)
				})
			})
		}
	}, "file/tcp")
}

// goThroughFaults does the steps of all cases with the Go SDK.
func goThroughFaults(t *testing.T, told string) map[string]string {
	var all []sdkfaults.Case
	if err := json.Unmarshal([]byte(told), &all); err != nil {
		t.Fatal(err)
	}
	var (
		mu     sync.Mutex
		report = map[string]string{}
		tasks  sync.WaitGroup
	)
	for _, c := range all {
		tasks.Go(func() {
			outcome, err := faultyStep(t.Context(), c)
			if err != nil {
				outcome = fmt.Sprintf("an error, `%T`", err)
				if errors.Is(err, context.DeadlineExceeded) {
					outcome = "the call does not return"
				}
				if coded, ok := errors.AsType[*azservicebus.Error](err); ok {
					outcome = fmt.Sprintf("an error, Code `%s`", coded.Code)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			report[c.Name] = outcome
		})
	}
	tasks.Wait()
	return report
}

// faultyStep does the step of a case.
func faultyStep(ctx context.Context, c sdkfaults.Case) (outcome string, err error) {
	client, err := azservicebus.NewClientFromConnectionString(c.Connection, &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 3, RetryDelay: 100 * time.Millisecond, MaxRetryDelay: 100 * time.Millisecond},
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }() // the step's error counts
	sender, err := client.NewSender("q", nil)
	if err != nil {
		return "", err
	}
	send := func(bodies ...string) error {
		batch, err := sender.NewMessageBatch(ctx, nil)
		if err != nil {
			return err
		}
		for _, body := range bodies {
			m := &azservicebus.Message{Body: []byte(body), MessageID: &body}
			if c.Step == "session" {
				m.SessionID = new("s")
			}
			if err := batch.AddMessage(m, nil); err != nil {
				return err
			}
		}
		return sender.SendMessageBatch(ctx, batch, nil)
	}
	bodies := []string{"one"}
	if c.Step == "receive" {
		bodies = []string{"one", "two", "three"}
	}
	if err := send(bodies...); err != nil {
		return "", err
	}
	switch c.Step {
	case "send":
		return "sent", nil
	case "token":
		time.Sleep(2 * time.Second) // the token ends by the machine's clock
		return "sent", send("two")
	case "session":
		r, err := client.AcceptSessionForQueue(ctx, "q", "s", nil)
		if err != nil {
			return "", err
		}
		return "completed", completeAfter(ctx, r, c, time.Second)
	}
	r, err := client.NewReceiverForQueue("q", nil)
	if err != nil {
		return "", err
	}
	if _, err := r.PeekMessages(ctx, 1, nil); err != nil { // opens the link, so that the time begins with it
		return "", err
	}
	wait, cancel := context.WithTimeout(ctx, time.Duration(c.ReceiveMS)*time.Millisecond)
	defer cancel()
	var got []string
	for len(got) < len(bodies) {
		// What comes between two calls the SDK gives back, and it would come after the others.
		ms, err := r.ReceiveMessages(wait, len(bodies)-len(got), &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: 2 * time.Second})
		if wait.Err() != nil && len(got) == 0 {
			return "no message arrives", nil
		}
		if err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeout(ctx, time.Duration(c.SettleMS)*time.Millisecond) // the SDK may wait on a link that is gone
		defer cancel()
		for _, m := range ms {
			if c.Step == "renew" {
				return "renewed", r.RenewMessageLock(ctx, m, nil)
			}
			if err := r.CompleteMessage(ctx, m, nil); err != nil {
				return "", err
			}
			got = append(got, string(m.Body))
		}
	}
	if c.Step == "receive" {
		return strings.Join(got, ", "), nil
	}
	return "completed", nil
}

// completeAfter receives a message of a session and completes it after a pause.
func completeAfter(ctx context.Context, r *azservicebus.SessionReceiver, c sdkfaults.Case, pause time.Duration) error {
	wait, cancel := context.WithTimeout(ctx, time.Duration(c.ReceiveMS)*time.Millisecond)
	defer cancel()
	ms, err := r.ReceiveMessages(wait, 1, nil)
	if err != nil {
		return err
	}
	time.Sleep(pause) // what an application does with a message
	ctx, cancel = context.WithTimeout(ctx, time.Duration(c.SettleMS)*time.Millisecond)
	defer cancel()
	return r.CompleteMessage(ctx, ms[0], nil)
}
