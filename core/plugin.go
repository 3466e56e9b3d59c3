package core

import "context"

// Router decides what becomes of messages on their way into an entity. It may
// live in another process: a call can fail, and then nothing is known of any of
// its messages. A router that cannot answer now refuses with Busy, one that did
// not answer in time with Timeout; both may be asked again.
type Router interface {
	// Route judges messages at one stage: one verdict per message, in their order.
	// The messages are only read, and no longer once it has returned.
	Route(ctx context.Context, at Stage, ms []*Message) ([]Verdict, error)
	// Deterministic reports whether a message that is judged again, by its
	// MessageID, gets the same verdict. Where it is false a verdict must be kept
	// rather than asked for once more.
	Deterministic() bool
}

// StageKind says what a router's verdicts are used for.
type StageKind uint8

// The stages.
const (
	// StageIngress is an entity's own: every message that is sent to it passes here first.
	StageIngress StageKind = iota
	// StageFilter is plugin(…) in the rules of a topic's subscriptions: Pass is
	// true, Drop false, and DeadLetter an error in the rule. The rest of the
	// verdict is not looked at. Rules that ask the same are answered together.
	StageFilter
	// StageTo interprets the To of messages sent to an entity that enables it.
	StageTo
)

func (k StageKind) String() string { return [...]string{"ingress", "filter", "to"}[k] }

// Stage is where in the pipeline a router is asked.
type Stage struct {
	Kind StageKind
	// Entity is the queue or topic that was sent to.
	Entity string
	// Parameters are those given where the stage was configured.
	Parameters Properties
}

// VerdictAction says what becomes of the message itself.
type VerdictAction uint8

// The actions. A router that fails to judge one message says so by dead-lettering it.
const (
	VerdictPass       VerdictAction = iota // it goes on
	VerdictDrop                            // it is accepted and forgotten
	VerdictDeadLetter                      // it goes to the entity's dead-letter queue
)

func (a VerdictAction) String() string { return [...]string{"pass", "drop", "dead-letter"}[a] }

// Verdict is a router's answer for one message. The zero Verdict lets it pass
// as it is.
type Verdict struct {
	Action VerdictAction
	// Reason says why a message was dropped or dead-lettered: the value of
	// PropertyDeadLetterReason then.
	Reason string
	// Description says more: the value of PropertyDeadLetterDescription.
	Description string
	// Set are user properties to set, and Remove the names of those to remove
	// before that. They concern every message that comes of this one.
	Set    Properties
	Remove []string
	// Routes are the addresses of entities that the message goes to, instead of
	// the one it was sent to or, if Beside is true, beside it. They count only
	// where Action is VerdictPass.
	Routes []string
	Beside bool
}

// Revise returns p as the verdict has it.
func (v *Verdict) Revise(p Properties) Properties { return p.Without(v.Remove...).Merge(v.Set) }
