package core

import (
	"slices"
	"time"
	"unicode/utf8"
)

// Limits are limits of an Azure tier that are stricter than the gateway's own. 0 means none.
type Limits struct {
	Tier string

	MinNamespaceName int // characters
	MaxNamespaceName int
	MaxPolicies      int
	MaxEntities      int // queues and topics together
	MaxPartitioned   int // partitioned queues and topics
	MaxConnections   int // connections to the namespace at a time

	SizesInMegabytes   []int64       // allowed values of MaxSizeInMegabytes, which is the size of each partition
	MaxMessageSizeKB   int64         // maximum of MaxMessageSizeInKilobytes
	MessageSizeKB      int64         // default of MaxMessageSizeInKilobytes
	MaxBatchBytes      int64         // bytes of messages that are sent together
	MinDuplicateWindow time.Duration // minimum of DuplicateDetectionHistoryTimeWindow
	MaxPurge           int           // messages that one request may delete
	MaxLockDuration    time.Duration
	MaxSQLLength       int // characters of a filter, and of an action
	MaxSubscriptions   int // subscriptions of a topic

	ExclusiveSessions  bool // sessions cannot be taken over
	NoBinaryProperties bool // message properties cannot have binary values

	MessagingUnits  int // messaging units of the namespace; 0: the tier has none
	IsUnpartitioned bool
	HasNoExpress    bool
}

func StandardLimits() Limits {
	return Limits{
		Tier:             "Standard",
		MinNamespaceName: 6, MaxNamespaceName: 50, MaxPolicies: MaxAccessRules,
		MaxEntities: 10_000, MaxPartitioned: 100, MaxConnections: 5000,
		SizesInMegabytes: []int64{1024, 2048, 3072, 4096, 5120},
		MaxMessageSizeKB: 256, MaxBatchBytes: 256 << 10,
		MinDuplicateWindow: 20 * time.Second, MaxPurge: 500, ExclusiveSessions: true, NoBinaryProperties: true,
		MaxLockDuration: 5 * time.Minute, MaxSQLLength: 1024, MaxSubscriptions: 2000,
	}
}

// PremiumLimits are the limits of the Premium tier for a namespace with one messaging unit.
func PremiumLimits() Limits {
	l := StandardLimits()
	l.Tier = "Premium"
	l.MaxEntities = 1000
	l.SizesInMegabytes = append(l.SizesInMegabytes, 10240, 20480, 40960, 81920)
	l.MaxMessageSizeKB, l.MessageSizeKB, l.MaxBatchBytes = MaxMessageSizeKB, MinLargeMessageSizeKB, 1<<20
	l.MaxPurge, l.ExclusiveSessions = 4000, false
	l.MessagingUnits, l.IsUnpartitioned, l.HasNoExpress = 1, true, true
	return l
}

// Check refuses settings that the tier does not allow.
func (l *Limits) Check(s *Settings) error {
	if len(l.SizesInMegabytes) > 0 && !slices.Contains(l.SizesInMegabytes, s.MaxSizeInMegabytes) {
		return Refuse(OutOfRange, "MaxSizeInMegabytes is %d: in the %s tier it must be one of %d.", s.MaxSizeInMegabytes, l.Tier, l.SizesInMegabytes)
	}
	if l.MaxMessageSizeKB > 0 && s.MaxMessageSizeInKilobytes > l.MaxMessageSizeKB {
		return Refuse(OutOfRange, "MaxMessageSizeInKilobytes is %d: in the %s tier it may be at most %d.", s.MaxMessageSizeInKilobytes, l.Tier, l.MaxMessageSizeKB)
	}
	if s.DuplicateDetectionHistoryTimeWindow < l.MinDuplicateWindow {
		return Refuse(OutOfRange, "DuplicateDetectionHistoryTimeWindow is %v: in the %s tier it must be at least %v.", s.DuplicateDetectionHistoryTimeWindow, l.Tier, l.MinDuplicateWindow)
	}
	if l.MaxLockDuration > 0 && s.LockDuration > l.MaxLockDuration {
		return Refuse(OutOfRange, "LockDuration is %v: in the %s tier it may be at most %v.", s.LockDuration, l.Tier, l.MaxLockDuration)
	}
	if l.IsUnpartitioned && s.EnablePartitioning {
		return Refuse(InvalidArgument, "EnablePartitioning is true: the %s tier does not support partitioned entities.", l.Tier)
	}
	if l.HasNoExpress && s.EnableExpress {
		return Refuse(InvalidArgument, "EnableExpress is true: the %s tier does not support express entities.", l.Tier)
	}
	return nil
}

// CheckRule refuses a rule that the tier does not allow.
func (l *Limits) CheckRule(r *Rule) error {
	if filter, action := utf8.RuneCountInString(r.Filter.SQL), utf8.RuneCountInString(r.Action); l.MaxSQLLength > 0 && max(filter, action) > l.MaxSQLLength {
		return Refuse(InvalidArgument, "Rule '%s': the SQL of the filter has %d characters, and the SQL of the action %d; in the %s tier at most %d are allowed in each.", r.Name, filter, action, l.Tier, l.MaxSQLLength)
	}
	return nil
}

// MessageBytes returns the maximum size of a message for an entity with these settings.
func (l *Limits) MessageBytes(s *Settings) int64 {
	kb := s.MaxMessageSizeInKilobytes
	if l.MaxMessageSizeKB > 0 {
		kb = min(kb, l.MaxMessageSizeKB)
	}
	return kb << 10
}

// Purge returns n, but at most the number of messages that one request may delete.
func (l *Limits) Purge(n int) int {
	if l.MaxPurge > 0 {
		return min(n, l.MaxPurge)
	}
	return n
}
