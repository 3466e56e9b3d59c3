package config

import (
	"iter"
	"reflect"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

type Queue struct {
	Name           string `config:"name"`
	EntitySettings `config:",squash"`
	Policies       []Policy `config:"policies"`
}

type Topic struct {
	Name           string `config:"name"`
	EntitySettings `config:",squash"`
	Policies       []Policy       `config:"policies"`
	Subscriptions  []Subscription `config:"subscriptions"`
}

// Subscription is a configured subscription. If Rules is nil, a new subscription gets one rule,
// which matches all messages. If Rules is an empty list, the subscription gets no messages.
type Subscription struct {
	Name           string `config:"name"`
	EntitySettings `config:",squash"`
	Rules          []Rule `config:"rules"`
}

// EntitySettings are the configured settings of an entity. A field is nil if its setting is not
// configured. Otherwise Apply copies its value to the field of the same name in core.Settings.
// core.AllSettings lists which kinds of entities have a setting. The tags topic and subscription
// replace the usage text for these kinds. A setting without a usage text has no flag, because the
// gateway only stores and shows it.
type EntitySettings struct {
	LockDuration                              *time.Duration `config:"lock-duration" usage:"how long a message or a session stays locked for its receiver, 1s to 24h (default at creation 1m)"`
	MaxSizeInMegabytes                        *int64         `config:"max-size-in-megabytes" usage:"maximum size of the queue in MiB, including its dead letters (default at creation 1024)" topic:"maximum size of the topic in MiB, including its subscriptions (default at creation 1024)"`
	MaxMessageSizeInKilobytes                 *int64         `config:"max-message-size-in-kilobytes" usage:"maximum size of a message in KiB: 256, or 1024 to 102400 (default at creation 256)"`
	RequiresDuplicateDetection                *bool          `config:"requires-duplicate-detection" usage:"drop a message if a message with the same id arrived within --duplicate-detection-history-time-window; cannot be changed after creation"`
	DuplicateDetectionHistoryTimeWindow       *time.Duration `config:"duplicate-detection-history-time-window" usage:"how long message ids are remembered, 5s to 7d (default at creation 10m)"`
	RequiresSession                           *bool          `config:"requires-session" usage:"require a session id in each message, and lock whole sessions for receivers; cannot be changed after creation; also --session-aware"`
	DefaultMessageTimeToLive                  *time.Duration `config:"default-message-time-to-live" usage:"time to live of messages that are sent without one, and the maximum for all messages (default at creation forever)"`
	DeadLetteringOnMessageExpiration          *bool          `config:"dead-lettering-on-message-expiration" usage:"dead-letter expired messages instead of deleting them"`
	DeadLetteringOnFilterEvaluationExceptions *bool          `config:"dead-lettering-on-filter-evaluation-exceptions" usage:"dead-letter messages for which a rule cannot be evaluated (default at creation true)"`
	MaxDeliveryCount                          *int           `config:"max-delivery-count" usage:"number of failed deliveries after which a message is dead-lettered (default at creation 10)"`
	EnableBatchedOperations                   *bool          `config:"enable-batched-operations" usage:"accepted and shown, without effect: the gateway always batches"`
	Status                                    *core.Status   `config:"status" usage:"Active, Disabled, SendDisabled or ReceiveDisabled" topic:"Active, Disabled or SendDisabled" subscription:"Active, Disabled or ReceiveDisabled"`
	ForwardTo                                 *string        `config:"forward-to" usage:"queue or topic to which all messages are forwarded, or REMOTE:ENTITY for an entity of another broker"`
	ForwardDeadLetteredMessagesTo             *string        `config:"forward-dead-lettered-messages-to" usage:"queue or topic to which the dead letters are forwarded"`
	UserMetadata                              *string        `config:"user-metadata" usage:"any text, up to 1024 characters"`
	AutoDeleteOnIdle                          *time.Duration `config:"auto-delete-on-idle" usage:"delete the queue when it has not been used for this time, at least 5m (default at creation forever)" topic:"delete the topic when it has not been used for this time, at least 5m (default at creation forever)" subscription:"delete the subscription when it has not been used for this time, at least 5m (default at creation forever)"`
	EnablePartitioning                        *bool          `config:"enable-partitioning" usage:"divide the queue into several partitions; cannot be changed after creation" topic:"divide the topic into several partitions; cannot be changed after creation"`
	SupportOrdering                           *bool          `config:"support-ordering"`
	EnableExpress                             *bool          `config:"enable-express"`
	IsAnonymousAccessible                     *bool          `config:"is-anonymous-accessible"`
	FilteringMessagesBeforePublishing         *bool          `config:"filtering-messages-before-publishing"`
	EnableSubscriptionPartitioning            *bool          `config:"enable-subscription-partitioning"`
}

func (given *EntitySettings) Apply(s *core.Settings) {
	for f, v := range given.all() {
		reflect.ValueOf(s).Elem().FieldByName(f.Name).Set(v.Elem())
	}
}

// all yields the configured settings, each as a field and its non-nil pointer.
func (given *EntitySettings) all() iter.Seq2[reflect.StructField, reflect.Value] {
	return func(yield func(reflect.StructField, reflect.Value) bool) {
		for f, v := range reflect.ValueOf(given).Elem().Fields() {
			if !v.IsNil() && !yield(f, v) {
				return
			}
		}
	}
}

func (given *EntitySettings) Given() (all []*core.Setting) {
	for f := range given.all() {
		all = append(all, core.SettingNamed(f.Name))
	}
	return all
}

// Declared is a configured queue, topic or subscription. If Policies or Rules is nil, an
// existing entity keeps its own.
type Declared struct {
	Kind  core.Kind
	Topic string // the topic of a subscription; "" for queues and topics
	Name  string
	*EntitySettings
	Policies []Policy
	Rules    []Rule
	path     string // place in the configuration, such as queues[2]
}

// Declared returns the configured entities: all queues, then all topics, then all subscriptions.
func (h *Contents) Declared() []Declared { return h.declared("") }

func (h *Contents) declared(prefix string) (all []Declared) {
	for i := range h.Queues {
		q := &h.Queues[i]
		all = append(all, Declared{Kind: core.Queue, Name: q.Name, EntitySettings: &q.EntitySettings, Policies: q.Policies, path: elementPath(prefix+"queues", i)})
	}
	var below []Declared
	for i := range h.Topics {
		t, path := &h.Topics[i], elementPath(prefix+"topics", i)
		all = append(all, Declared{Kind: core.Topic, Name: t.Name, EntitySettings: &t.EntitySettings, Policies: t.Policies, path: path})
		for k := range t.Subscriptions {
			s := &t.Subscriptions[k]
			below = append(below, Declared{core.Subscription, t.Name, s.Name, &s.EntitySettings, nil, s.Rules, elementPath(path+".subscriptions", k)})
		}
	}
	return append(all, below...)
}

// Apply copies the configured settings to s and, if any policies are configured, the policies.
func (d *Declared) Apply(s *core.Settings) {
	d.EntitySettings.Apply(s)
	if len(d.Policies) > 0 {
		s.AuthorizationRules = accessRules(d.Policies)
	}
}

// Complete returns the settings for a new entity: the configured ones, and defaults.
func (d *Declared) Complete() core.Settings {
	s := core.DefaultSettings(d.Kind)
	d.Apply(&s)
	return s
}

// Path returns the name of a queue or topic, or TOPIC/Subscriptions/NAME for a subscription.
func (d *Declared) Path() string {
	if d.Kind == core.Subscription {
		return core.SubscriptionPath(d.Topic, d.Name)
	}
	return d.Name
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
