package websocket

import (
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// kinds is a set of core.Kind.
type kinds uint8

const (
	queues        kinds = 1 << core.Queue
	topics        kinds = 1 << core.Topic
	subscriptions kinds = 1 << core.Subscription
	allKinds            = queues | topics | subscriptions
)

// property is a setting of entities by its name in the management API.
type property struct {
	name  string
	of    kinds
	read  func(r codec.Reader) (set func(*core.Settings), err error)
	write func(w codec.Writer, s *core.Settings)
}

var properties = []property{
	durationSetting("LockDuration", queues|subscriptions, func(s *core.Settings) *time.Duration { return &s.LockDuration }),
	numberSetting("MaxSizeInMegabytes", queues|topics, func(s *core.Settings) *int64 { return &s.MaxSizeInMegabytes }),
	numberSetting("MaxMessageSizeInKilobytes", queues|topics, func(s *core.Settings) *int64 { return &s.MaxMessageSizeInKilobytes }),
	boolSetting("RequiresDuplicateDetection", queues|topics, func(s *core.Settings) *bool { return &s.RequiresDuplicateDetection }),
	durationSetting("DuplicateDetectionHistoryTimeWindow", queues|topics, func(s *core.Settings) *time.Duration { return &s.DuplicateDetectionHistoryTimeWindow }),
	boolSetting("RequiresSession", queues|subscriptions, func(s *core.Settings) *bool { return &s.RequiresSession }),
	durationSetting("DefaultMessageTimeToLive", allKinds, func(s *core.Settings) *time.Duration { return &s.DefaultMessageTimeToLive }),
	boolSetting("DeadLetteringOnMessageExpiration", queues|subscriptions, func(s *core.Settings) *bool { return &s.DeadLetteringOnMessageExpiration }),
	boolSetting("DeadLetteringOnFilterEvaluationExceptions", subscriptions, func(s *core.Settings) *bool { return &s.DeadLetteringOnFilterEvaluationExceptions }),
	boolSetting("FilteringMessagesBeforePublishing", topics, func(s *core.Settings) *bool { return &s.FilteringMessagesBeforePublishing }),
	boolSetting("EnableSubscriptionPartitioning", topics, func(s *core.Settings) *bool { return &s.EnableSubscriptionPartitioning }),
	numberSetting("MaxDeliveryCount", queues|subscriptions, func(s *core.Settings) *int { return &s.MaxDeliveryCount }),
	boolSetting("EnableBatchedOperations", allKinds, func(s *core.Settings) *bool { return &s.EnableBatchedOperations }),
	textSetting("Status", allKinds, func(s *core.Settings) *core.Status { return &s.Status }),
	textSetting("ForwardTo", queues|subscriptions, func(s *core.Settings) *string { return &s.ForwardTo }),
	textSetting("ForwardDeadLetteredMessagesTo", queues|subscriptions, func(s *core.Settings) *string { return &s.ForwardDeadLetteredMessagesTo }),
	textSetting("UserMetadata", allKinds, func(s *core.Settings) *string { return &s.UserMetadata }),
	durationSetting("AutoDeleteOnIdle", allKinds, func(s *core.Settings) *time.Duration { return &s.AutoDeleteOnIdle }),
	boolSetting("EnablePartitioning", queues|topics, func(s *core.Settings) *bool { return &s.EnablePartitioning }),
	boolSetting("SupportOrdering", queues|topics, func(s *core.Settings) *bool { return &s.SupportOrdering }),
	boolSetting("EnableExpress", queues|topics, func(s *core.Settings) *bool { return &s.EnableExpress }),
	boolSetting("IsAnonymousAccessible", queues|topics, func(s *core.Settings) *bool { return &s.IsAnonymousAccessible }),
	{"AuthorizationRules", queues | topics, readAccessRules, writeAccessRules},
}

func durationSetting(name string, of kinds, field func(*core.Settings) *time.Duration) property {
	return property{name, of, func(r codec.Reader) (func(*core.Settings), error) {
		text, err := frame.ReadText(r)
		if err != nil {
			return nil, err
		}
		d, err := core.ParseDuration(text)
		if err != nil {
			return nil, frame.Wrong("is %.40q: it must be an ISO 8601 duration such as PT1M or P14D", text)
		}
		return func(s *core.Settings) { *field(s) = d }, nil
	}, func(w codec.Writer, s *core.Settings) { w.Text(core.FormatDuration(*field(s))) }}
}

func numberSetting[T int | int64](name string, of kinds, field func(*core.Settings) *T) property {
	return property{name, of, func(r codec.Reader) (func(*core.Settings), error) {
		n, err := readWhole(r, 0, 1<<31-1) // the setting's own limits are the core's
		return func(s *core.Settings) { *field(s) = T(n) }, err
	}, func(w codec.Writer, s *core.Settings) { w.Int(int64(*field(s))) }}
}

func boolSetting(name string, of kinds, field func(*core.Settings) *bool) property {
	return property{name, of, func(r codec.Reader) (func(*core.Settings), error) {
		v, err := readBool(r)
		return func(s *core.Settings) { *field(s) = v }, err
	}, func(w codec.Writer, s *core.Settings) { w.Bool(*field(s)) }}
}

func textSetting[T ~string](name string, of kinds, field func(*core.Settings) *T) property {
	return property{name, of, func(r codec.Reader) (func(*core.Settings), error) {
		text, err := frame.ReadText(r)
		return func(s *core.Settings) { *field(s) = T(text) }, err
	}, func(w codec.Writer, s *core.Settings) { w.Text(string(*field(s))) }}
}

// setting is what a client wants a setting to be.
type setting struct {
	of  *property
	set func(*core.Settings)
}

// readSettings reads settings by their names.
func readSettings(r codec.Reader) (all []setting, err error) {
	err = readMap(r, func(name string) error {
		i := slices.IndexFunc(properties, func(p property) bool { return p.name == name })
		if i < 0 {
			return frame.Wrong("is no setting")
		}
		set, err := properties[i].read(r)
		all = append(all, setting{&properties[i], set})
		return err
	})
	return all, err
}

// apply changes the settings that are named, if entities of the kind have them.
func apply(all []setting, kind core.Kind, s *core.Settings) error {
	for _, n := range all {
		if n.of.of&(1<<kind) == 0 {
			return core.Refuse(core.InvalidArgument, "settings.%s is no setting of a %s.", n.of.name, strings.ToLower(kind.String()))
		}
		n.set(s)
	}
	return nil
}

// writeSettings writes the settings that entities of the kind have.
func writeSettings(w codec.Writer, kind core.Kind, s *core.Settings) {
	w.OpenMap()
	for _, p := range properties {
		if p.of&(1<<kind) != 0 {
			w.Key(p.name)
			p.write(w, s)
		}
	}
	w.CloseMap()
}

// readAccessRules reads all shared access policies of an entity.
func readAccessRules(r codec.Reader) (func(*core.Settings), error) {
	if k := r.Kind(); k != codec.List {
		return nil, frame.Wrong("is %s: it must be a list", k)
	}
	rules := []core.AccessRule{}
	for r.Open(); r.More(); {
		var rule core.AccessRule
		if err := readMap(r, func(name string) (err error) {
			switch name {
			case "KeyName":
				rule.Name, err = frame.ReadText(r)
			case "PrimaryKey":
				rule.PrimaryKey, err = frame.ReadText(r)
			case "SecondaryKey":
				rule.SecondaryKey, err = frame.ReadText(r)
			case "Rights":
				rule.Rights, err = readRights(r)
			default:
				err = frame.Wrong("is no part of an authorization rule")
			}
			return err
		}); err != nil {
			return nil, frame.At(len(rules), err)
		}
		rules = append(rules, rule)
	}
	return func(s *core.Settings) { s.AuthorizationRules = rules }, nil
}

func readRights(r codec.Reader) (rights core.Right, err error) {
	names, err := readItems(r, frame.ReadText)
	if err != nil {
		return 0, err
	}
	if rights, err = core.ParseRights(strings.Join(names, ",")); err != nil {
		return 0, frame.Wrong(`must be of "Send", "Listen" and "Manage"`)
	}
	return rights, nil
}

func writeAccessRules(w codec.Writer, s *core.Settings) {
	w.OpenList()
	for _, rule := range s.AuthorizationRules {
		w.OpenMap()
		w.Key("KeyName")
		w.Text(rule.Name)
		w.Key("PrimaryKey")
		w.Text(rule.PrimaryKey)
		w.Key("SecondaryKey")
		w.Text(rule.SecondaryKey)
		w.Key("Rights")
		writeRights(w, rule.Rights)
		w.CloseMap()
	}
	w.CloseList(len(s.AuthorizationRules))
}

func writeRights(w codec.Writer, rights core.Right) {
	names := strings.Split(rights.String(), ",")
	w.OpenList()
	for _, name := range names {
		w.Text(name)
	}
	w.CloseList(len(names))
}
