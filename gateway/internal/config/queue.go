package config

import (
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Queue is a queue to create at start-up if it does not exist.
type Queue struct {
	Name          string `config:"name"`
	QueueSettings `config:",squash"`
}

// QueueSettings are EntitySettings of a queue. Those without a usage text, which the official Go SDK
// cannot send, have no flag: they are kept and shown, without effect.
type QueueSettings struct {
	LockDuration                        *time.Duration `config:"lock-duration" usage:"how long a message, or a session, stays locked for its receiver"`
	MaxSizeInMegabytes                  *int64         `config:"max-size-in-megabytes" usage:"maximum size of the queue, with its dead letters"`
	MaxMessageSizeInKilobytes           *int64         `config:"max-message-size-in-kilobytes" usage:"maximum size of a message"`
	RequiresDuplicateDetection          *bool          `config:"requires-duplicate-detection" usage:"drop messages whose id was seen within the window"`
	DuplicateDetectionHistoryTimeWindow *time.Duration `config:"duplicate-detection-history-time-window" usage:"how long message ids are remembered"`
	RequiresSession                     *bool          `config:"requires-session" usage:"group messages in sessions; also --session-aware"`
	DefaultMessageTimeToLive            *time.Duration `config:"default-message-time-to-live" usage:"maximum and default time to live of a message"`
	DeadLetteringOnMessageExpiration    *bool          `config:"dead-lettering-on-message-expiration" usage:"dead-letter expired messages"`
	MaxDeliveryCount                    *int           `config:"max-delivery-count" usage:"deliveries after which a message is dead-lettered"`
	EnableBatchedOperations             *bool          `config:"enable-batched-operations" usage:"accepted and shown, without effect: the gateway always batches"`
	Status                              *core.Status   `config:"status" usage:"Active, Disabled, SendDisabled or ReceiveDisabled"`
	ForwardTo                           *string        `config:"forward-to" usage:"queue or topic that gets all messages"`
	ForwardDeadLetteredMessagesTo       *string        `config:"forward-dead-lettered-messages-to" usage:"queue or topic that gets the dead letters"`
	UserMetadata                        *string        `config:"user-metadata" usage:"text of your own"`
	AutoDeleteOnIdle                    *time.Duration `config:"auto-delete-on-idle" usage:"delete the queue after this time without use"`
	EnablePartitioning                  *bool          `config:"enable-partitioning" usage:"spread the queue over several partitions"`
	SupportOrdering                     *bool          `config:"support-ordering"`
	EnableExpress                       *bool          `config:"enable-express"`
	IsAnonymousAccessible               *bool          `config:"is-anonymous-accessible"`
	Policies                            []Policy       `config:"policies"`
}

// Apply lays what was given over s.
func (q *QueueSettings) Apply(s *core.Settings) {
	overlay(q, s)
	addAccessRules(s, q.Policies)
}
