package operate

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/client/command"
)

// Session is crosstown session.
func Session(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use: "session", Short: "List, show and change the sessions of a queue or subscription",
		Long: `List, show and change the sessions of a queue or subscription.

The commands need Listen on the entity; the client that holds a session is shown to
policies with Manage there, if it is connected to this gateway.`,
	})
	c.AddCommand(sessionListCommand(environ), sessionShowCommand(environ), sessionSetStateCommand(environ))
	return c
}

func sessionListCommand(environ []string) *cobra.Command {
	var o command.Flags
	var skip, top int
	c := &cobra.Command{
		Use: "list ENTITY", Short: "List sessions with their messages, lock and holder", Args: cobra.ExactArgs(1),
		Long: `List the sessions of a queue or subscription that have messages or state, by id.

AVAILABLE counts messages that the holder of the session could receive now, LOCKED
those under lock, DEFERRED other deferred ones. Scheduled messages do not count yet.`,
		Example: `  crosstown session list orders
  crosstown session list orders --top 1000 --json | jq -r '.sessions[] | select(.lockedUntil) | .session'`,
	}
	o.Bind(c, environ)
	c.Flags().IntVar(&skip, "skip", 0, "leave out the first `N` sessions")
	c.Flags().IntVar(&top, "top", 100, "list `N` sessions at most, up to 1000")
	c.RunE = func(c *cobra.Command, args []string) error {
		if skip < 0 {
			return command.Usagef("--skip is %d: it must not be negative", skip)
		}
		if top < 1 || top > 1000 {
			return command.Usagef("--top is %d: it must be between 1 and 1000", top)
		}
		var list api.SessionList
		q := command.Inquiry{Method: http.MethodGet, Path: api.SessionsPath, Names: strings.Split(args[0], "/"), Scope: args[0], Query: url.Values{"skip": {strconv.Itoa(skip)}, "top": {strconv.Itoa(top)}}}
		if err := o.Ask(c.Context(), q, &list); err != nil {
			return err
		}
		if o.JSON {
			return json.NewEncoder(c.OutOrStdout()).Encode(list)
		}
		if err := printSessions(c.OutOrStdout(), list.Sessions); err != nil || len(list.Sessions) < top {
			return err
		}
		_, err := fmt.Fprintf(c.ErrOrStderr(), "there may be more: --skip %d\n", skip+top)
		return err
	}
	return c
}

func printSessions(out io.Writer, all []api.Session) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no sessions have messages or state")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "SESSION\tAVAILABLE\tLOCKED\tDEFERRED\tSTATE\tLOCKED UNTIL\tHOLDER") // an error comes with Flush
	for i := range all {
		s := &all[i]
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%s\n", sessionText(s.ID), s.Available, s.Locked, s.Deferred, stateText(s), lockText(s), holderText(s))
	}
	return w.Flush()
}

// sessionText is a session's id, quoted where it would not be seen.
func sessionText(id string) string {
	if quoted := strconv.Quote(id); id == "" || len(quoted) != len(id)+2 {
		return quoted
	}
	return id
}

func stateText(s *api.Session) string {
	if s.StateBytes == nil {
		return "-"
	}
	return fmt.Sprintf("%d bytes", *s.StateBytes)
}

func lockText(s *api.Session) string {
	if s.LockedUntil == nil {
		return "-"
	}
	return s.LockedUntil.UTC().Format(api.InstantLayout)
}

func holderText(s *api.Session) string {
	switch h := s.Holder; {
	case h == nil && s.LockedUntil == nil:
		return "-"
	case h == nil:
		return "unknown to this gateway"
	case h.Product == "":
		return fmt.Sprintf("%s at %s", h.Connection, h.Peer)
	default:
		return fmt.Sprintf("%s, %s at %s", h.Connection, h.Product, h.Peer)
	}
}

// aboutSession is a request about one session.
func aboutSession(method, entity, session string, body any) command.Inquiry {
	return command.Inquiry{Method: method, Path: api.SessionsPath, Names: strings.Split(entity, "/"), Scope: entity, Query: url.Values{"session": {session}}, Body: body}
}

func sessionShowCommand(environ []string) *cobra.Command {
	var o command.Flags
	var raw bool
	c := &cobra.Command{
		Use: "show ENTITY ID", Short: "Show a session with its state, without taking its lock", Args: cobra.ExactArgs(2),
		Example: `  crosstown session show orders customer-17
  crosstown session show orders customer-17 --raw > state.bin`,
	}
	o.Bind(c, environ)
	c.Flags().BoolVar(&raw, "raw", false, "print the state alone, as it is")
	c.MarkFlagsMutuallyExclusive("raw", "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		var s api.Session
		if err := o.Ask(c.Context(), aboutSession(http.MethodGet, args[0], args[1], nil), &s); err != nil {
			return err
		}
		switch out := c.OutOrStdout(); {
		case o.JSON:
			return json.NewEncoder(out).Encode(s)
		case raw:
			_, err := out.Write(s.State)
			return err
		default:
			return printSession(out, &s, time.Now())
		}
	}
	return c
}

func printSession(out io.Writer, s *api.Session, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, value string) { _, _ = fmt.Fprintf(w, "%s:\t%s\n", name, value) } // an error comes with Flush
	line("session", sessionText(s.ID))
	line("available", strconv.FormatInt(s.Available, 10))
	line("locked", strconv.FormatInt(s.Locked, 10))
	line("deferred", strconv.FormatInt(s.Deferred, 10))
	if s.LockedUntil != nil {
		line("locked until", fmt.Sprintf("%s, for %v", lockText(s), s.LockedUntil.Sub(now).Round(time.Second)))
		line("holder", holderText(s))
	}
	switch {
	case s.StateBytes == nil:
		line("state", "none")
	case len(s.State) == 0:
		line("state", "empty")
	case utf8.Valid(s.State):
		line("state", fmt.Sprintf("%d bytes\n%s", len(s.State), s.State))
	default:
		line("state", fmt.Sprintf("%d bytes, in base64\n%s", len(s.State), base64.StdEncoding.EncodeToString(s.State)))
	}
	return w.Flush()
}

func sessionSetStateCommand(environ []string) *cobra.Command {
	var o command.Flags
	var file string
	var remove bool
	c := &cobra.Command{
		Use: "set-state ENTITY ID [TEXT]", Short: "Set or clear the state of a session that no receiver holds", Args: cobra.RangeArgs(2, 3),
		Long: `Set or clear the state of a session that no receiver holds.

The gateway takes the session's lock, sets the state and releases the lock. While a
receiver holds the session the command is refused: close its connection first, or have
it release the session ('session show' names it).`,
		Example: `  crosstown session set-state orders customer-17 '{"step": 3}'
  crosstown session set-state orders customer-17 --file state.bin
  crosstown session set-state orders customer-17 --clear`,
	}
	o.Bind(c, environ)
	c.Flags().StringVar(&file, "file", "", "take the state from a `file`; - is the standard input")
	c.Flags().BoolVar(&remove, "clear", false, "remove the state")
	c.RunE = func(c *cobra.Command, args []string) error {
		given := 0
		for _, is := range []bool{len(args) == 3, file != "", remove} {
			if is {
				given++
			}
		}
		if given != 1 {
			return command.Usagef("give the state as TEXT, --file or --clear, one of them")
		}
		request := api.SessionState{Clear: remove}
		switch {
		case len(args) == 3:
			request.State = new([]byte(args[2]))
		case file != "":
			state, err := readState(c.InOrStdin(), file)
			if err != nil {
				return command.Usagef("--file: %w", err)
			}
			request.State = &state
		}
		var s api.Session
		if err := o.Ask(c.Context(), aboutSession(http.MethodPut, args[0], args[1], request), &s); err != nil {
			return err
		}
		if o.JSON {
			return json.NewEncoder(c.OutOrStdout()).Encode(s)
		}
		did := "cleared the state"
		if !remove {
			did = fmt.Sprintf("set the state, %d bytes,", len(*request.State))
		}
		_, err := fmt.Fprintf(c.OutOrStdout(), "%s of session %s of %s\n", did, sessionText(args[1]), args[0])
		return err
	}
	return c
}

func readState(in io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(file)
}
