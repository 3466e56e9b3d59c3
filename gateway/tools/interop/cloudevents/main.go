// This program tests the AMQP protocol of the CloudEvents SDK: events in binary and structured mode
// through a queue arrive with the same attributes and data, a released event is received again, and
// Nack dead-letters.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
	ceamqp "github.com/cloudevents/sdk-go/protocol/amqp/v2"
	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/types"
)

const (
	policy = "RootManageSharedAccessKey"
	key    = "SAS_KEY_VALUE"
	count  = 20 // events of each mode
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := tell(ctx, os.Getenv("STORY_NAME")+"-cloudevents"); err != nil {
		log.Fatal(err)
	}
}

func tell(ctx context.Context, queue string) error {
	if _, err := crosstown(ctx, "queue", "create", queue, "--max-delivery-count", "3"); err != nil {
		return err
	}
	protocol, err := ceamqp.NewProtocol(server(), queue, connection(), nil, waiting())
	if err != nil {
		return err
	}
	defer protocol.Close(ctx)

	sent := map[string]cloudevents.Event{}
	client, err := cloudevents.NewClient(protocol)
	if err != nil {
		return err
	}
	for mode, with := range map[string]func(context.Context) context.Context{"binary": binding.WithForceBinary, "structured": binding.WithForceStructured} {
		for i := range count {
			e, err := event(fmt.Sprintf("%s-%d", mode, i), i)
			if err != nil {
				return err
			}
			sent[e.ID()] = e
			if err := client.Send(with(ctx), e); cloudevents.IsUndelivered(err) {
				return fmt.Errorf("send %s: %w", e.ID(), err)
			}
		}
	}
	seen, err := receive(ctx, protocol, sent)
	if err != nil {
		return err
	}
	for id, n := range seen {
		if want := 1 + map[bool]int{true: 1}[id == "binary-1"]; n != want {
			return fmt.Errorf("%s came %d times, want %d", id, n, want)
		}
	}
	if left, err := crosstown(ctx, "peek", queue); err != nil || left != "" {
		return errors.Join(fmt.Errorf("left in the queue: %q", left), err)
	}
	return deadLetters(ctx, queue, sent)
}

// receive acknowledges all events but these: binary-1 is released once, and *-0 get a Nack.
func receive(ctx context.Context, protocol *ceamqp.Protocol, sent map[string]cloudevents.Event) (map[string]int, error) {
	seen := map[string]int{}
	for len(seen) < len(sent) || seen["binary-1"] < 2 {
		m, err := protocol.Receive(ctx)
		if err != nil {
			return nil, fmt.Errorf("receive: %w", err)
		}
		e, err := same(ctx, m, sent)
		if err != nil {
			return nil, err
		}
		seen[e.ID()]++
		switch message := m.(*ceamqp.Message); {
		case e.ID() == "binary-1" && seen[e.ID()] == 1:
			err = message.AMQPrcv.ReleaseMessage(ctx, message.AMQP)
		case strings.HasSuffix(e.ID(), "-0"):
			err = m.Finish(errors.New("no use for " + e.ID()))
		default:
			err = m.Finish(nil)
		}
		if err != nil {
			return nil, fmt.Errorf("settle %s: %w", e.ID(), err)
		}
	}
	return seen, nil
}

// deadLetters receives the events that got a Nack.
func deadLetters(ctx context.Context, queue string, sent map[string]cloudevents.Event) error {
	protocol, err := ceamqp.NewReceiverProtocol(server(), queue+"/$DeadLetterQueue", connection(), nil, waiting())
	if err != nil {
		return err
	}
	defer protocol.Close(ctx)
	seen := map[string]bool{}
	for len(seen) < 2 {
		m, err := protocol.Receive(ctx)
		if err != nil {
			return fmt.Errorf("receive a dead letter: %w", err)
		}
		e, err := same(ctx, m, sent)
		if err != nil {
			return err
		}
		properties := m.(*ceamqp.Message).AMQP.ApplicationProperties
		if got, want := fmt.Sprint(properties["DeadLetterErrorDescription"]), "no use for "+e.ID(); got != want {
			return fmt.Errorf("%s was dead-lettered with %q, want %q", e.ID(), got, want)
		}
		seen[e.ID()] = true
		if err := m.Finish(nil); err != nil {
			return err
		}
	}
	if !seen["binary-0"] || !seen["structured-0"] {
		return fmt.Errorf("dead letters %v, want binary-0 and structured-0", seen)
	}
	return nil
}

func server() string { return "amqp://" + os.Getenv("STORY_HOST") }

func connection() []amqp.ConnOption { return []amqp.ConnOption{amqp.ConnSASLPlain(policy, key)} }

// waiting makes settling wait for the gateway.
func waiting() ceamqp.Option {
	return ceamqp.WithReceiverLinkOption(amqp.LinkReceiverSettle(amqp.ModeSecond))
}

// event has attributes and extensions of all types.
func event(id string, number int) (cloudevents.Event, error) {
	e := cloudevents.NewEvent()
	e.SetID(id)
	e.SetSource("https://example.com/orders?region=eu")
	e.SetType("com.example.order")
	e.SetSubject("order/ü")
	e.SetTime(time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC))
	e.SetDataSchema("https://example.com/schema")
	e.SetExtension("number", number)
	e.SetExtension("urgent", number%2 == 0)
	e.SetExtension("place", "Zürich")
	e.SetExtension("blob", []byte{0, 1, 255})
	e.SetExtension("link", types.URI{URL: url.URL{Scheme: "https", Host: "example.com", Path: "/a"}})
	return e, e.SetData(cloudevents.ApplicationJSON, map[string]any{"id": id, "amount": number})
}

// same reads the event of a message and compares it with the one that was sent, and its mode with what its ID says.
func same(ctx context.Context, m binding.Message, sent map[string]cloudevents.Event) (*cloudevents.Event, error) {
	e, err := binding.ToEvent(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("read an event: %w", err)
	}
	want, ok := sent[e.ID()]
	if !ok {
		return nil, fmt.Errorf("event %q was not sent", e.ID())
	}
	if mode := m.ReadEncoding().String(); !strings.HasPrefix(e.ID(), mode) {
		return nil, fmt.Errorf("%s came in mode %s", e.ID(), mode)
	}
	// Extensions come as text in structured mode, so the canonical text is compared.
	if got, want := text(*e), text(want); got != want {
		return nil, fmt.Errorf("got\n%s\nwant\n%s", got, want)
	}
	return e, nil
}

func text(e cloudevents.Event) string {
	s := fmt.Sprintln(e.SpecVersion(), e.ID(), e.Source(), e.Type(), e.Subject(), e.Time(), e.DataSchema(), e.DataContentType(), string(e.Data()))
	for _, name := range []string{"number", "urgent", "place", "blob", "link"} {
		value, err := types.Format(e.Extensions()[name])
		s += fmt.Sprintln(name, value, err)
	}
	return s + fmt.Sprintln(len(e.Extensions()))
}

// nothing is the command's exit code if there is no message.
const nothing = 4

func crosstown(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, os.Getenv("CROSSTOWN"), args...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if c.ProcessState.ExitCode() == nothing {
		return "", nil
	}
	if err != nil {
		err = fmt.Errorf("crosstown %v: %w", args, err)
	}
	return string(out), err
}
