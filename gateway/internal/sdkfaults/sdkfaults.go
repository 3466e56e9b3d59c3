// Package sdkfaults supports the tests of the table of faults in docs/testing.md: it prepares each
// fault, and compares how an SDK reacts with the SDK's column.
package sdkfaults

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/gateway/crosstowntest"
	"github.com/crosstown-mq/crosstown/gateway/internal/sdkerrors"
)

const updateVariable = "UPDATE_DOCS"

// Step is what an SDK's program does, with the queue "q", while the fault is active.
type Step string

// Programs retry each call up to three times, 100 ms apart.
const (
	send    Step = "send"    // sends "one" with a message id; answers "sent"
	settle  Step = "settle"  // sends "one", receives and completes it; answers "completed", or "no message arrives"
	receive Step = "receive" // sends a batch of "one", "two", "three", receives and completes them; answers "one, two, three"
	renew   Step = "renew"   // sends "one", receives it and renews its lock; answers "renewed"
	session Step = "session" // like settle, in the session "s"; completes the message 1 s after receiving it
	token   Step = "token"   // like send, and sends "two" 2 s later
)

type kase struct {
	name  string
	step  Step
	fault faults.Rule
	queue func(*core.Settings)
	// behind puts the namespace's time an hour behind the machine's.
	behind bool
	// With some SDKs, the message does not arrive, or the call that settles it does not end.
	undelivered, unanswered bool
}

// shortWait is for events that should not happen; longWait exceeds what a busy machine needs.
const (
	shortWait = 3 * time.Second
	longWait  = 30 * time.Second
)

func (c *kase) waits() (receive, settle time.Duration) {
	receive, settle = longWait, longWait
	if c.undelivered {
		receive = shortWait
	}
	if c.unanswered {
		settle = shortWait
	}
	return receive, settle
}

// always exceeds the tries of any SDK.
const always = 1000

var cases = []kase{
	{name: "a send is refused as busy, twice", step: send, fault: faults.Rule{Times: 2}},
	{name: "each send is refused as busy", step: send, fault: faults.Rule{Times: always}},
	{name: "a send times out, once", step: send, fault: faults.Rule{Code: core.Timeout}},
	{name: "a send meets an internal error, once", step: send, fault: faults.Rule{Code: core.Internal}},
	{name: "the queue is full", step: send, fault: faults.Rule{Code: core.QuotaExceeded, Times: always}},
	{name: "the queue is disabled", step: send, fault: faults.Rule{Code: core.EntityDisabled, Times: always}},
	{name: "the attach of a sender is refused as busy, once", step: send, fault: faults.Rule{Operation: faults.OpenSender}},
	{name: "the connection breaks before a message is stored", step: send, fault: faults.Rule{Effect: faults.Drop}},
	{name: "the connection breaks after a message is stored", step: send, fault: faults.Rule{Effect: faults.Drop, After: true}},
	{name: "the connection breaks after a message is stored, with duplicate detection", step: send, fault: faults.Rule{Effect: faults.Drop, After: true}, queue: func(s *core.Settings) { s.RequiresDuplicateDetection = true }},
	{name: "the link is detached after a message is stored", step: send, fault: faults.Rule{Effect: faults.Detach, Code: core.Internal, After: true}},
	{name: "a token is refused once", step: send, fault: faults.Rule{Operation: faults.Authorize, Code: core.Unauthorized}},
	{name: "a token expires early", step: token, fault: faults.Rule{Operation: faults.Authorize, Effect: faults.ExpireToken, Delay: time.Second}},
	{name: "the lock is lost at the delivery", step: settle, fault: faults.Rule{Operation: faults.Deliver, Effect: faults.LoseLock}},
	{name: "a completion is refused as busy, once", step: settle, fault: faults.Rule{Operation: faults.Complete}},
	{name: "the connection breaks after the completion", step: settle, fault: faults.Rule{Operation: faults.Complete, Effect: faults.Drop, After: true}, unanswered: true},
	{name: "a completed message is delivered again", step: settle, fault: faults.Rule{Operation: faults.Complete, Effect: faults.DeliverTwice}},
	{name: "the connection breaks at the delivery", step: settle, fault: faults.Rule{Operation: faults.Deliver, Effect: faults.Drop}, undelivered: true},
	{name: "only half of the message arrives", step: settle, fault: faults.Rule{Operation: faults.Deliver, Effect: faults.Cut}, undelivered: true},
	{name: "the link is detached at the delivery", step: settle, fault: faults.Rule{Operation: faults.Deliver, Effect: faults.Detach, Condition: "amqp:link:detach-forced"}, undelivered: true},
	{name: "two messages are delivered in the reverse order", step: receive, fault: faults.Rule{Operation: faults.Deliver, Effect: faults.Reorder, Delay: 10 * time.Second}},
	{name: "a renewal finds the lock lost", step: renew, fault: faults.Rule{Operation: faults.Renew, Code: core.LockLost}},
	{name: "a session is refused as busy, once", step: session, fault: faults.Rule{Operation: faults.AcceptSession}, queue: withSessions},
	{name: "the session is lost at the delivery", step: session, fault: faults.Rule{Operation: faults.Deliver, Effect: faults.LoseLock}, queue: withSessions, unanswered: true},
	{name: "no fault, but the namespace's time is an hour behind", step: settle, behind: true},
}

func withSessions(s *core.Settings) { s.RequiresSession = true }

type Case struct {
	Name       string `json:"name"`
	Step       Step   `json:"step"`
	Connection string `json:"connection"`
	ReceiveMS  int64  `json:"receiveMS"` // to wait for a message
	SettleMS   int64  `json:"settleMS"`  // to wait for its settlement
}

// Want passes all cases to program in JSON, and compares the reports with the column of its SDK.
func Want(t *testing.T, sdk string, program func(told string) map[string]string) {
	t.Helper()
	bus := crosstowntest.Start(t)
	buses := make([]*crosstowntest.Bus, len(cases))
	told := make([]Case, len(cases))
	for i, c := range cases {
		if c.queue == nil {
			c.queue = func(*core.Settings) {}
		}
		b := bus.Namespace(t, crosstowntest.Queue("q", c.queue))
		if c.behind {
			b.SetTime(time.Now().Add(-time.Hour))
		} else {
			b.Inject(c.fault)
		}
		receive, settle := c.waits()
		buses[i], told[i] = b, Case{c.name, c.step, b.ConnectionString, receive.Milliseconds(), settle.Milliseconds()}
	}
	text, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	report := program(string(text))
	column := make([]string, len(cases))
	for i, c := range cases {
		if column[i] = report[c.name]; column[i] == "" {
			t.Errorf("%s: the program reported nothing", c.name)
		}
		switch left := len(buses[i].Bodies("q")); {
		case c.step == send && left > 1:
			column[i] += fmt.Sprintf("; stored %d times", left)
		case column[i] == "sent" && left == 0:
			t.Errorf("%s: the program's send succeeded, but the message is not stored", c.name)
		case c.step != send && c.step != token && c.step != renew && left > 0:
			column[i] += "; the message stays"
		}
		if !c.behind && c.fault.Times < always && !slices.ContainsFunc([]string{"rror", "Exception"}, func(s string) bool { return strings.Contains(column[i], s) }) {
			buses[i].ExpectFaultsMet()
		}
	}
	compare(t, sdk, column)
}

func Read(t *testing.T, file string) (report map[string]string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &report)
	}
	if err != nil {
		t.Fatal(err)
	}
	return report
}

var turn sync.Mutex // guards the page

const begin = "| what happens | Go |"

func compare(t *testing.T, sdk string, column []string) {
	t.Helper()
	turn.Lock()
	defer turn.Unlock()
	page := sdkerrors.Page(t, "testing.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, table, _ := strings.Cut(string(text), begin)
	table, after, ok := strings.Cut(table, "\n\n")
	if !ok {
		t.Fatalf("%s has no table that begins with %s", page, begin)
	}
	lines := strings.Split(begin+table, "\n")
	at := slices.Index(cells(lines[0]), sdk)
	if at < 0 {
		t.Fatalf("%s: the table has no column %s", page, sdk)
	}
	rows := map[string][]string{}
	for _, line := range lines[2:] {
		row := cells(line)
		rows[row[0]] = row
	}
	lines = lines[:2]
	for i, c := range cases {
		row := rows[c.name]
		if row == nil {
			row = make([]string, len(cells(lines[0])))
			row[0] = c.name
		}
		if row[at] != column[i] {
			if os.Getenv(updateVariable) == "" {
				t.Errorf("%s: %s: %s\n  got  %s\n  want %s\nset the variable %s to write the new text", page, sdk, c.name, column[i], row[at], updateVariable)
			}
			row[at] = column[i]
		}
		lines = append(lines, "| "+strings.Join(row, " | ")+" |")
	}
	if os.Getenv(updateVariable) != "" {
		if err := os.WriteFile(page, []byte(before+strings.Join(lines, "\n")+"\n\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func cells(line string) []string {
	all := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}
