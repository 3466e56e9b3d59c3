package test

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func Clock(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use: "clock", Short: "Show, freeze and move the time of a namespace with virtual time",
		Long: `Show, freeze and move the time of a namespace with virtual time.

Locks, schedules, times to live, retry delays, duplicate detection and deletion of idle entities
follow the namespace's time at once, and so do the times in answers to clients. A command that
moves the time returns when the gateway has done everything that has become due. Tokens and
time-outs of calls follow the machine's time.

A namespace has virtual time if it was created with crosstown namespace create NAME
--virtual-time, or if the gateway's configuration has virtual-time: true, which requires the
memory store. A policy with Manage on the namespace allows these commands.`,
		Example: `  crosstown clock freeze
  crosstown clock advance 5m
  crosstown clock set 2030-02-28T23:59:00Z --namespace suite-17
  crosstown clock resume`,
	})
	for _, each := range []struct {
		use, short string
		request    func(at string) (*api.ClockRequest, error) // request that changes the clock; nil if the command only shows it
	}{
		{"show", "Show the time of a namespace", nil},
		{"freeze", "Stop the time of a namespace, until crosstown clock resume", func(string) (*api.ClockRequest, error) { return &api.ClockRequest{Freeze: true}, nil }},
		{"resume", "Let the frozen time run again, from the moment at which it stands", func(string) (*api.ClockRequest, error) { return &api.ClockRequest{Resume: true}, nil }},
		{"advance DURATION", "Move the time of a namespace forward by a duration, such as 90s, 5m, 36h or P14D", func(by string) (*api.ClockRequest, error) { return &api.ClockRequest{Advance: by}, nil }},
		{"set TIME", "Set the time of a namespace, in the format of RFC 3339, such as 2030-02-28T23:59:00Z", func(at string) (*api.ClockRequest, error) {
			t, err := time.Parse(time.RFC3339Nano, at)
			if err != nil {
				return nil, command.Usagef("%.40q is not a time: use the format of RFC 3339, such as 2030-02-28T23:59:00Z", at)
			}
			return &api.ClockRequest{Set: &t}, nil
		}},
	} {
		var namespace string
		sub := &cobra.Command{Use: each.use, Short: each.short, Args: cobra.ExactArgs(len(strings.Fields(each.use)) - 1)}
		bindNamespace(sub, &namespace)
		c.AddCommand(command.Asking(sub, environ, func(args []string) (q command.Inquiry, err error) {
			q = inNamespace(http.MethodGet, namespace, api.ClockPath, api.ClockOf)
			if each.request != nil {
				q.Method = http.MethodPut
				q.Body, err = each.request(strings.Join(args, ""))
			}
			return q, err
		}, printClock))
	}
	return c
}

func printClock(w io.Writer, _ []string, clock *api.Clock) error {
	state, by := "running", clock.Ahead+" ahead of"
	if clock.Frozen {
		state = "frozen"
	}
	if behind, ok := strings.CutPrefix(clock.Ahead, "-"); ok {
		by = behind + " behind"
	}
	return command.Line(w, "%s, %s, %s the store's time", clock.Now.UTC().Format(api.InstantLayout), state, by)
}
