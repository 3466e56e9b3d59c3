package core

import (
	"reflect"
	"testing"
	"time"
)

// The table has all settings, in their order.
func TestSettingsAreDescribed(t *testing.T) {
	t.Parallel()
	fields := reflect.TypeFor[Settings]()
	if fields.NumField() != len(AllSettings) {
		t.Errorf("got %d settings, want %d", len(AllSettings), fields.NumField())
	}
	for i := range AllSettings {
		s := &AllSettings[i]
		if f := fields.Field(i); f.Name != s.Name {
			t.Errorf("setting %d is %s, want %s", i, s.Name, f.Name)
		}
		if SettingNamed(s.Name) != s {
			t.Errorf("%s is not found by its name", s.Name)
		}
		var q Settings
		switch v := s.Of(&q).(type) {
		case *time.Duration, *int64, *int:
			if s.Min == s.Max && s.Name != "MaxMessageSizeInKilobytes" {
				t.Errorf("%s is not bounded", s.Name)
			}
		case *bool, *string, *Status, *[]AccessRule:
			if s.Min != 0 || s.Max != 0 {
				t.Errorf("%s, a %T, is bounded", s.Name, v)
			}
		default:
			t.Errorf("%s is a %T", s.Name, v)
		}
	}
	if SettingNamed("Nothing") != nil {
		t.Error("a setting that there is not is found")
	}
}

func TestSettingsOfOtherKindsAreReset(t *testing.T) {
	t.Parallel()
	given := Settings{LockDuration: 7 * time.Second, MaxSizeInMegabytes: 7, FilteringMessagesBeforePublishing: true, ForwardTo: "q", UserMetadata: "m", AuthorizationRules: []AccessRule{{Name: "p"}}}
	for kind, want := range map[Kind]func(*Settings){
		Queue: func(s *Settings) { s.FilteringMessagesBeforePublishing = false },
		Topic: func(s *Settings) { s.LockDuration, s.ForwardTo, s.MaxDeliveryCount = time.Minute, "", 10 },
		Subscription: func(s *Settings) {
			*s = DefaultSettings(Subscription)
			s.LockDuration, s.ForwardTo, s.UserMetadata = 7*time.Second, "q", "m"
			s.MaxDeliveryCount, s.DefaultMessageTimeToLive, s.AutoDeleteOnIdle, s.Status = 0, 0, 0, ""
			s.EnableBatchedOperations, s.DeadLetteringOnFilterEvaluationExceptions = false, false
		},
	} {
		got, wanted := given, given
		got.Fit(kind)
		if want(&wanted); !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s: got %+v, want %+v", kind, got, wanted)
		}
	}
}
