package core

import "context"

// Router decides about messages on their way into an entity. It may run in another process, so a
// call can fail, and then there is no verdict for any of its messages. A router that cannot answer
// now returns Busy, one that did not answer in time Timeout; both may be asked again.
type Router interface {
	// Route judges messages at one stage: one verdict per message, in their order. It only reads
	// the messages, and only until it returns.
	Route(ctx context.Context, at Stage, ms []*Message) ([]Verdict, error)
}

// StageKind says what a router's verdicts are for.
type StageKind uint8

// The stages.
const (
	// StageIngress is for every message that is sent to the entity, and comes first.
	StageIngress StageKind = iota
	// StageFilter is plugin(…) in the rules of a topic's subscriptions: Pass is true, Drop false,
	// and DeadLetter an error in the rule. The rest of the verdict is ignored. Rules with the same
	// question share an answer.
	StageFilter
	// StageTo interprets the To of messages that are sent to an entity which enables it.
	StageTo
)

func (k StageKind) String() string { return [...]string{"ingress", "filter", "to"}[k] }

// Stage is the place in a pipeline where a router is asked.
type Stage struct {
	Kind StageKind
	// Entity is the queue or topic that messages are sent to.
	Entity string
	// Parameters are those of the stage's configuration.
	Parameters Properties
}

// VerdictAction says what happens to the message itself.
type VerdictAction uint8

// The actions. A router that fails to judge one message dead-letters it.
const (
	VerdictPass       VerdictAction = iota // it goes on
	VerdictDrop                            // it is accepted and dropped
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
	// Set are user properties to set, and Remove the names of those to remove before. They apply to
	// every message that results from this one.
	Set    Properties
	Remove []string
	// Routes are the addresses of entities that the message goes to: instead of its own or, if
	// Beside is true, in addition to it. They count only if Action is VerdictPass.
	Routes []string
	Beside bool
}

// Revise returns p with the verdict's changes.
func (v *Verdict) Revise(p Properties) Properties { return p.Without(v.Remove...).Merge(v.Set) }
