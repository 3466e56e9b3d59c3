package operate

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
)

func Session(environ []string) *cobra.Command {
	c := command.Group(&cobra.Command{
		Use: "session", Short: "List, show and change the sessions of a queue or subscription",
		Long: `List, show and change the sessions of a queue or subscription.

The commands need Listen on the entity, and session unlock needs Manage. With Manage on the
entity, list and show also print the client that holds a session, if the client is connected
to this gateway.`,
	})
	c.AddCommand(sessionListCommand(environ), sessionShowCommand(environ), sessionSetStateCommand(environ), sessionUnlockCommand(environ))
	return c
}

func sessionListCommand(environ []string) *cobra.Command {
	var skip, top int
	c := &cobra.Command{
		Use: "list ENTITY", Short: "List sessions with their messages, lock and holder", Args: cobra.ExactArgs(1),
		Long: `List the sessions of a queue or subscription that have messages or state, by id.

AVAILABLE counts the messages that the holder of the session could receive now. LOCKED counts
locked messages. DEFERRED counts deferred messages that are not locked. Scheduled messages do
not count yet.`,
		Example: `  crosstown session list orders
  crosstown session list orders --top 1000 --json | jq -r 'select(.lockedUntil) | .session'`,
	}
	c.Flags().IntVar(&skip, "skip", 0, "leave out the first `N` sessions")
	c.Flags().IntVar(&top, "top", 100, "list at most `N` sessions, 1 to 1000")
	return command.Asking(c, environ, func(args []string) (q command.Inquiry, err error) {
		if skip < 0 {
			return q, command.Usagef("--skip is %d: it must not be negative", skip)
		}
		if top < 1 || top > 1000 {
			return q, command.Usagef("--top is %d: it must be between 1 and 1000", top)
		}
		q = command.AboutEntity(http.MethodGet, api.SessionsPath, args[0])
		q.Query = url.Values{"skip": {strconv.Itoa(skip)}, "top": {strconv.Itoa(top)}}
		return q, nil
	}, func(w io.Writer, _ []string, list *api.SessionList) error {
		if err := printSessions(w, list.Sessions); err != nil || len(list.Sessions) < top {
			return err
		}
		return command.Line(c.ErrOrStderr(), "there may be more sessions: list them with --skip %d", skip+top)
	})
}

func printSessions(out io.Writer, all []api.Session) error {
	if len(all) == 0 {
		return command.Line(out, "no sessions have messages or state")
	}
	w := command.NewTable(out, "SESSION", "AVAILABLE", "LOCKED", "DEFERRED", "STATE", "LOCKED UNTIL", "HOLDER")
	for i := range all {
		s := &all[i]
		w.Row(sessionText(s.ID), s.Available, lockedCount(s), s.Deferred, stateText(s), lockText(s), holderText(s))
	}
	return w.Flush()
}

func lockedCount(s *api.Session) string {
	if s.Delayed > 0 {
		return fmt.Sprintf("%d, paused", s.Locked)
	}
	return strconv.FormatInt(s.Locked, 10)
}

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
	if s.LockedUntil.IsZero() {
		return "-"
	}
	return s.LockedUntil.UTC().Format(api.InstantLayout)
}

func holderText(s *api.Session) string {
	switch h := s.Holder; {
	case h == nil && s.LockedUntil.IsZero():
		return "-"
	case h == nil:
		return "unknown to this gateway"
	case h.Product == "":
		return fmt.Sprintf("%s at %s", h.Connection, h.Peer)
	default:
		return fmt.Sprintf("%s, %s at %s", h.Connection, h.Product, h.Peer)
	}
}

func aboutSession(method, entity, session string, body any) command.Inquiry {
	q := command.AboutEntity(method, api.SessionsPath, entity)
	q.Query, q.Body = url.Values{"session": {session}}, body
	return q
}

func sessionShowCommand(environ []string) *cobra.Command {
	var raw bool
	c := &cobra.Command{
		Use: "show ENTITY ID", Short: "Show a session with its state, without taking its lock", Args: cobra.ExactArgs(2),
		Example: `  crosstown session show orders customer-17
  crosstown session show orders customer-17 --raw > state.bin`,
	}
	c.Flags().BoolVar(&raw, "raw", false, "print only the state, byte for byte")
	command.Asking(c, environ, func(args []string) (command.Inquiry, error) {
		return aboutSession(http.MethodGet, args[0], args[1], nil), nil
	}, func(w io.Writer, _ []string, s *api.Session) error {
		if raw {
			_, err := w.Write(s.State)
			return err
		}
		return printSession(w, s, time.Now())
	})
	c.MarkFlagsMutuallyExclusive("raw", "json")
	return c
}

func printSession(out io.Writer, s *api.Session, now time.Time) error {
	w := command.NewTable(out)
	w.Row("session:", sessionText(s.ID))
	w.Row("available:", s.Available)
	w.Row("locked:", lockedCount(s))
	w.Row("deferred:", s.Deferred)
	if !s.LockedUntil.IsZero() {
		w.Row("locked until:", fmt.Sprintf("%s, for %v", lockText(s), s.LockedUntil.Sub(now).Round(time.Second)))
		w.Row("holder:", holderText(s))
	}
	switch {
	case s.StateBytes == nil:
		w.Row("state:", "none")
	case len(s.State) == 0:
		w.Row("state:", "empty")
	case utf8.Valid(s.State):
		w.Row("state:", fmt.Sprintf("%d bytes\n%s", len(s.State), s.State))
	default:
		w.Row("state:", fmt.Sprintf("%d bytes, in base64\n%s", len(s.State), base64.StdEncoding.EncodeToString(s.State)))
	}
	return w.Flush()
}

func sessionSetStateCommand(environ []string) *cobra.Command {
	var file string
	var request api.SessionState
	c := &cobra.Command{
		Use: "set-state ENTITY ID [TEXT]", Short: "Set or clear the state of a session that no receiver holds", Args: cobra.RangeArgs(2, 3),
		Long: `Set or clear the state of a session that no receiver holds.

The gateway takes the session's lock, sets the state and releases the lock. While a
receiver holds the session, the gateway refuses the command: close the receiver's connection
first, or make the receiver release the session ('session show' prints the receiver).`,
		Example: `  crosstown session set-state orders customer-17 '{"step": 3}'
  crosstown session set-state orders customer-17 --file state.bin
  crosstown session set-state orders customer-17 --clear`,
	}
	c.Flags().StringVar(&file, "file", "", "read the state from a `file`; - is standard input")
	c.Flags().BoolVar(&request.Clear, "clear", false, "remove the state")
	return command.Asking(c, environ, func(args []string) (q command.Inquiry, err error) {
		text, named := len(args) == 3, file != ""
		if text && named || (text || named) == request.Clear {
			return q, command.Usagef("set the state with exactly one of TEXT, --file and --clear")
		}
		switch {
		case text:
			request.State = new([]byte(args[2]))
		case named:
			in, err := command.OpenInput(c, file)
			if err != nil {
				return q, command.Usagef("--file: %w", err)
			}
			defer func() { _ = in.Close() }() // ignore the error: in was only read
			state, err := io.ReadAll(in)
			if err != nil {
				return q, command.Usagef("--file: %w", err)
			}
			request.State = &state
		}
		return aboutSession(http.MethodPut, args[0], args[1], request), nil
	}, func(w io.Writer, args []string, _ *api.Session) error {
		did := "cleared the state"
		if !request.Clear {
			did = fmt.Sprintf("set the state, %d bytes,", len(*request.State))
		}
		return command.Line(w, "%s of session %s of %s", did, sessionText(args[1]), args[0])
	})
}

func sessionUnlockCommand(environ []string) *cobra.Command {
	c := &cobra.Command{
		Use: "unlock ENTITY ID", Short: "End the lock of a session whose receiver is stuck", Args: cobra.ExactArgs(2),
		Long: `End the lock of a session whose receiver is stuck, and the locks of the session's messages. The
delivery counts stay unchanged. The receiver can no longer settle the messages. The command
needs Manage on the entity.`,
		Example: `  crosstown session unlock orders customer-17`,
	}
	return command.Asking(c, environ, func(args []string) (command.Inquiry, error) {
		return aboutSession(http.MethodPut, args[0], args[1], api.SessionState{Unlock: true}), nil
	}, func(w io.Writer, args []string, _ *api.Session) error {
		return command.Line(w, "unlocked session %s of %s", sessionText(args[1]), args[0])
	})
}
