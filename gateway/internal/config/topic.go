package config

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Topic is a topic to create at start-up, with its subscriptions, as far as they
// do not exist.
type Topic struct {
	Name          string `config:"name"`
	TopicSettings `config:",squash"`
	Subscriptions []Subscription `config:"subscriptions"`
}

// TopicSettings are EntitySettings of a topic, those without a flag as in QueueSettings.
type TopicSettings struct {
	MaxSizeInMegabytes                  *int64         `config:"max-size-in-megabytes" usage:"maximum size of the topic with its subscriptions"`
	MaxMessageSizeInKilobytes           *int64         `config:"max-message-size-in-kilobytes" usage:"maximum size of a message"`
	RequiresDuplicateDetection          *bool          `config:"requires-duplicate-detection" usage:"drop messages whose id was seen within the window"`
	DuplicateDetectionHistoryTimeWindow *time.Duration `config:"duplicate-detection-history-time-window" usage:"how long message ids are remembered"`
	DefaultMessageTimeToLive            *time.Duration `config:"default-message-time-to-live" usage:"maximum and default time to live of a message"`
	EnableBatchedOperations             *bool          `config:"enable-batched-operations" usage:"accepted and shown, without effect: the gateway always batches"`
	Status                              *core.Status   `config:"status" usage:"Active, Disabled or SendDisabled"`
	UserMetadata                        *string        `config:"user-metadata" usage:"text of your own"`
	AutoDeleteOnIdle                    *time.Duration `config:"auto-delete-on-idle" usage:"delete the topic after this time without use"`
	EnablePartitioning                  *bool          `config:"enable-partitioning" usage:"spread the topic over several partitions"`
	SupportOrdering                     *bool          `config:"support-ordering"`
	EnableExpress                       *bool          `config:"enable-express"`
	IsAnonymousAccessible               *bool          `config:"is-anonymous-accessible"`
	FilteringMessagesBeforePublishing   *bool          `config:"filtering-messages-before-publishing"`
	EnableSubscriptionPartitioning      *bool          `config:"enable-subscription-partitioning"`
	Policies                            []Policy       `config:"policies"`
}

// Apply lays what was given over s.
func (t *TopicSettings) Apply(s *core.Settings) {
	overlay(t, s)
	addAccessRules(s, t.Policies)
}

// Subscription is a topic's subscription. With rules it gets what they match,
// without everything; with an empty list of rules, nothing.
type Subscription struct {
	Name                 string `config:"name"`
	SubscriptionSettings `config:",squash"`
	Rules                []Rule `config:"rules"`
}

// SubscriptionSettings are EntitySettings of a subscription. The official Go SDK
// cannot send a subscription's status, so there is no flag for it.
type SubscriptionSettings struct {
	LockDuration                              *time.Duration `config:"lock-duration" usage:"how long a message, or a session, stays locked for its receiver"`
	RequiresSession                           *bool          `config:"requires-session" usage:"group messages in sessions; also --session-aware"`
	DefaultMessageTimeToLive                  *time.Duration `config:"default-message-time-to-live" usage:"maximum and default time to live of a message"`
	DeadLetteringOnMessageExpiration          *bool          `config:"dead-lettering-on-message-expiration" usage:"dead-letter expired messages"`
	DeadLetteringOnFilterEvaluationExceptions *bool          `config:"dead-lettering-on-filter-evaluation-exceptions" usage:"dead-letter messages for which a rule cannot be evaluated (default true)"`
	MaxDeliveryCount                          *int           `config:"max-delivery-count" usage:"deliveries after which a message is dead-lettered"`
	EnableBatchedOperations                   *bool          `config:"enable-batched-operations" usage:"accepted and shown, without effect: the gateway always batches"`
	Status                                    *core.Status   `config:"status"`
	ForwardTo                                 *string        `config:"forward-to" usage:"queue or topic that gets all messages"`
	ForwardDeadLetteredMessagesTo             *string        `config:"forward-dead-lettered-messages-to" usage:"queue or topic that gets the dead letters"`
	UserMetadata                              *string        `config:"user-metadata" usage:"text of your own"`
	AutoDeleteOnIdle                          *time.Duration `config:"auto-delete-on-idle" usage:"delete the subscription after this time without use"`
}

// Apply lays what was given over s.
func (u *SubscriptionSettings) Apply(s *core.Settings) { overlay(u, s) }
