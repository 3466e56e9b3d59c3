package core

import (
	"reflect"
	"time"
)

// Kinds is a set of kinds of entities.
type Kinds uint8

const (
	Queues        Kinds = 1 << Queue
	Topics        Kinds = 1 << Topic
	Subscriptions Kinds = 1 << Subscription
	AllKinds            = Queues | Topics | Subscriptions
)

func (k Kinds) Has(kind Kind) bool { return k&(1<<kind) != 0 }

// Setting describes one of the Settings, for code that reads or writes settings by name.
type Setting struct {
	Name  string
	Kinds Kinds
	// Min and Max limit a number, or a duration in nanoseconds. If both are 0, it is not limited
	// here.
	Min, Max int64
	Fixed    bool // it cannot change after creation
	Path     bool // its value is the name of an entity

	field int // index in Settings
}

// AllSettings has all settings, in the order of Settings.
var AllSettings = func() []Setting {
	all := []Setting{
		{Name: "LockDuration", Kinds: Queues | Subscriptions, Min: int64(MinLockDuration), Max: int64(MaxLockDuration)},
		{Name: "MaxSizeInMegabytes", Kinds: Queues | Topics, Min: 1, Max: MaxSizeMegabytes},
		{Name: "MaxMessageSizeInKilobytes", Kinds: Queues | Topics},
		{Name: "RequiresDuplicateDetection", Kinds: Queues | Topics, Fixed: true},
		{Name: "DuplicateDetectionHistoryTimeWindow", Kinds: Queues | Topics, Min: int64(MinDuplicateWindow), Max: int64(MaxDuplicateWindow)},
		{Name: "RequiresSession", Kinds: Queues | Subscriptions, Fixed: true},
		{Name: "DefaultMessageTimeToLive", Kinds: AllKinds, Min: int64(MinTimeToLive), Max: int64(Forever)},
		{Name: "DeadLetteringOnMessageExpiration", Kinds: Queues | Subscriptions},
		{Name: "DeadLetteringOnFilterEvaluationExceptions", Kinds: Subscriptions},
		{Name: "FilteringMessagesBeforePublishing", Kinds: Topics},
		{Name: "EnableSubscriptionPartitioning", Kinds: Topics},
		{Name: "MaxDeliveryCount", Kinds: Queues | Subscriptions, Min: 1, Max: MaxMaxDeliveryCount},
		{Name: "EnableBatchedOperations", Kinds: AllKinds},
		{Name: "Status", Kinds: AllKinds},
		{Name: "ForwardTo", Kinds: Queues | Subscriptions, Path: true},
		{Name: "ForwardDeadLetteredMessagesTo", Kinds: Queues | Subscriptions, Path: true},
		{Name: "UserMetadata", Kinds: AllKinds},
		{Name: "AutoDeleteOnIdle", Kinds: AllKinds, Min: int64(MinAutoDeleteOnIdle), Max: int64(Forever)},
		{Name: "EnablePartitioning", Kinds: Queues | Topics, Fixed: true},
		{Name: "SupportOrdering", Kinds: Queues | Topics},
		{Name: "EnableExpress", Kinds: Queues | Topics},
		{Name: "IsAnonymousAccessible", Kinds: Queues | Topics},
		{Name: "AuthorizationRules", Kinds: Queues | Topics},
	}
	for i := range all {
		f, ok := reflect.TypeFor[Settings]().FieldByName(all[i].Name)
		if !ok {
			panic("core: unknown setting " + all[i].Name)
		}
		all[i].field = f.Index[0]
	}
	return all
}()

var settingsByName = func() map[string]*Setting {
	all := make(map[string]*Setting, len(AllSettings))
	for i := range AllSettings {
		all[AllSettings[i].Name] = &AllSettings[i]
	}
	return all
}()

func SettingNamed(name string) *Setting { return settingsByName[name] }

// Of returns a pointer to the setting in q: a *time.Duration, *int64, *int, *bool, *string, *Status
// or *[]AccessRule.
func (s *Setting) Of(q *Settings) any {
	return reflect.ValueOf(q).Elem().Field(s.field).Addr().Interface()
}

func (s *Setting) check(q *Settings) error {
	v := reflect.ValueOf(q).Elem().Field(s.field)
	n := v.Int()
	d, isDuration := v.Interface().(time.Duration)
	switch {
	case isDuration && n < s.Min:
		return Refuse(OutOfRange, "%s is %v: it must be at least %v.", s.Name, d, time.Duration(s.Min))
	case isDuration && n > s.Max:
		return Refuse(OutOfRange, "%s is %v: the supplied time exceeds the allowed maximum of %v.", s.Name, d, time.Duration(s.Max))
	case n < s.Min || n > s.Max:
		return Refuse(OutOfRange, "%s is %d: it must be between %d and %d.", s.Name, n, s.Min, s.Max)
	}
	return nil
}

func (s *Setting) Copy(to, from *Settings) {
	reflect.ValueOf(to).Elem().Field(s.field).Set(reflect.ValueOf(from).Elem().Field(s.field))
}

// Fit sets the settings that entities of the kind do not have to their defaults.
func (q *Settings) Fit(k Kind) {
	d := DefaultSettings(k)
	for i := range AllSettings {
		if s := &AllSettings[i]; !s.Kinds.Has(k) {
			s.Copy(q, &d)
		}
	}
}
