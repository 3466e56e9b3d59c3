package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// Namespace finds the broker for a run without --url.
type Namespace interface {
	Bind(c *cobra.Command)
	// Find sets in o how to connect. It changes nothing in the namespace.
	Find(o *Options) error
	MakeQueues(ctx context.Context, names []string, sessions bool) (remove func(context.Context) error, err error)
}

// Command returns bench. dialers are for URL schemes besides AMQP's. Without n it requires --url.
func Command(dialers map[string]Dialer, n Namespace) *cobra.Command {
	o := Defaults()
	o.Dialers = dialers
	var asJSON, own bool
	c := &cobra.Command{
		Use:   "bench",
		Short: "Drive load through an AMQP 1.0 broker and check that each message arrives once",
		Long: `Drive load through an AMQP 1.0 broker, or by WebSocket through a gateway, and
check that each message arrives once.

Without --url the load goes to the namespace of the connection string. Without --entity the
command creates a queue in this namespace and removes it afterwards, which needs Manage; with
--entity the queue must exist and be empty. The command fails if a message was lost or delivered
twice. Latencies count from the time at which a message was due, so a stall of the broker shows
in every message that the stall delayed.

Modes: throughput sends as fast as --in-flight and --credit allow; latency sends at the rate of
--rate; lone sends the next message when the previous message has arrived and was settled;
sessions sends one message to each of many sessions, then accepts the next session, receives,
settles and releases until none is left; idle holds connections and waiting receivers without
messages.

CPU time covers only the measured interval, from when everything was connected until the last
message was settled. The line "bench" is the CPU time of this command itself.`,
		Example: `  crosstown bench
  crosstown bench --url amqp://RootManageSharedAccessKey:SAS_KEY_VALUE@localhost --entity bench
  crosstown bench --context staging --mode latency --rate 2000 --duration 30s
  crosstown bench --url ws://RootManageSharedAccessKey:SAS_KEY_VALUE@localhost:5300 --entity bench --msgpack
  crosstown bench --url amqp://localhost --entity bench --messages 200000 --fill-then-drain --pid gateway=$(pidof crosstown)
  crosstown bench --url amqp://localhost --entity bench --queues 10 --senders 100 --receivers 100
  crosstown bench --url amqp://localhost --entity bench --mode idle --connections 10000 --receivers 1000 --pid gateway=$(pidof crosstown)`,
		Args: cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if n != nil {
				if err := n.Find(&o); err != nil {
					return err
				}
			}
			if own = len(o.URLs) == 0 && o.Entity == ""; own {
				o.Entity = fmt.Sprintf("crosstown-bench-%08x", rand.Uint32())
			}
			return o.Validate()
		},
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if own {
				remove, err := n.MakeQueues(c.Context(), o.queues(o.Entity), o.Mode == Sessions)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, remove(context.WithoutCancel(c.Context()))) }()
				if to, err := o.targets(); err == nil {
					_, _ = fmt.Fprintf(c.ErrOrStderr(), "the load goes through a new queue, %s at %s\n", o.Entity, to[0].address)
				}
			}
			report, err := Run(c.Context(), o, c.ErrOrStderr())
			if c.Context().Err() != nil {
				report.interrupted()
			}
			if report.Run != "" {
				err = errors.Join(err, show(c, &report, asJSON))
			}
			return errors.Join(err, report.Check())
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.URLs, "url", nil, "URL of the broker, amqp://[user:password@]host[:port] or amqps://…; ws://… or wss://… for the gateway's WebSocket protocol; repeatable, connections are divided among all URLs")
	f.BoolVar(&o.MessagePack, "msgpack", false, "with a ws:// or wss:// URL: use MessagePack instead of JSON")
	if n != nil {
		n.Bind(c)
		c.MarkFlagsMutuallyExclusive("url", "connection-string")
		c.MarkFlagsMutuallyExclusive("url", "context")
	}
	f.StringVar(&o.Entity, "entity", "", "queue to use (default: EntityPath of the connection string, else a new queue that is removed afterwards)")
	f.IntVar(&o.Queues, "queues", o.Queues, "number of queues to divide the links among; if more than 1, the queues are ENTITY-0, ENTITY-1 and so on")
	f.StringVar((*string)(&o.Mode), "mode", string(o.Mode), "throughput, latency (at a fixed --rate), lone, sessions or idle")
	f.Int64Var(&o.Messages, "messages", 0, "total number of messages to send, or in mode sessions the number of sessions (default 100000)")
	f.DurationVar(&o.Duration, "duration", 0, "how long to send, instead of --messages (default 10s in modes latency, lone and idle)")
	f.Float64Var(&o.Rate, "rate", o.Rate, "in mode latency: messages per second of all senders together")
	f.IntVar(&o.Size, "size", o.Size, "size of each message's body in `bytes`")
	f.IntVar(&o.Senders, "senders", o.Senders, "number of sending links")
	f.IntVar(&o.Receivers, "receivers", o.Receivers, "number of receiving links; 0: only send")
	f.IntVar(&o.Connections, "connections", o.Connections, "number of connections to divide the links among")
	f.IntVar(&o.InFlight, "in-flight", o.InFlight, "maximum number of unconfirmed messages of each sender")
	f.IntVar(&o.Credit, "credit", o.Credit, "link credit of each receiver, in messages")
	f.StringVar((*string)(&o.Settle), "settle", string(o.Settle), "how receivers settle: batch: accept many messages at once, and wait for the broker's confirmation; each: accept messages one by one, and wait for each confirmation; first: accept without confirmation (receiver-settle-mode first); none: receive and delete")
	f.BoolVar(&o.FillThenDrain, "fill-then-drain", false, "receive only after all messages were sent")
	f.BoolVar(&o.Verify, "verify", o.Verify, "check that each message arrives exactly once")
	f.DurationVar(&o.Patience, "patience", o.Patience, "end the run when no message has arrived for this time")
	f.Var((*processes)(&o.Processes), "pid", "process whose CPU time and memory the report shows under a name, `NAME=PID`; repeatable")
	f.Var(named{&o.Processes, "gateway"}, "gateway-pid", "same as --pid gateway=`PID`")
	f.Var(named{&o.Processes, "redis"}, "redis-pid", "same as --pid redis=`PID`")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

func show(c *cobra.Command, report *Report, asJSON bool) error {
	if !asJSON {
		return report.Write(c.OutOrStdout())
	}
	e := json.NewEncoder(c.OutOrStdout())
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

type processes []Process

func (p *processes) Set(s string) error {
	name, pid, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q: use NAME=PID", s)
	}
	return named{(*[]Process)(p), name}.Set(pid)
}

func (p *processes) String() string { return "" }

func (p *processes) Type() string { return "NAME=PID" }

type named struct {
	to   *[]Process
	name string
}

func (n named) Set(s string) error {
	pid, err := strconv.Atoi(s)
	if err != nil || pid <= 0 {
		return fmt.Errorf("%q is not a process id: write a number", s)
	}
	*n.to = append(*n.to, Process{n.name, pid})
	return nil
}

func (n named) String() string { return "" }

func (n named) Type() string { return "PID" }
