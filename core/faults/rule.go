// Package faults makes operations of clients fail on demand, to test how applications react. Rules
// select the operations that fail, and how they fail. Each rule is limited in number and time.
// A namespace that was created at run time has its rules in its record, for all gateways. For a
// configured namespace each gateway has its own rules. Each gateway counts for itself how often a
// rule applied. An interceptor between the bridges and the namespace's broker applies the rules, in
// namespaces that allow faults.
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

type Operation string

const (
	Authorize       Operation = "authorize" // a client proves its identity
	OpenSender      Operation = "open-sender"
	Send            Operation = "send" // a message or a batch, also scheduled
	OpenReceiver    Operation = "open-receiver"
	Deliver         Operation = "deliver" // one message is delivered to a receiver
	Settle          Operation = "settle"  // any of Complete, Abandon, Defer and DeadLetter
	Complete        Operation = "complete"
	Abandon         Operation = "abandon"
	Defer           Operation = "defer"
	DeadLetter      Operation = "dead-letter"
	Renew           Operation = "renew"
	AcceptSession   Operation = "accept-session" // by its id, or the next one
	RenewSession    Operation = "renew-session"
	SessionState    Operation = "session-state"
	Peek            Operation = "peek"
	ReceiveDeferred Operation = "receive-deferred"
	Cancel          Operation = "cancel"
	Commit          Operation = "commit" // the commit of a transaction, which has no entity
	Manage          Operation = "manage"
)

type Effect string

const (
	Fail     Effect = "fail"
	Delay    Effect = "delay"    // the operation only waits for Rule.Delay
	Throttle Effect = "throttle" // operations beyond Rule.Rate per second are refused as busy
	Drop     Effect = "drop-connection"
	Detach   Effect = "detach"
	LoseLock Effect = "lose-lock" // the lock of a message or session ends right after the delivery
	Reorder  Effect = "reorder"   // the message comes after the next one, or after Rule.Delay (default a second)
	Cut      Effect = "cut-transfer"
	// DeliverTwice abandons the message, but tells the client that it is completed.
	DeliverTwice Effect = "deliver-twice"
	ExpireToken  Effect = "expire-token" // after Rule.Delay, whatever the token's own expiry
)

// allowed has, by operation, the effects that only some operations can have.
var allowed = map[Operation][]Effect{
	Authorize: {ExpireToken}, OpenSender: nil, Send: {Detach}, OpenReceiver: nil, Deliver: {Detach, LoseLock, Reorder, Cut},
	Settle: nil, Complete: {DeliverTwice}, Abandon: nil, Defer: nil, DeadLetter: nil, Renew: nil,
	AcceptSession: nil, RenewSession: nil, SessionState: nil, Peek: nil, ReceiveDeferred: nil, Cancel: nil, Commit: nil, Manage: nil,
}

const (
	MaxRules    = 100
	MaxTimes    = 1_000_000
	MaxDelay    = 10 * time.Minute
	DefaultLife = time.Hour
	MaxLife     = 24 * time.Hour
)

// The zero Rule refuses the next Send of any client with core.Busy.
type Rule struct {
	Name string `json:"name,omitempty" config:"name"`

	Operation Operation `json:"operation,omitempty" config:"operation"` // default Send
	// Entity is the entity of the operation: orders, topic/Subscriptions/name,
	// orders/$DeadLetterQueue, or the start of such a path with a "*"; "" is any.
	Entity string `json:"entity,omitempty" config:"entity"`
	// Client is a part of the client's description in the log (protocol, address and name of its
	// software), or the name of its policy; "" is any.
	Client string `json:"client,omitempty" config:"client"`
	// Properties are user properties, as text, that the message of a Send or Deliver must have.
	Properties map[string]string `json:"properties,omitempty" config:"properties"`
	// Skip is the number of matching operations that the rule ignores before it affects Times
	// operations (default 1; for a Throttle, MaxTimes).
	Skip  int `json:"skip,omitempty" config:"skip"`
	Times int `json:"times,omitempty" config:"times"`
	// Probability is the chance that the rule affects a matching operation; 0 means 1. Whether it
	// does depends on Seed and on the operation's number among the matching ones.
	Probability float64 `json:"probability,omitempty" config:"probability"`
	Seed        uint64  `json:"seed,omitempty" config:"seed"`

	Effect Effect `json:"effect,omitempty" config:"effect"` // default Fail
	// Code is the client's error with Fail and Detach: core.Busy ("server busy", after which SDKs
	// retry; the default), core.Timeout, core.Internal, core.EntityDisabled and so on.
	Code core.Code `json:"code,omitempty" config:"code"`
	// Condition is an AMQP condition to send instead of the Code's, such as amqp:link:stolen.
	Condition string `json:"condition,omitempty" config:"condition"`
	// After, with Fail, Drop and Detach, lets the operation take effect, and loses only its answer.
	After bool          `json:"after,omitempty" config:"after"`
	Delay time.Duration `json:"delay,omitempty" config:"delay"`
	Rate  float64       `json:"rate,omitempty" config:"rate"` // operations per second that a Throttle allows at each gateway
	// Life is how long the rule exists; default an hour.
	Life time.Duration `json:"life,omitempty" config:"life"`
}

var condition = regexp.MustCompile(`^[a-z][a-z0-9.-]*(:[A-Za-z0-9._-]+)+$`)

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
	if r.Operation == Deliver { // a delivery has no answer, and nobody waits for it
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
		return refuse("'times' is %d and 'skip' is %d: 'times' must be between 1 and %d, and 'skip' must not be negative.", r.Times, r.Skip, MaxTimes)
	case r.Probability < 0 || r.Probability > 1:
		return refuse("The probability %v is not between 0 and 1.", r.Probability)
	case r.Delay < 0 || r.Delay > MaxDelay:
		return refuse("The delay %v is not between 0 and %v.", r.Delay, MaxDelay)
	case r.Effect == Delay && r.Delay == 0:
		return refuse("The effect %s requires a delay.", Delay)
	case (r.Effect == Throttle) != (r.Rate > 0) || r.Rate < 0:
		return refuse("'rate' is %v: it must be greater than 0 for the effect %s, and be left out for other effects.", r.Rate, Throttle)
	case r.Life < 0 || r.Life > MaxLife:
		return refuse("The lifetime %v is not between 0 and %v.", r.Life, MaxLife)
	case len(r.Properties) > 0 && r.Operation != Send && r.Operation != Deliver:
		return refuse("'properties' is only allowed for %s and %s, because %s has no message.", Send, Deliver, r.Operation)
	}
	return nil
}

var aliases = map[core.Code]core.Code{"server_busy": core.Busy, "internal_error": core.Internal, "message_lock_lost": core.LockLost}

// codeOf accepts names of core and of SDKs, with hyphens or underscores.
func codeOf(code core.Code) core.Code {
	code = core.Code(strings.ReplaceAll(string(code), "-", "_"))
	return cmp.Or(aliases[code], code)
}

// Effects returns all effects. The first ones are those that every operation can have.
func Effects() []Effect {
	return []Effect{Fail, Delay, Throttle, Drop, Detach, LoseLock, Reorder, Cut, DeliverTwice, ExpireToken}
}

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

func (r *Rule) refusal() error {
	return &core.Refusal{Code: r.Code, Condition: r.Condition, Text: fmt.Sprintf("Injected by the fault rule '%s' of this namespace (%s).", r.Name, cmp.Or(r.Condition, string(r.Code)))}
}

func (r *Rule) covers(op Operation) bool {
	return r.Operation == op || r.Operation == Settle && (op == Complete || op == Abandon || op == Defer || op == DeadLetter)
}

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
