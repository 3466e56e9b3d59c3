package core

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

type Status string

const (
	StatusActive          Status = "Active"
	StatusDisabled        Status = "Disabled"
	StatusSendDisabled    Status = "SendDisabled"
	StatusReceiveDisabled Status = "ReceiveDisabled"
)

var Statuses = [...]Status{StatusActive, StatusDisabled, StatusSendDisabled, StatusReceiveDisabled}

func (s Status) CanSend() bool { return s == StatusActive || s == StatusReceiveDisabled }

func (s Status) CanReceive() bool { return s == StatusActive || s == StatusSendDisabled }

// Forever means "never". A duration too long for time.Duration is read as Forever, and Forever is
// written as .NET's largest TimeSpan.
const Forever = time.Duration(1<<63 - 1)

type Kind uint8

const (
	Queue Kind = iota
	Topic
	Subscription // a queue of the copies of its topic's messages that its rules select
	Schedule     // sends messages at the times of a cron expression; has no partitions and no Settings
)

func (k Kind) String() string { return [...]string{"Queue", "Topic", "Subscription", "Schedule"}[k] }

func (k Kind) Word() string { return strings.ToLower(k.String()) }

// Settings are the settings of an entity, under the names of the Service Bus management API. A
// setting that a kind of entity does not have keeps its default.
type Settings struct {
	LockDuration       time.Duration
	MaxSizeInMegabytes int64
	// 0 in a request: the tier's default or, in an update, the current value
	MaxMessageSizeInKilobytes           int64
	RequiresDuplicateDetection          bool
	DuplicateDetectionHistoryTimeWindow time.Duration
	RequiresSession                     bool
	DefaultMessageTimeToLive            time.Duration // Forever: messages do not expire
	DeadLetteringOnMessageExpiration    bool
	// DeadLetteringOnFilterEvaluationExceptions dead-letters a message for which a rule of the
	// subscription cannot be evaluated. Otherwise the message is dropped.
	DeadLetteringOnFilterEvaluationExceptions bool
	FilteringMessagesBeforePublishing         bool
	EnableSubscriptionPartitioning            bool
	MaxDeliveryCount                          int
	EnableBatchedOperations                   bool
	Status                                    Status
	ForwardTo                                 string
	ForwardDeadLetteredMessagesTo             string
	UserMetadata                              string
	AutoDeleteOnIdle                          time.Duration // Forever: never
	EnablePartitioning                        bool
	SupportOrdering                           bool
	EnableExpress                             bool
	IsAnonymousAccessible                     bool
	AuthorizationRules                        []AccessRule
}

// AccessRule is a shared access policy: a name, two keys that are both valid, and rights.
type AccessRule struct {
	Name         string
	PrimaryKey   string
	SecondaryKey string
	// Certificate is one of the names that auth.NamesOf returns for a client certificate, with
	// which a client needs no key. Only configured policies of namespaces have it.
	Certificate string `json:",omitempty"`
	Rights      Right
	CreatedAt   time.Time
	ModifiedAt  time.Time
}

// Limits that settings and messages have in every tier.
const (
	MinLockDuration        = time.Second
	MaxLockDuration        = 24 * time.Hour
	MaxMaxDeliveryCount    = 1<<31 - 1 // the documentation says 2000, but the service takes any int32
	MinTimeToLive          = time.Second
	MinDuplicateWindow     = 5 * time.Second // the emulator's minimum; Limits has that of Azure
	MaxDuplicateWindow     = 7 * 24 * time.Hour
	MinAutoDeleteOnIdle    = 5 * time.Minute
	MaxSizeMegabytes       = 80 * 1024
	DefaultMessageSizeKB   = 256
	MinLargeMessageSizeKB  = 1024 // smallest maximum that is allowed above DefaultMessageSizeKB
	MaxMessageSizeKB       = 100 * 1024
	MaxUserMetadata        = 1024 // characters
	MaxAccessRules         = 12
	MaxNameLength          = 260
	MaxKeyLength           = 128   // characters of a message id, session id or partition key
	MaxPropertyNameLength  = 32767 // characters
	MaxHeaderBytes         = 64 << 10
	MaxReasonBytes         = 16 << 10 // properties that say why a message is a dead letter
	MaxPartitions          = 32
	MaxDeadLetterTextChars = 4096
	MaxPeek                = 250 // messages that one peek returns
)

func DefaultSettings(k Kind) Settings {
	return Settings{
		LockDuration:                        time.Minute,
		MaxSizeInMegabytes:                  1024,
		DuplicateDetectionHistoryTimeWindow: 10 * time.Minute,
		DefaultMessageTimeToLive:            Forever,
		MaxDeliveryCount:                    10,
		EnableBatchedOperations:             true,
		Status:                              StatusActive,
		AutoDeleteOnIdle:                    Forever,
		SupportOrdering:                     true,

		DeadLetteringOnFilterEvaluationExceptions: k == Subscription,
	}
}

// Validate returns a Refusal for the first setting outside its limits.
func (q *Settings) Validate() error {
	for i := range AllSettings {
		if s := &AllSettings[i]; s.Min != 0 || s.Max != 0 {
			if err := s.check(q); err != nil {
				return err
			}
		}
	}
	if n := utf8.RuneCountInString(q.UserMetadata); n > MaxUserMetadata {
		return Refuse(OutOfRange, "UserMetadata has %d characters: at most %d are allowed.", n, MaxUserMetadata)
	}
	if n := len(q.AuthorizationRules); n > MaxAccessRules {
		return Refuse(OutOfRange, "AuthorizationRules has %d entries: at most %d are allowed.", n, MaxAccessRules)
	}
	if kb := q.MaxMessageSizeInKilobytes; kb != 0 && kb != DefaultMessageSizeKB && (kb < MinLargeMessageSizeKB || kb > MaxMessageSizeKB) {
		return Refuse(OutOfRange, "MaxMessageSizeInKilobytes is %d: the value for 'MaxMessageSizeInKilobytes' must be between %d and %d, or %d.",
			kb, MinLargeMessageSizeKB, MaxMessageSizeKB, DefaultMessageSizeKB)
	}
	if q.EnableExpress && q.RequiresDuplicateDetection {
		return Refuse(InvalidArgument, "EnableExpress and RequiresDuplicateDetection are both true, but an express entity cannot detect duplicates: set only one.")
	}
	if !slices.Contains(Statuses[:], q.Status) {
		return Refuse(InvalidArgument, "Status is %q: it must be Active, Disabled, SendDisabled or ReceiveDisabled.", q.Status)
	}
	for i, r := range q.AuthorizationRules {
		switch {
		case r.Name == "":
			return Refuse(InvalidArgument, "AuthorizationRules[%d]: KeyName is missing.", i)
		case r.PrimaryKey == "":
			return Refuse(InvalidArgument, "AuthorizationRules[%d] %q: PrimaryKey is missing.", i, r.Name)
		case r.Rights == 0:
			return Refuse(InvalidArgument, "AuthorizationRules[%d] %q: Rights are missing.", i, r.Name)
		}
	}
	return nil
}

// ValidateName checks the name of a queue or topic: up to 260 letters, digits, '.', '-', '_' and
// '~', in non-empty segments between slashes, none of them Subscriptions. A segment of dots alone
// is refused, because HTTP clients remove it from an address before they send it (RFC 3986 §5.2.4).
func ValidateName(name string) error {
	if name == "" || len(name) > MaxNameLength {
		return Refuse(InvalidArgument, "The entity name '%.60s' has %d characters: it must have 1 to %d.", name, len(name), MaxNameLength)
	}
	if r, found := outside(name, ".-_/~"); found {
		return Refuse(InvalidArgument, "The entity name '%s' is not allowed because of %q: use letters, digits, '.', '-', '_', '/' and '~'.", name, r)
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "":
			return Refuse(InvalidArgument, "The entity name '%s' has an empty path segment: remove the extra slash.", name)
		case segment == "." || segment == "..":
			return Refuse(InvalidArgument, "The entity name '%s' contains the path segment '%s', which HTTP clients remove from URLs: use another name.", name, segment)
		case strings.EqualFold(segment, "subscriptions"):
			return Refuse(InvalidArgument, "The entity name '%s' contains the reserved path segment '%s': use another name.", name, segment)
		}
	}
	return nil
}

// outside returns the first character of a name that is neither alphanumeric nor one of others.
func outside(name, others string) (r rune, found bool) {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(others, r)) {
			return r, true
		}
	}
	return 0, false
}

// Entity is a queue, topic, subscription or schedule in the catalogue.
type Entity struct {
	Namespace string // Namespace.ID
	Kind      Kind
	Name      string // in its creator's spelling; a SubscriptionPath or SchedulePath for these kinds
	// ID is a result of NewIncarnation, so that an entity that is deleted and created again never
	// finds data of the deleted one. It consists of lower-case letters and digits.
	ID         string
	Partitions int
	// TopicID is the ID of a subscription's topic. The topic's partitions contain those of its
	// subscriptions, so that a publication to all of them is one atomic step.
	TopicID string `json:",omitempty"`
	// Rules are the rules of a subscription, which gets no messages without them. The comment of
	// Catalogue says which calls use this field.
	Rules    []Rule            `json:",omitempty"`
	Schedule *ScheduleSettings `json:",omitempty"`
	// Revision counts changes. An update must have the current revision.
	Revision   int64
	Settings   Settings
	CreatedAt  time.Time
	UpdatedAt  time.Time
	AccessedAt time.Time // zero: never
}

// Applied describes, for operators, what a gateway's configuration sets for an entity. A text is
// empty if the configuration sets nothing.
type Applied struct {
	RateLimit string `json:"rateLimit,omitempty"` // maximum deliveries over all gateways, such as "5/s"
	// CircuitBreaker is the state at this gateway: "closed", "open" or "half-open".
	CircuitBreaker  string `json:"circuitBreaker,omitempty"`
	KeepDeadLetters string `json:"keepDeadLetters,omitempty"` // how long dead letters are kept, such as "P30D"
}

// Differing returns the settings to check in an update from old to q. It resets some values that
// old already has, because the tier may no longer allow them.
func (q Settings) Differing(old *Settings) Settings {
	if q.MaxMessageSizeInKilobytes == old.MaxMessageSizeInKilobytes {
		q.MaxMessageSizeInKilobytes = 0
	}
	q.EnableExpress = q.EnableExpress && !old.EnableExpress
	q.EnablePartitioning = q.EnablePartitioning && !old.EnablePartitioning
	return q
}

// PartitionedSize is the number of partitions that a partitioned entity has in Service Bus, each
// with the entity's MaxSizeInMegabytes.
const PartitionedSize = 16

// Megabytes returns the maximum size of the whole entity, as administration and quotas count it.
func (e *Entity) Megabytes() int64 {
	if e.Settings.EnablePartitioning {
		return e.Settings.MaxSizeInMegabytes * PartitionedSize
	}
	return e.Settings.MaxSizeInMegabytes
}

func (e *Entity) Ref(i uint16, sub SubQueue) Ref {
	r := Ref{Entity: e.ID, Index: i, Sub: sub}
	if e.Kind == Subscription {
		r.Entity, r.Subscription = e.TopicID, e.ID
	}
	return r
}

// Partition returns partition i of a sub-queue, with the policy that follows from the settings.
func (e *Entity) Partition(i uint16, sub SubQueue) Partition {
	p := Partition{
		Ref: e.Ref(i, sub),
		Policy: Policy{
			Partitioned:       e.Partitions > 1,
			LockDuration:      e.Settings.LockDuration,
			MaxDeliveryCount:  e.Settings.MaxDeliveryCount,
			DeadLetterExpired: e.Settings.DeadLetteringOnMessageExpiration,
			MaxBytes:          e.Settings.MaxSizeInMegabytes << 20,
			// An entity that forwards sends its messages without sessions.
			Sessions: e.Settings.RequiresSession && sub == Main && e.Settings.ForwardTo == "",
		},
	}
	switch e.Kind {
	case Topic: // due messages stay until they are published, even if this fails often
		p.MaxDeliveryCount = 0
	case Subscription: // the topic's quota counts its subscriptions
		p.MaxBytes = 0
	}
	if e.Settings.RequiresDuplicateDetection {
		p.DuplicateWindow = e.Settings.DuplicateDetectionHistoryTimeWindow
	}
	return p
}

// MaxSubscriptionName limits a subscription's name, without the name of its topic, in characters.
const MaxSubscriptionName = 50

// ValidateSubscriptionName checks a subscription's name, without the name of its topic: up to 50
// letters, digits, '.', '-' and '_', but not dots alone (see ValidateName).
func ValidateSubscriptionName(name string) error { return validateOwnName("subscription", name) }

func validateOwnName(kind, name string) error {
	if name == "" || len(name) > MaxSubscriptionName {
		return Refuse(InvalidArgument, "The %s name '%.60s' has %d characters: it must have 1 to %d.", kind, name, len(name), MaxSubscriptionName)
	}
	if r, found := outside(name, ".-_"); found {
		return Refuse(InvalidArgument, "The %s name '%s' is not allowed because of %q: use letters, digits, '.', '-' and '_'.", kind, name, r)
	}
	if name == "." || name == ".." {
		return Refuse(InvalidArgument, "The %s name '%s' is not allowed, because HTTP clients remove it from URLs: use another name.", kind, name)
	}
	return nil
}

const subscriptions = "/Subscriptions/"

func SubscriptionPath(topic, subscription string) string {
	return topic + subscriptions + subscription
}

// SplitSubscription splits a SubscriptionPath, whose segment Subscriptions may be in upper or lower
// case. ok is false for other paths.
func SplitSubscription(path string) (topic, subscription string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", "", false
	}
	topic, ok = cutSuffixFold(path[:i+1], subscriptions)
	if !ok || topic == "" || path[i+1:] == "" {
		return "", "", false
	}
	return topic, path[i+1:], true
}

func (e *Entity) String() string { return fmt.Sprintf("%s/%s", e.Namespace, e.Name) }
