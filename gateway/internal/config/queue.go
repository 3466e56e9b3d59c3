package config

import (
	"reflect"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// Queue is a queue to create at start-up if it does not exist.
type Queue struct {
	Name          string `koanf:"name"`
	QueueSettings `koanf:",squash"`
}

// QueueSettings are the settings of a queue that somebody gave; nil was not
// given. The fields are those of core.Settings, by name.
type QueueSettings struct {
	LockDuration                        *time.Duration `koanf:"lock-duration" usage:"how long a message stays locked for its receiver"`
	MaxSizeInMegabytes                  *int64         `koanf:"max-size-in-megabytes" usage:"how much the queue holds"`
	MaxMessageSizeInKilobytes           *int64         `koanf:"max-message-size-in-kilobytes" usage:"the largest message"`
	RequiresDuplicateDetection          *bool          `koanf:"requires-duplicate-detection" usage:"drop messages whose id was seen within the window"`
	DuplicateDetectionHistoryTimeWindow *time.Duration `koanf:"duplicate-detection-history-time-window" usage:"how long message ids are remembered"`
	RequiresSession                     *bool          `koanf:"requires-session" usage:"group messages in sessions"`
	DefaultMessageTimeToLive            *time.Duration `koanf:"default-message-time-to-live" usage:"when messages expire that name no time, or a longer one"`
	DeadLetteringOnMessageExpiration    *bool          `koanf:"dead-lettering-on-message-expiration" usage:"dead-letter expired messages"`
	MaxDeliveryCount                    *int           `koanf:"max-delivery-count" usage:"deliveries after which a message is dead-lettered"`
	EnableBatchedOperations             *bool          `koanf:"enable-batched-operations" usage:"kept and shown; batching is always on"`
	Status                              *core.Status   `koanf:"status" usage:"Active, Disabled, SendDisabled or ReceiveDisabled"`
	ForwardTo                           *string        `koanf:"forward-to" usage:"entity that gets all messages"`
	ForwardDeadLetteredMessagesTo       *string        `koanf:"forward-dead-lettered-messages-to" usage:"entity that gets the dead letters"`
	UserMetadata                        *string        `koanf:"user-metadata" usage:"any text"`
	AutoDeleteOnIdle                    *time.Duration `koanf:"auto-delete-on-idle" usage:"delete the queue after so long without use"`
	EnablePartitioning                  *bool          `koanf:"enable-partitioning" usage:"spread the queue over several partitions"`
	Policies                            []Policy       `koanf:"policies"`
}

// Apply lays what was given over s.
func (q *QueueSettings) Apply(s *core.Settings) {
	given, target := reflect.ValueOf(q).Elem(), reflect.ValueOf(s).Elem()
	for i := range given.NumField() {
		if v := given.Field(i); v.Kind() == reflect.Pointer && !v.IsNil() {
			target.FieldByName(given.Type().Field(i).Name).Set(v.Elem())
		}
	}
	if len(q.Policies) > 0 {
		s.AuthorizationRules = nil
	}
	for _, p := range q.Policies {
		s.AuthorizationRules = append(s.AuthorizationRules, p.Rule())
	}
}

// each calls visit with every setting that was given, alone, policies left out.
func (q *QueueSettings) each(visit func(name string, alone *QueueSettings)) {
	all := reflect.ValueOf(q).Elem()
	for i := range all.NumField() {
		if v := all.Field(i); v.Kind() == reflect.Pointer && !v.IsNil() {
			alone := &QueueSettings{}
			reflect.ValueOf(alone).Elem().Field(i).Set(v)
			visit(all.Type().Field(i).Tag.Get("koanf"), alone)
		}
	}
}

// Rule is the policy as the authority takes it.
func (p Policy) Rule() core.AccessRule {
	return core.AccessRule{Name: p.Name, PrimaryKey: p.Key, SecondaryKey: p.SecondaryKey, Rights: p.Rights}
}
