package sdk

import (
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

// Verdict says what becomes of a message. Make one with Accept, Drop,
// DeadLetter, To or Also.
type Verdict struct {
	action      pb.Verdict_Action
	reason      string
	description string
	routes      []string
	beside      bool
}

// Accept lets a message pass.
var Accept = Verdict{}

// Drop has a message accepted and forgotten; for a subscription's filter, not copied.
func Drop(reason string) Verdict { return Verdict{action: pb.Verdict_DROP, reason: reason} }

// DeadLetter has a message put into the entity's dead-letter queue, with a
// reason and a description of it.
func DeadLetter(reason, description string) Verdict {
	return Verdict{action: pb.Verdict_DEAD_LETTER, reason: reason, description: description}
}

// To sends a message to these queues and topics instead of the one it was sent to.
func To(entities ...string) Verdict { return Verdict{routes: entities} }

// Also sends a message to these queues and topics, and lets it pass.
func Also(entities ...string) Verdict { return Verdict{routes: entities, beside: true} }
