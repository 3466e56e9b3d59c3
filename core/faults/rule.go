// Package faults makes operations of clients fail on demand, to test how applications react. Rules
// select the operations that fail, and how they fail. Each rule is limited in number and time. The
// rules of a namespace that was created at run time are in its record, for all gateways. For a
// configured namespace each gateway has its own rules. Each gateway has its own counts for all
// rules. An interceptor between the bridges and the namespace's broker applies the rules. A
// namespace that does not allow faults has none.
package faults

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Operation is an operation of a client.
type Operation string

// The operations that a Rule can select.
const (
	Authorize       Operation = "authorize"   // to prove an identity
	OpenSender      Operation = "open-sender" // to attach a link for sending
	Send            Operation = "send"        // a message or a batch, scheduled or not
	OpenReceiver    Operation = "open-receiver"
	Deliver         Operation = "deliver" // a message goes to a receiver
	Settle          Operation = "settle"  // any of the four that follow
	Complete        Operation = "complete"
	Abandon         Operation = "abandon"
	Defer           Operation = "defer"
	DeadLetter      Operation = "dead-letter"
	Renew           Operation = "renew"          // the lock of a message
	AcceptSession   Operation = "accept-session" // a certain one, or the next
	RenewSession    Operation = "renew-session"
	SessionState    Operation = "session-state" // to read or set it
	Peek            Operation = "peek"
	ReceiveDeferred Operation = "receive-deferred"
	Cancel          Operation = "cancel" // of scheduled messages
	Commit          Operation = "commit" // of a transaction; any entity
	Manage          Operation = "manage" // to create, change or delete an entity or a rule
)

// Effect is what happens to an operation.
type Effect string

// The effects.
const (
	Fail         Effect = "fail"            // the client gets Rule.Code
	Delay        Effect = "delay"           // the operation only waits for Rule.Delay
	Throttle     Effect = "throttle"        // operations beyond Rule.Rate a second are refused as busy
	Drop         Effect = "drop-connection" // without an error
	Detach       Effect = "detach"          // the link, with Rule.Code
	LoseLock     Effect = "lose-lock"       // the lock is lost right after the delivery; so is the lock of a session
	Reorder      Effect = "reorder"         // the message comes after the next one; at the latest after Rule.Delay, default a second
	Cut          Effect = "cut-transfer"    // half of the message is sent; then the connection breaks
	DeliverTwice Effect = "deliver-twice"   // the answer says that the message is completed, but it is abandoned
	ExpireToken  Effect = "expire-token"    // the token ends after Rule.Delay, whatever it says
)

// allowed are the effects that an operation has in addition to those that every operation has.
var allowed = map[Operation][]Effect{
	Authorize: {ExpireToken}, OpenSender: nil, Send: {Detach}, OpenReceiver: nil, Deliver: {Detach, LoseLock, Reorder, Cut},
	Settle: nil, Complete: {DeliverTwice}, Abandon: nil, Defer: nil, DeadLetter: nil, Renew: nil,
	AcceptSession: nil, RenewSession: nil, SessionState: nil, Peek: nil, ReceiveDeferred: nil, Cancel: nil, Commit: nil, Manage: nil,
}

// The bounds of rules.
const (
	MaxRules    = 100
	MaxTimes    = 1_000_000
	MaxDelay    = 10 * time.Minute
	DefaultLife = time.Hour
	MaxLife     = 24 * time.Hour
)

// Rule makes operations fail. The zero Rule refuses the next Send of any client as busy.
type Rule struct {
	// Name identifies the rule; default "fault-N".
	Name string `json:"name,omitempty" config:"name"`

	Operation Operation `json:"operation,omitempty" config:"operation"` // default Send
	// Entity is the entity of the operation: orders, topic/Subscriptions/name,
	// orders/$DeadLetterQueue, or the beginning of such a path and a "*"; "": any.
	Entity string `json:"entity,omitempty" config:"entity"`
	// Client is a part of the client's description (protocol, address and name of its software, as
	// in the log), or the name of its policy; "": any.
	Client string `json:"client,omitempty" config:"client"`
	// Properties are application properties that the message must have, with their values as text;
	// for Send and Deliver.
	Properties map[string]string `json:"properties,omitempty" config:"properties"`
	// Skip is the number of matching operations that succeed first. The rule then affects Times of
	// them, default 1. A Throttle affects all.
	Skip  int `json:"skip,omitempty" config:"skip"`
	Times int `json:"times,omitempty" config:"times"`
	// Probability is the probability that the rule affects a matching operation; 0 means 1. The
	// result depends only on Seed and the operation's number among the matching ones.
	Probability float64 `json:"probability,omitempty" config:"probability"`
	Seed        uint64  `json:"seed,omitempty" config:"seed"`

	Effect Effect `json:"effect,omitempty" config:"effect"` // default Fail
	// Code is the error for the client with Fail and Detach: core.Busy ("server busy", which SDKs
	// retry), core.Timeout, core.Internal, core.EntityDisabled and so on. Default core.Busy.
	Code core.Code `json:"code,omitempty" config:"code"`
	// Condition is the AMQP condition to send instead of the Code's condition, such as
	// amqp:link:stolen.
	Condition string `json:"condition,omitempty" config:"condition"`
	// After means that the operation takes effect although its answer is lost. It is for Fail, Drop
	// and Detach.
	After bool          `json:"after,omitempty" config:"after"`
	Delay time.Duration `json:"delay,omitempty" config:"delay"` // before the effect
	Rate  float64       `json:"rate,omitempty" config:"rate"`   // of a Throttle, operations a second at each gateway
	// Life is how long the rule lasts, default an hour.
	Life time.Duration `json:"life,omitempty" config:"life"`
}

// condition is an error condition of AMQP: a symbol of at most 100 characters.
var condition = regexp.MustCompile(`^[a-z][a-z0-9.-]*(:[A-Za-z0-9._-]+)+$`)

// check completes a rule with defaults, and returns what is wrong with it.
func (r *Rule) check() error {
	r.Operation = cmp.Or(r.Operation, Send)
	r.Effect = cmp.Or(r.Effect, Fail)
	r.Code = cmp.Or(codeOf(r.Code), core.Busy)
	if r.Times == 0 && r.Effect == Throttle {
		r.Times = MaxTimes
	}
	r.Times = cmp.Or(r.Times, 1)
	if r.Effect == Reorder && r.Delay == 0 {
		r.Delay = time.Second
	}
	r.Life = cmp.Or(r.Life, DefaultLife)
	own, known := allowed[r.Operation]
	effects := append([]Effect{Fail, Delay, Throttle, Drop}, own...)
	if r.Operation == Deliver { // a delivery has no answer, and waits for nothing
		effects = append([]Effect{Drop}, own...)
	}
	switch {
	case !known:
		return refuse("The operation %q is unknown: use %s.", r.Operation, join(Operations()))
	case !slices.Contains(effects, r.Effect):
		return refuse("The effect %q is not possible for the operation %s: use %s.", r.Effect, r.Operation, join(effects))
	case !slices.Contains(core.Codes(), r.Code):
		return refuse("The code %q is unknown: use %s.", r.Code, join(core.Codes()))
	case r.Condition != "" && !condition.MatchString(r.Condition):
		return refuse("The condition %.80q is not an AMQP condition: write it like amqp:link:stolen or com.microsoft:server-busy.", r.Condition)
	case r.After && (r.Effect != Fail && r.Effect != Drop && r.Effect != Detach):
		return refuse("'after' is only allowed for %s, %s and %s: the operation takes effect, and then its response is lost.", Fail, Drop, Detach)
	case r.Skip < 0 || r.Times < 1 || r.Times > MaxTimes:
		return refuse("'times' must be between 1 and %d, and 'skip' must not be negative.", MaxTimes)
	case r.Probability < 0 || r.Probability > 1:
		return refuse("The probability %v is not between 0 and 1.", r.Probability)
	case r.Delay < 0 || r.Delay > MaxDelay:
		return refuse("The delay %v is not between 0 and %v.", r.Delay, MaxDelay)
	case r.Effect == Delay && r.Delay == 0:
		return refuse("The effect %s requires a delay.", Delay)
	case (r.Effect == Throttle) != (r.Rate > 0) || r.Rate < 0:
		return refuse("'rate' must be greater than 0, and is only allowed for the effect %s.", Throttle)
	case r.Life < 0 || r.Life > MaxLife:
		return refuse("The lifetime %v is not between 0 and %v.", r.Life, MaxLife)
	case len(r.Properties) > 0 && r.Operation != Send && r.Operation != Deliver:
		return refuse("'properties' is only allowed for %s and %s, because %s has no message.", Send, Deliver, r.Operation)
	}
	return nil
}

// aliases are names of codes that users of SDKs know.
var aliases = map[core.Code]core.Code{"server_busy": core.Busy, "internal_error": core.Internal, "message_lock_lost": core.LockLost}

// codeOf reads a code in the spelling of core, or in one that users of SDKs know, with hyphens or
// underscores.
func codeOf(code core.Code) core.Code {
	code = core.Code(strings.ReplaceAll(string(code), "-", "_"))
	return cmp.Or(aliases[code], code)
}

// Effects returns all effects. Those that every operation can have come first.
func Effects() []Effect {
	return []Effect{Fail, Delay, Throttle, Drop, Detach, LoseLock, Reorder, Cut, DeliverTwice, ExpireToken}
}

// Operations returns all operations, by name.
func Operations() []Operation { return slices.Sorted(maps.Keys(allowed)) }

func refuse(format string, args ...any) error {
	return core.Refuse(core.InvalidArgument, format, args...)
}

func join[T ~string](all []T) string {
	var words []string
	for _, s := range all {
		words = append(words, string(s))
	}
	return strings.Join(words, ", ")
}

// refusal returns the client's error.
func (r *Rule) refusal() error {
	return &core.Refusal{Code: r.Code, Condition: r.Condition, Text: fmt.Sprintf("Injected by the fault rule '%s' of this namespace (%s).", r.Name, cmp.Or(r.Condition, string(r.Code)))}
}

// covers reports whether a rule is about an operation.
func (r *Rule) covers(op Operation) bool {
	return r.Operation == op || r.Operation == Settle && (op == Complete || op == Abandon || op == Defer || op == DeadLetter)
}

// names reports whether a rule is about what an address names.
func (r *Rule) names(a core.Address) bool {
	if r.Entity == "" {
		return true
	}
	wanted, address := core.FoldName(r.Entity), core.FoldName(a.String())
	if begin, ok := strings.CutSuffix(wanted, "*"); ok {
		return strings.HasPrefix(address, begin)
	}
	return wanted == address
}

// has reports whether a message has the rule's properties.
func (r *Rule) has(m *core.Message) bool {
	for name, want := range r.Properties {
		if m == nil {
			return false
		}
		if v, ok := m.Properties.Get(name); !ok || fmt.Sprint(v) != want {
			return false
		}
	}
	return true
}
