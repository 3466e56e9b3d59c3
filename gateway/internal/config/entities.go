package config

import (
	"iter"
	"reflect"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

type Queue struct {
	Name          string `config:"name"`
	QueueSettings `config:",squash"`
}

// Settings without a usage text have no flag, because they have no effect: they are only stored and
// shown.
type QueueSettings struct {
	LockDuration                        *time.Duration `config:"lock-duration" usage:"how long a message or a session stays locked for its receiver, 1s to 24h (default at creation 1m)"`
	MaxSizeInMegabytes                  *int64         `config:"max-size-in-megabytes" usage:"maximum size of the queue in MiB, including its dead letters (default at creation 1024)"`
	MaxMessageSizeInKilobytes           *int64         `config:"max-message-size-in-kilobytes" usage:"maximum size of a message in KiB: 256, or 1024 to 102400 (default at creation 256)"`
	RequiresDuplicateDetection          *bool          `config:"requires-duplicate-detection" usage:"drop a message if a message with the same id arrived within --duplicate-detection-history-time-window; cannot be changed after creation"`
	DuplicateDetectionHistoryTimeWindow *time.Duration `config:"duplicate-detection-history-time-window" usage:"how long message ids are remembered, 5s to 7d (default at creation 10m)"`
	RequiresSession                     *bool          `config:"requires-session" usage:"require a session id in each message, and lock whole sessions for receivers; cannot be changed after creation; also --session-aware"`
	DefaultMessageTimeToLive            *time.Duration `config:"default-message-time-to-live" usage:"time to live of messages that are sent without one, and the maximum for all messages (default at creation forever)"`
	DeadLetteringOnMessageExpiration    *bool          `config:"dead-lettering-on-message-expiration" usage:"dead-letter expired messages instead of deleting them"`
	MaxDeliveryCount                    *int           `config:"max-delivery-count" usage:"number of failed deliveries after which a message is dead-lettered (default at creation 10)"`
	EnableBatchedOperations             *bool          `config:"enable-batched-operations" usage:"accepted and shown, without effect: the gateway always batches"`
	Status                              *core.Status   `config:"status" usage:"Active, Disabled, SendDisabled or ReceiveDisabled"`
	ForwardTo                           *string        `config:"forward-to" usage:"queue or topic to which all messages are forwarded, or REMOTE:ENTITY for an entity of another broker"`
	ForwardDeadLetteredMessagesTo       *string        `config:"forward-dead-lettered-messages-to" usage:"queue or topic to which the dead letters are forwarded"`
	UserMetadata                        *string        `config:"user-metadata" usage:"any text, up to 1024 characters"`
	AutoDeleteOnIdle                    *time.Duration `config:"auto-delete-on-idle" usage:"delete the queue when it has not been used for this time, at least 5m (default at creation forever)"`
	EnablePartitioning                  *bool          `config:"enable-partitioning" usage:"divide the queue into several partitions; cannot be changed after creation"`
	SupportOrdering                     *bool          `config:"support-ordering"`
	EnableExpress                       *bool          `config:"enable-express"`
	IsAnonymousAccessible               *bool          `config:"is-anonymous-accessible"`
	Policies                            []Policy       `config:"policies"`
}

func (q *QueueSettings) Apply(s *core.Settings) {
	overlay(q, s)
	if len(q.Policies) > 0 {
		s.AuthorizationRules = accessRules(q.Policies)
	}
}

type Topic struct {
	Name          string `config:"name"`
	TopicSettings `config:",squash"`
	Subscriptions []Subscription `config:"subscriptions"`
}

type TopicSettings struct {
	MaxSizeInMegabytes                  *int64         `config:"max-size-in-megabytes" usage:"maximum size of the topic in MiB, including its subscriptions (default at creation 1024)"`
	MaxMessageSizeInKilobytes           *int64         `config:"max-message-size-in-kilobytes" usage:"maximum size of a message in KiB: 256, or 1024 to 102400 (default at creation 256)"`
	RequiresDuplicateDetection          *bool          `config:"requires-duplicate-detection" usage:"drop a message if a message with the same id arrived within --duplicate-detection-history-time-window; cannot be changed after creation"`
	DuplicateDetectionHistoryTimeWindow *time.Duration `config:"duplicate-detection-history-time-window" usage:"how long message ids are remembered, 5s to 7d (default at creation 10m)"`
	DefaultMessageTimeToLive            *time.Duration `config:"default-message-time-to-live" usage:"time to live of messages that are sent without one, and the maximum for all messages (default at creation forever)"`
	EnableBatchedOperations             *bool          `config:"enable-batched-operations" usage:"accepted and shown, without effect: the gateway always batches"`
	Status                              *core.Status   `config:"status" usage:"Active, Disabled or SendDisabled"`
	UserMetadata                        *string        `config:"user-metadata" usage:"any text, up to 1024 characters"`
	AutoDeleteOnIdle                    *time.Duration `config:"auto-delete-on-idle" usage:"delete the topic when it has not been used for this time, at least 5m (default at creation forever)"`
	EnablePartitioning                  *bool          `config:"enable-partitioning" usage:"divide the topic into several partitions; cannot be changed after creation"`
	SupportOrdering                     *bool          `config:"support-ordering"`
	EnableExpress                       *bool          `config:"enable-express"`
	IsAnonymousAccessible               *bool          `config:"is-anonymous-accessible"`
	FilteringMessagesBeforePublishing   *bool          `config:"filtering-messages-before-publishing"`
	EnableSubscriptionPartitioning      *bool          `config:"enable-subscription-partitioning"`
	Policies                            []Policy       `config:"policies"`
}

func (t *TopicSettings) Apply(s *core.Settings) {
	overlay(t, s)
	if len(t.Policies) > 0 {
		s.AuthorizationRules = accessRules(t.Policies)
	}
}

// Subscription gets the messages that match one of its rules: all messages if Rules is nil, and
// none if it is empty.
type Subscription struct {
	Name                 string `config:"name"`
	SubscriptionSettings `config:",squash"`
	Rules                []Rule `config:"rules"`
}

type SubscriptionSettings struct {
	LockDuration                              *time.Duration `config:"lock-duration" usage:"how long a message or a session stays locked for its receiver, 1s to 24h (default at creation 1m)"`
	RequiresSession                           *bool          `config:"requires-session" usage:"require a session id in each message, and lock whole sessions for receivers; cannot be changed after creation; also --session-aware"`
	DefaultMessageTimeToLive                  *time.Duration `config:"default-message-time-to-live" usage:"time to live of messages that are sent without one, and the maximum for all messages (default at creation forever)"`
	DeadLetteringOnMessageExpiration          *bool          `config:"dead-lettering-on-message-expiration" usage:"dead-letter expired messages instead of deleting them"`
	DeadLetteringOnFilterEvaluationExceptions *bool          `config:"dead-lettering-on-filter-evaluation-exceptions" usage:"dead-letter messages for which a rule cannot be evaluated (default at creation true)"`
	MaxDeliveryCount                          *int           `config:"max-delivery-count" usage:"number of failed deliveries after which a message is dead-lettered (default at creation 10)"`
	EnableBatchedOperations                   *bool          `config:"enable-batched-operations" usage:"accepted and shown, without effect: the gateway always batches"`
	Status                                    *core.Status   `config:"status" usage:"Active, Disabled or ReceiveDisabled"`
	ForwardTo                                 *string        `config:"forward-to" usage:"queue or topic to which all messages are forwarded, or REMOTE:ENTITY for an entity of another broker"`
	ForwardDeadLetteredMessagesTo             *string        `config:"forward-dead-lettered-messages-to" usage:"queue or topic to which the dead letters are forwarded"`
	UserMetadata                              *string        `config:"user-metadata" usage:"any text, up to 1024 characters"`
	AutoDeleteOnIdle                          *time.Duration `config:"auto-delete-on-idle" usage:"delete the subscription when it has not been used for this time, at least 5m (default at creation forever)"`
}

func (u *SubscriptionSettings) Apply(s *core.Settings) { overlay(u, s) }

// EntitySettings are the configured settings of an entity. Each field except Policies is a pointer:
// nil if the setting is not configured, otherwise to the value that Apply copies to the field of the
// same name in core.Settings.
type EntitySettings interface {
	QueueSettings | TopicSettings | SubscriptionSettings
}

func overlay[T EntitySettings](given *T, s *core.Settings) {
	for f, v := range configured(given) {
		reflect.ValueOf(s).Elem().FieldByName(f.Name).Set(v.Elem())
	}
}

// configured yields the settings that are configured, except policies.
func configured[T EntitySettings](given *T) iter.Seq2[reflect.StructField, reflect.Value] {
	return func(yield func(reflect.StructField, reflect.Value) bool) {
		for f, v := range reflect.ValueOf(given).Elem().Fields() {
			if v.Kind() == reflect.Pointer && !v.IsNil() && !yield(f, v) {
				return
			}
		}
	}
}

func (p Policy) Rule() core.AccessRule {
	return core.AccessRule{Name: p.Name, PrimaryKey: p.Key, SecondaryKey: p.SecondaryKey, Certificate: p.Certificate, Rights: p.Rights}
}

type names map[string]bool

func (n *names) add(name string) bool {
	folded := core.FoldName(name)
	if (*n)[folded] {
		return false
	}
	if *n == nil {
		*n = names{}
	}
	(*n)[folded] = true
	return true
}

func Given[T EntitySettings](given *T) (all []*core.Setting) {
	for f := range configured(given) {
		all = append(all, core.SettingNamed(f.Name))
	}
	return all
}
