// This program tests Dapr's components for Service Bus, which create their entities: pub/sub with a
// queue, singly and in bulk, with a message that is retried and one that is dead-lettered; pub/sub
// with a topic; sessions of a topic, each in order; and the binding of a queue.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/dapr/components-contrib/bindings"
	"github.com/dapr/components-contrib/bindings/azure/servicebusqueues"
	"github.com/dapr/components-contrib/metadata"
	"github.com/dapr/components-contrib/pubsub"
	"github.com/dapr/components-contrib/pubsub/azure/servicebus/queues"
	"github.com/dapr/components-contrib/pubsub/azure/servicebus/topics"
	"github.com/dapr/kit/logger"
)

const (
	count         = 20 // messages of each way to send
	maxDeliveries = 3
)

var errOnPurpose = errors.New("on purpose")

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	name := os.Getenv("STORY_NAME") + "-dapr"
	for _, tell := range []func(context.Context, string) error{queue, topic, sessions, binding} {
		if err := tell(ctx, name); err != nil {
			log.Fatal(err)
		}
	}
}

// component is the metadata of a component with these properties besides.
func component(properties map[string]string) metadata.Base {
	all := map[string]string{"connectionString": os.Getenv("STORY_TLS"), "maxDeliveryCount": fmt.Sprint(maxDeliveries), "maxRetriableErrorsPerSec": "0"}
	for key, value := range properties {
		all[key] = value
	}
	return metadata.Base{Name: "story", Properties: all}
}

func quiet() logger.Logger {
	l := logger.NewLogger("story")
	l.SetOutputLevel(logger.FatalLevel) // the errors that handlers return on purpose are logged
	return l
}

// inbox is what handlers got.
type inbox struct {
	mu   sync.Mutex
	seen map[string]int   // deliveries by body
	in   map[string]inOne // by session
	err  error
}

// inOne is the bodies of a session, in the order in which they came.
type inOne []string

func newInbox() *inbox { return &inbox{seen: map[string]int{}, in: map[string]inOne{}} }

// take is a handler that fails for "bad" always, and for "again" once.
func (b *inbox) take(body string, properties map[string]string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[body]++
	if session := properties["metadata.SessionId"]; session != "" {
		b.in[session] = append(b.in[session], body)
	}
	if got := properties["metadata.number"]; got != "" && !strings.HasSuffix(body, " "+got) {
		b.err = fmt.Errorf("%q came with the number %s", body, got)
	}
	if body == "bad" || body == "again" && b.seen[body] == 1 {
		return errOnPurpose
	}
	return nil
}

func (b *inbox) message(_ context.Context, m *pubsub.NewMessage) error {
	return b.take(string(m.Data), m.Metadata)
}

// wait waits until all of want came as often as it says, and no more.
func (b *inbox) wait(ctx context.Context, want map[string]int) error {
	for {
		b.mu.Lock()
		got, err := fmt.Sprint(b.seen), b.err
		b.mu.Unlock()
		if err != nil || got == fmt.Sprint(want) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("got %s, want %v", got, want)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func queue(ctx context.Context, name string) error {
	name += "-queue"
	p := queues.NewAzureServiceBusQueues(quiet())
	if err := p.Init(ctx, pubsub.Metadata{Base: component(nil)}); err != nil {
		return err
	}
	want := map[string]int{"bad": maxDeliveries, "again": 2}
	for _, body := range []string{"bad", "again"} {
		if err := p.Publish(ctx, &pubsub.PublishRequest{Topic: name, Data: []byte(body)}); err != nil {
			return fmt.Errorf("publish %s: %w", body, err)
		}
	}
	bulk := &pubsub.BulkPublishRequest{Topic: name}
	for i := range count {
		body, properties := fmt.Sprint("single ", i), map[string]string{"number": fmt.Sprint(i), "MessageId": fmt.Sprint("m-", i)}
		if err := p.Publish(ctx, &pubsub.PublishRequest{Topic: name, Data: []byte(body), Metadata: properties}); err != nil {
			return fmt.Errorf("publish %s: %w", body, err)
		}
		want[body] = 1
		body = fmt.Sprint("bulk ", i)
		bulk.Entries = append(bulk.Entries, pubsub.BulkMessageEntry{EntryId: body, Event: []byte(body), ContentType: "text/plain", Metadata: properties})
		want[body] = 1
	}
	if response, err := p.(pubsub.BulkPublisher).BulkPublish(ctx, bulk); err != nil {
		return fmt.Errorf("publish in bulk: %w (%v)", err, response)
	}
	b := newInbox()
	if err := p.Subscribe(ctx, pubsub.SubscribeRequest{Topic: name}, b.message); err != nil {
		return err
	}
	if err := errors.Join(b.wait(ctx, want), left(ctx, name, ""), left(ctx, name+"/$DeadLetterQueue", "bad")); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	return p.Close()
}

func topic(ctx context.Context, name string) error {
	name += "-topic"
	p := topics.NewAzureServiceBusTopics(quiet())
	if err := p.Init(ctx, pubsub.Metadata{Base: component(map[string]string{"consumerID": "all"})}); err != nil {
		return err
	}
	b, bulk := newInbox(), newInbox()
	if err := p.Subscribe(ctx, pubsub.SubscribeRequest{Topic: name}, b.message); err != nil { // makes the subscription
		return err
	}
	another := topics.NewAzureServiceBusTopics(quiet())
	if err := another.Init(ctx, pubsub.Metadata{Base: component(map[string]string{"consumerID": "bulk"})}); err != nil {
		return err
	}
	take := func(_ context.Context, m *pubsub.BulkMessage) ([]pubsub.BulkSubscribeResponseEntry, error) {
		answers, failed := make([]pubsub.BulkSubscribeResponseEntry, len(m.Entries)), error(nil)
		for i, entry := range m.Entries {
			err := bulk.take(string(entry.Event), entry.Metadata)
			answers[i] = pubsub.BulkSubscribeResponseEntry{EntryId: entry.EntryId, Error: err}
			failed = errors.Join(failed, err)
		}
		return answers, failed
	}
	if err := another.(pubsub.BulkSubscriber).BulkSubscribe(ctx, pubsub.SubscribeRequest{Topic: name}, take); err != nil {
		return err
	}
	want := map[string]int{"bad": maxDeliveries, "again": 2}
	for i := range count {
		want[fmt.Sprint("news ", i)] = 1
	}
	for body := range want {
		if err := p.Publish(ctx, &pubsub.PublishRequest{Topic: name, Data: []byte(body)}); err != nil {
			return fmt.Errorf("publish %s: %w", body, err)
		}
	}
	for subscription, b := range map[string]*inbox{"all": b, "bulk": bulk} {
		entity := name + "/Subscriptions/" + subscription
		if err := errors.Join(b.wait(ctx, want), left(ctx, entity, ""), left(ctx, entity+"/$DeadLetterQueue", "bad")); err != nil {
			return fmt.Errorf("subscription %s: %w", subscription, err)
		}
	}
	return errors.Join(p.Close(), another.Close())
}

func sessions(ctx context.Context, name string) error {
	name += "-sessions"
	p := topics.NewAzureServiceBusTopics(quiet())
	if err := p.Init(ctx, pubsub.Metadata{Base: component(map[string]string{"consumerID": "ordered"})}); err != nil {
		return err
	}
	b := newInbox()
	request := pubsub.SubscribeRequest{Topic: name, Metadata: map[string]string{"requireSessions": "true", "maxConcurrentSessions": "2", "sessionIdleTimeoutInSec": "1"}}
	if err := p.Subscribe(ctx, request, b.message); err != nil {
		return err
	}
	want, order := map[string]int{}, map[string]inOne{}
	for i := range count {
		body, session := fmt.Sprint("step ", i), fmt.Sprint("s", i%4) // of two at a time
		if err := p.Publish(ctx, &pubsub.PublishRequest{Topic: name, Data: []byte(body), Metadata: map[string]string{"SessionId": session}}); err != nil {
			return fmt.Errorf("publish %s: %w", body, err)
		}
		want[body] = 1
		order[session] = append(order[session], body)
	}
	if err := b.wait(ctx, want); err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	if err := p.Close(); err != nil {
		return err
	}
	if got, want := fmt.Sprint(b.in), fmt.Sprint(order); got != want {
		return fmt.Errorf("sessions: got %s, want %s", got, want)
	}
	return nil
}

func binding(ctx context.Context, name string) error {
	name += "-binding"
	p := servicebusqueues.NewAzureServiceBusQueues(quiet())
	if err := p.Init(ctx, bindings.Metadata{Base: component(map[string]string{"queueName": name})}); err != nil {
		return err
	}
	want := map[string]int{"bad": maxDeliveries, "again": 2, "good": 1}
	for body := range want {
		if _, err := p.Invoke(ctx, &bindings.InvokeRequest{Operation: bindings.CreateOperation, Data: []byte(body), Metadata: map[string]string{"label": "l", "own": "é"}}); err != nil {
			return fmt.Errorf("invoke with %s: %w", body, err)
		}
	}
	b := newInbox()
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	err := p.Read(reading, func(_ context.Context, r *bindings.ReadResponse) ([]byte, error) {
		if r.Metadata["label"] != "l" || r.Metadata["own"] != "%C3%A9" {
			return nil, fmt.Errorf("metadata %v", r.Metadata)
		}
		return nil, b.take(string(r.Data), nil)
	})
	if err != nil {
		return err
	}
	if err := errors.Join(b.wait(ctx, want), left(ctx, name, ""), left(ctx, name+"/$DeadLetterQueue", "bad")); err != nil {
		return fmt.Errorf("binding: %w", err)
	}
	cancel()
	return p.Close()
}

// nothing is the command's exit code if there is no message.
const nothing = 4

// left waits until an entity holds one message with this body, or none.
func left(ctx context.Context, entity, want string) error {
	for {
		peek := exec.CommandContext(ctx, os.Getenv("CROSSTOWN"), "peek", entity)
		out, err := peek.Output()
		if err != nil && peek.ProcessState.ExitCode() != nothing {
			return fmt.Errorf("peek at %s: %w", entity, err)
		}
		got := string(out) // of each message a line that begins with # and its number, its properties, and its body
		if want == "" && got == "" || strings.HasPrefix(got, "#") && strings.Count(got, "\n#") == 0 && strings.HasSuffix(got, "\n"+want+"\n") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("left in %s: %q, want %q", entity, got, want)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
