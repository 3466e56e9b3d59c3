package broker

import "github.com/crosstown-mq/crosstown/core"

// fitKind resets settings that entities of the kind do not have to their defaults.
func fitKind(k core.Kind, s *core.Settings) {
	given, d := *s, core.DefaultSettings(k)
	switch k {
	case core.Queue:
		s.DeadLetteringOnFilterEvaluationExceptions = d.DeadLetteringOnFilterEvaluationExceptions
		s.FilteringMessagesBeforePublishing = d.FilteringMessagesBeforePublishing
		s.EnableSubscriptionPartitioning = d.EnableSubscriptionPartitioning
	case core.Topic:
		s.LockDuration = d.LockDuration
		s.RequiresSession = d.RequiresSession
		s.DeadLetteringOnMessageExpiration = d.DeadLetteringOnMessageExpiration
		s.DeadLetteringOnFilterEvaluationExceptions = d.DeadLetteringOnFilterEvaluationExceptions
		s.MaxDeliveryCount = d.MaxDeliveryCount
		s.ForwardTo = d.ForwardTo
		s.ForwardDeadLetteredMessagesTo = d.ForwardDeadLetteredMessagesTo
	case core.Subscription:
		*s = d
		s.LockDuration = given.LockDuration
		s.RequiresSession = given.RequiresSession
		s.DefaultMessageTimeToLive = given.DefaultMessageTimeToLive
		s.DeadLetteringOnMessageExpiration = given.DeadLetteringOnMessageExpiration
		s.DeadLetteringOnFilterEvaluationExceptions = given.DeadLetteringOnFilterEvaluationExceptions
		s.MaxDeliveryCount = given.MaxDeliveryCount
		s.EnableBatchedOperations = given.EnableBatchedOperations
		s.Status = given.Status
		s.ForwardTo = given.ForwardTo
		s.ForwardDeadLetteredMessagesTo = given.ForwardDeadLetteredMessagesTo
		s.UserMetadata = given.UserMetadata
		s.AutoDeleteOnIdle = given.AutoDeleteOnIdle
	}
}
