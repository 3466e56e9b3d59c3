// This program tests gocloud.dev's pubsub, whose driver azuresb uses the Go SDK: a topic with a
// subscription, bodies and metadata, a message that is received again after Nack, and a shutdown
// that leaves no message behind.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"time"

	"gocloud.dev/pubsub"
	"gocloud.dev/pubsub/azuresb"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := tell(ctx, os.Getenv("STORY_NAME")+"-gocloud"); err != nil {
		log.Fatal(err)
	}
}

func tell(ctx context.Context, name string) error {
	for _, args := range [][]string{{"topic", "create", name}, {"subscription", "create", name, "all", "--max-delivery-count", "3"}} {
		if out, err := exec.CommandContext(ctx, os.Getenv("CROSSTOWN"), args...).CombinedOutput(); err != nil {
			return fmt.Errorf("crosstown %v: %w\n%s", args, err, out)
		}
	}
	client, err := azuresb.NewClientFromConnectionString(os.Getenv("STORY_CONNECTION"), nil)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	sender, err := azuresb.NewSender(client, name, nil)
	if err != nil {
		return err
	}
	defer sender.Close(ctx)
	receiver, err := azuresb.NewReceiver(client, name, "all", nil)
	if err != nil {
		return err
	}
	defer receiver.Close(ctx)
	topic, err := azuresb.OpenTopic(ctx, sender, nil)
	if err != nil {
		return err
	}
	subscription, err := azuresb.OpenSubscription(ctx, client, receiver, nil)
	if err != nil {
		return err
	}

	const count = 50
	for i := range count {
		m := &pubsub.Message{Body: fmt.Appendf(nil, "order %d", i), Metadata: map[string]string{"number": fmt.Sprint(i)}}
		if err := topic.Send(ctx, m); err != nil {
			return fmt.Errorf("send %d: %w", i, err)
		}
	}
	nacked, seen := "", map[string]int{}
	for len(seen) < count || seen[nacked] < 2 {
		m, err := subscription.Receive(ctx)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		body := string(m.Body)
		if want := "order " + m.Metadata["number"]; body != want {
			return fmt.Errorf("got the body %q, want %q", body, want)
		}
		seen[body]++
		if nacked == "" {
			nacked = body
			m.Nack()
			continue
		}
		m.Ack()
	}
	for body, n := range seen {
		if want := 1 + map[bool]int{true: 1}[body == nacked]; n != want {
			return fmt.Errorf("%q came %d times, want %d", body, n, want)
		}
	}
	if err := subscription.Shutdown(ctx); err != nil {
		return err
	}
	if err := topic.Shutdown(ctx); err != nil {
		return err
	}
	peek := exec.CommandContext(ctx, os.Getenv("CROSSTOWN"), "peek", name+"/Subscriptions/all")
	left, err := peek.Output()
	if peek.ProcessState.ExitCode() == nothing {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("left: %s", left)
	}
	return err
}

// nothing is the command's exit code if there is no message.
const nothing = 4
