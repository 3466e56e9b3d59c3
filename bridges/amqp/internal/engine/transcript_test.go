package engine

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp/internal/wire"
	"github.com/crosstown-mq/crosstown/core/value"
)

var update = flag.Bool("update", false, "write what the engine says into the transcripts")

// TestTranscripts plays the files in testdata. In each line, the first character says what it is:
//
//	#  a comment
//	=  a new connection
//	>  bytes of the peer: "AMQP n", "hex …", or a performative with its channel in front
//	!  what the handler does, see script.do
//	+  the same as > or !, but the engine's word is awaited only after the next line
//	<  what the engine then sends
//	*  what the engine then tells the handler
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			compare(t, got, string(want))
		})
	}
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		g, w = append(g, ""), append(w, "")
		if g[i] != w[i] {
			t.Fatalf("line %d:\n got %s\nwant %s", i+1, g[i], w[i])
		}
	}
}

// play carries out the commands of a transcript and returns it with what came of them.
func play(t *testing.T, transcript string) string {
	t.Helper()
	s := newScript(t)
	var out []string
	for line := range strings.Lines(transcript) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "<"), strings.HasPrefix(line, "*"):
			continue
		case strings.HasPrefix(line, "="):
			s = newScript(t)
		case strings.HasPrefix(line, "> "):
			s.feed(line[2:])
		case strings.HasPrefix(line, "! "):
			s.do(strings.Fields(line[2:]))
		case strings.HasPrefix(line, "+ "):
			if args := strings.Fields(line[2:]); s.commands(args[0]) {
				s.do(args)
			} else {
				s.feed(line[2:])
			}
			out = append(out, line)
			continue
		}
		out = append(out, line)
		out = append(out, s.take()...)
	}
	return strings.Join(out, "\n") + "\n"
}

// script is a handler that does what a transcript says.
type script struct {
	t      *testing.T
	conn   *Conn
	links  map[string]*Link
	events []string
	now    time.Time
	dec    wire.Decoder
	raw    []byte // bytes of the peer that were not taken
	memory int64  // bytes for incomplete messages
}

func newScript(t *testing.T) *script {
	s := &script{t: t, links: map[string]*Link{}, now: time.Unix(0, 0), memory: 4096}
	o := testOptions()
	o.MaxFrameSize, o.IncomingWindow = 1024, 8
	o.MaxSessions, o.MaxHandles, o.MaxLinks = 4, 4, 3
	s.conn = New(o, s, s.now)
	return s
}

func (s *script) event(format string, args ...any) {
	s.events = append(s.events, "* "+fmt.Sprintf(format, args...))
}

func (s *script) Authenticate(init *wire.SASLInit) {
	s.event("authenticate %s %q", init.Mechanism, init.InitialResponse)
}
func (s *script) Opened(o *wire.Open) { s.event("opened by %s", o.ContainerID) }
func (s *script) Attached(l *Link) {
	s.links[l.Attach().Name] = l
	s.event("attached %s", l.Attach().Name)
}

func (s *script) Received(l *Link, m Message) {
	s.event("received on %s: id=%d format=%d settled=%v bytes=%d", l.Attach().Name, m.ID, m.Format, m.Settled, len(m.Payload))
}

func (s *script) Missed(wire.TransactionalState) {}

func (s *script) Lapsed(*Link) *wire.Error { return fault(wire.CondMessageLockLost, "") }

func (s *script) Reserve(l *Link, n int64, begun bool) Verdict {
	switch {
	case s.conn.Reserved()+n <= s.memory:
		return Granted
	case begun || n > 4096:
		return Never
	}
	s.event("no room on %s: bytes=%d", l.Attach().Name, n)
	return Later
}

func (s *script) Crowded(l *Link, n int64) *wire.Error {
	s.event("crowded on %s: bytes=%d", l.Attach().Name, n)
	return fault(wire.CondServerBusy, "busy")
}

func (s *script) Faulted(err *wire.Error) *wire.Error { return err }

func (s *script) TooSlow(l *Link, size int64) *wire.Error {
	s.event("too slow on %s: bytes=%d", l.Attach().Name, size)
	return fault(wire.CondTimeout, "too slow")
}

func (s *script) TooLarge(l *Link, size int64) *wire.Error {
	s.event("too large on %s: bytes=%d", l.Attach().Name, size)
	return fault(wire.CondMessageSizeExceeded, "too large")
}

func (s *script) Refused(l *Link, head []byte, why *wire.Error) {
	s.event("refused on %s: bytes=%d %s", l.Attach().Name, len(head), why.Condition)
}

func (s *script) Disposed(l *Link, d Disposal) {
	s.event("disposed on %s: id=%d tag=%d state=%T settled=%v", l.Attach().Name, d.ID, d.Tag[15], d.State, d.Settled)
}

func (s *script) Flowed(l *Link) {
	s.event("flowed on %s: credit=%d draining=%v", l.Attach().Name, l.Credit(), l.Draining())
}

// Detached holds the answer back for links with names such as "slow".
func (s *script) Detached(l *Link) {
	s.event("detached %s", l.Attach().Name)
	if strings.HasPrefix(l.Attach().Name, "slow") {
		l.AnswerLater()
	}
}

// feed gives bytes to the engine.
func (s *script) feed(text string) {
	s.t.Helper()
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "AMQP":
		s.raw = wire.AppendProtocolHeader(s.raw, wire.Protocol(s.number(rest)))
	case "hex":
		b, err := hex.DecodeString(strings.ReplaceAll(rest, " ", ""))
		if err != nil {
			s.t.Fatal(err)
		}
		s.raw = append(s.raw, b...)
	default:
		p, payload := parsePerformative(s.t, rest)
		var err error
		if s.raw, err = wire.AppendFrame(s.raw, uint16(s.number(word)), p, payload); err != nil {
			s.t.Fatal(err)
		}
	}
	s.raw = s.raw[s.conn.Receive(s.raw, s.now):]
}

func (s *script) number(text string) int {
	s.t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// commands reports whether word is a command of the handler that lines in a row may have.
func (s *script) commands(word string) bool { return word == "settle" || word == "answer" }

// do carries out a command of the handler.
func (s *script) do(args []string) {
	s.t.Helper()
	arg := func(i int) int { return s.number(args[i]) }
	why := func(i int) *wire.Error { return fault(value.Symbol(args[i]), "why") }
	var l *Link
	if len(args) > 1 {
		l = s.links[args[1]]
	}
	switch args[0] {
	case "authenticated": // code
		s.conn.Authenticated(wire.SASLCode(arg(1)))
		s.raw = s.raw[s.conn.Receive(s.raw, s.now):]
	case "accept": // link size credit
		s.event("accepted: %v", l.Accept(Terms{MaxMessageSize: uint64(arg(2)), Properties: value.Map{}, Credit: uint32(arg(3))}))
	case "refuse": // link condition
		l.Refuse(why(2))
	case "send": // link tag bytes settled
		if !l.Ready() {
			s.event("not ready")
			return
		}
		l.Send(Tag{15: byte(arg(2))}, args[4] == "true", s.now.Add(time.Minute), Payload{Copied: make([]byte, arg(3))})
	case "room": // bytes
		s.memory = int64(arg(1))
		s.raw = s.raw[s.conn.Receive(s.raw, s.now):]
	case "settle": // link id state: what the peer sent
		l.Settle(uint32(arg(2)), states[args[3]])
	case "flood": // link bytes: the peer sends that much of one message
		for n := arg(2); n > 0; n -= 900 {
			s.feed(fmt.Sprintf("0 transfer handle=%d delivery-id=0 delivery-tag=01 more=true payload=900", l.Attach().Handle))
			s.conn.Flush()
			s.conn.Take(nil, nil, s.now)
		}
	case "replenish": // link n
		l.Replenish(arg(2))
	case "answer": // link id state: what we sent
		l.Session().Settle(uint32(arg(2)), states[args[3]])
	case "drained": // link
		l.Drained()
	case "detach": // link condition
		l.Detach(why(2))
	case "farewell": // link
		l.Answer()
	case "close": // condition
		s.conn.Close(why(1))
	case "lapse": // duration tag: time passes, but not for the delivery of that tag
		d, err := time.ParseDuration(args[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
		n, next := s.conn.Lapse(s.now, func(tag Tag, until time.Time) time.Time {
			if int(tag[15]) == arg(2) {
				return until.Add(time.Hour)
			}
			return until
		})
		s.event("lapsed: %d, next: %v, unsettled: %d", n, !next.IsZero(), s.conn.Unsettled())
	case "tick": // duration
		d, err := time.ParseDuration(args[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
		next := s.conn.Tick(s.now)
		if next.IsZero() {
			s.event("next tick: never")
		} else {
			s.event("next tick: in %v", next.Sub(s.now))
		}
	default:
		s.t.Fatalf("unknown command %q", args[0])
	}
}

// take returns events and frames since the last call.
func (s *script) take() []string {
	s.t.Helper()
	s.conn.Flush()
	out := s.events
	s.events = nil
	slices.Sort(out) // the order in which links are abandoned is open
	_, b := s.conn.Take(nil, nil, s.now)
	for len(b) > 0 {
		if p, err := wire.ParseProtocolHeader(b); err == nil {
			out = append(out, fmt.Sprintf("< AMQP %d", p))
			b = b[wire.ProtocolHeaderSize:]
			continue
		}
		f, n, err := wire.CutFrame(b, 1<<20)
		if err != nil || n == 0 {
			s.t.Fatalf("the engine says nonsense: %x: %v", b, err)
		}
		b = b[n:]
		if len(f.Body) == 0 {
			out = append(out, "< heartbeat")
			continue
		}
		p, payload, err := s.dec.Decode(f.Body)
		if err != nil {
			s.t.Fatal(err)
		}
		line := fmt.Sprintf("< %d %s", f.Channel, formatPerformative(p))
		if len(payload) > 0 {
			line += fmt.Sprintf(" payload=%d", len(payload))
		}
		out = append(out, line)
	}
	if s.conn.Done() && len(out) > 0 {
		out = append(out, "* done")
	}
	return out
}
