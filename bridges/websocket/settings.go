package websocket

import (
	"math"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// readOne reads the value of a setting.
func readOne(s *core.Setting, r codec.Reader, q *core.Settings) (err error) {
	switch v := s.Of(q).(type) {
	case *time.Duration:
		var text string
		if text, err = frame.ReadText(r); err != nil {
			return err
		}
		if *v, err = core.ParseDuration(text); err != nil {
			return frame.Wrong("is %.40q: it must be an ISO 8601 duration such as PT1M or P14D", text)
		}
	case *int64:
		*v, err = whole[int64](0, math.MaxInt32)(r) // the setting's own limits are the core's
	case *int:
		*v, err = whole[int](0, math.MaxInt32)(r)
	case *bool:
		*v, err = readBool(r)
	case *string:
		*v, err = frame.ReadText(r)
	case *core.Status:
		var text string
		text, err = frame.ReadText(r)
		*v = core.Status(text)
	case *[]core.AccessRule:
		*v, err = frame.ReadList(r, "a list", readAccessRule)
	}
	return err
}

func writeOne(s *core.Setting, w codec.Writer, q *core.Settings) {
	switch v := s.Of(q).(type) {
	case *time.Duration:
		w.Text(core.FormatDuration(*v))
	case *int64:
		w.Int(*v)
	case *int:
		w.Int(int64(*v))
	case *bool:
		w.Bool(*v)
	case *string:
		w.Text(*v)
	case *core.Status:
		w.Text(string(*v))
	case *[]core.AccessRule:
		codec.WriteList(w, *v, writeAccessRule)
	}
}

// settings are those that a client gives.
type settings struct {
	given []*core.Setting
	core.Settings
}

// readSettings reads settings by their names.
func readSettings(r codec.Reader) (all settings, err error) {
	err = readMap(r, func(name string) error {
		s := core.SettingNamed(name)
		if s == nil {
			return frame.Wrong("is no setting")
		}
		all.given = append(all.given, s)
		return readOne(s, r, &all.Settings)
	})
	return all, err
}

// apply changes the settings that are given, if entities of the kind have them.
func (all *settings) apply(kind core.Kind, q *core.Settings) error {
	for _, s := range all.given {
		if !s.Kinds.Has(kind) {
			return core.Refuse(core.InvalidArgument, "settings.%s is no setting of a %s.", s.Name, strings.ToLower(kind.String()))
		}
		s.Copy(q, &all.Settings)
	}
	return nil
}

// writeSettings writes the settings that entities of the kind have.
func writeSettings(w codec.Writer, kind core.Kind, q *core.Settings) {
	w.OpenMap()
	for i := range core.AllSettings {
		if s := &core.AllSettings[i]; s.Kinds.Has(kind) {
			writeOne(s, w.Key(s.Name), q)
		}
	}
	w.CloseMap()
}

// readAccessRule reads a shared access policy of an entity.
func readAccessRule(r codec.Reader) (rule core.AccessRule, err error) {
	err = readMap(r, func(name string) (err error) {
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
	})
	return rule, err
}

func readRights(r codec.Reader) (rights core.Right, err error) {
	names, err := items(frame.ReadText)(r)
	if err != nil {
		return 0, err
	}
	if rights, err = core.ParseRights(strings.Join(names, ",")); err != nil {
		return 0, frame.Wrong(`must be of "Send", "Listen" and "Manage"`)
	}
	return rights, nil
}

func writeAccessRule(w codec.Writer, rule core.AccessRule) {
	w.OpenMap()
	w.Key("KeyName").Text(rule.Name)
	w.Key("PrimaryKey").Text(rule.PrimaryKey)
	w.Key("SecondaryKey").Text(rule.SecondaryKey)
	writeRights(w.Key("Rights"), rule.Rights)
	w.CloseMap()
}

func writeRights(w codec.Writer, rights core.Right) {
	codec.WriteList(w, strings.Split(rights.String(), ","), codec.Writer.Text)
}
