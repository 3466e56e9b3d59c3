package websocket

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges"
	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

func (c *conn) entities(ctx context.Context, o call) (answer, error) {
	all, counts, err := bridges.Entities(ctx, c.bridge.front, o.id, core.Listing{Kind: o.kind, Topic: o.topic}, o.skip, o.top)
	return func(w codec.Writer) {
		w.Key("entities").OpenList()
		for i := range all {
			writeEntity(w, &all[i], &counts[i])
		}
		w.CloseList(len(all))
	}, err
}

func (c *conn) entity(ctx context.Context, o call) (answer, error) {
	e, counts, err := c.bridge.front.Entity(ctx, o.id, o.entity)
	return func(w codec.Writer) { writeEntity(w.Key("entity"), &e, &counts) }, err
}

func (c *conn) create(ctx context.Context, o call) (answer, error) {
	settings := core.DefaultSettings(o.kind)
	if err := o.settings.apply(o.kind, &settings); err != nil {
		return nil, err
	}
	ordering := func(s *core.Setting) bool { return s.Name == "SupportOrdering" }
	if settings.EnablePartitioning && !slices.ContainsFunc(o.settings.given, ordering) {
		settings.SupportOrdering = false // messages of different partitions have no order
	}
	if err := mayForward(o.id, &core.Settings{}, &settings); err != nil {
		return nil, err
	}
	if _, err := c.bridge.front.CreateEntity(ctx, o.id, o.kind, o.entity, settings, o.rule); err != nil {
		return nil, err
	}
	return c.entity(ctx, o)
}

func (c *conn) update(ctx context.Context, o call) (answer, error) {
	e, _, err := c.bridge.front.Entity(ctx, o.id, o.entity)
	if err != nil {
		return nil, err
	}
	settings := e.Settings
	if err := o.settings.apply(e.Kind, &settings); err != nil {
		return nil, err
	}
	if err := mayForward(o.id, &e.Settings, &settings); err != nil {
		return nil, err
	}
	if _, err := c.bridge.front.UpdateEntity(ctx, o.id, o.entity, settings); err != nil {
		return nil, err
	}
	return c.entity(ctx, o)
}

// mayForward checks the right Send on new destinations, to which the client's messages will go.
func mayForward(id core.Identity, before, after *core.Settings) error {
	for setting, to := range bridges.Destinations(before, after) {
		if id.Check(core.Send, to, time.Now()) != nil {
			return core.Refuse(core.Unauthorized, "%s: Unauthorized access. 'Send' claim(s) are required on '%s': also sign in with a token for that entity.", setting, to)
		}
	}
	return nil
}

func (c *conn) remove(ctx context.Context, o call) (answer, error) {
	return nil, c.bridge.front.DeleteEntity(ctx, o.id, o.entity)
}

func writeEntity(w codec.Writer, e *core.Entity, counts *core.Runtime) {
	w.OpenMap()
	w.Key("kind").Text(e.Kind.Word())
	w.Key("name").Text(e.Name)
	for _, at := range [...]struct {
		key string
		t   time.Time
	}{{"created", e.CreatedAt}, {"updated", e.UpdatedAt}, {"accessed", e.AccessedAt}} {
		w.Key(at.key)
		if at.t.IsZero() {
			w.Null()
		} else {
			w.Instant(at.t.UnixMilli())
		}
	}
	w.Key("partitions").Int(int64(e.Partitions))
	writeSettings(w.Key("settings"), e.Kind, &e.Settings)
	w.Key("counts").OpenMap()
	for _, n := range [...]struct {
		key string
		n   int64
	}{
		{"active", counts.Active},
		{"locked", counts.Locked},
		{"deferred", counts.Deferred},
		{"scheduled", counts.Scheduled},
		{"deadLetter", counts.DeadLetter},
		{"transfer", counts.Transfer},
		{"transferDeadLetter", counts.TransferDeadLetter},
		{"damaged", counts.Damaged},
		{"bytes", counts.Bytes},
		{"subscriptions", int64(counts.Subscriptions)},
		{"enqueued", counts.Enqueued},
		{"consumers", int64(counts.Consumers)},
	} {
		w.Key(n.key).Int(n.n)
	}
	w.CloseMap()
	w.Key("availability").Text(counts.Availability)
	for _, n := range []struct{ key, text string }{
		{"rateLimit", counts.RateLimit}, {"circuitBreaker", counts.CircuitBreaker}, {"keepDeadLetters", counts.KeepDeadLetters},
	} {
		if n.text != "" {
			w.Key(n.key).Text(n.text)
		}
	}
	w.CloseMap()
}

func (c *conn) connections(ctx context.Context, o call) (answer, error) {
	all, err := c.bridge.opts.Clients.Connections(ctx, o.id)
	return func(w codec.Writer) { codec.WriteList(w.Key("connections"), all, writeConnection) }, err
}

func (c *conn) closeConnection(ctx context.Context, o call) (answer, error) {
	_, err := c.bridge.opts.Clients.Close(ctx, o.id, o.connection)
	return nil, err
}

func writeConnection(w codec.Writer, about bridges.Connection) {
	w.OpenMap()
	for _, m := range [...]struct{ key, text string }{{"id", about.ID}, {"protocol", about.Protocol}, {"peer", about.Peer}, {"product", about.Product}, {"namespace", about.Namespace}} {
		w.Key(m.key).Text(m.text)
	}
	w.Key("since").Instant(about.Since.UnixMilli())
	codec.WriteList(w.Key("policies"), about.Policies, codec.Writer.Text)
	codec.WriteList(w.Key("links"), about.Links, writeLink)
	w.CloseMap()
}

func writeLink(w codec.Writer, l bridges.Link) {
	w.OpenMap()
	w.Key("entity").Text(l.Entity)
	w.Key("direction").Text(l.Direction)
	if l.Mode != "" {
		w.Key("mode").Text(l.Mode)
	}
	if l.Session != nil {
		w.Key("session").Text(*l.Session)
	}
	w.CloseMap()
}

func readOne(s *core.Setting, r *codec.Reader, q *core.Settings) (err error) {
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
		*v, err = whole[int64](0, math.MaxInt32)(r) // core checks the setting's own limits
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

type settings struct {
	given []*core.Setting
	core.Settings
}

func readSettings(r *codec.Reader) (all settings, err error) {
	err = frame.ReadMap(r, "a map", func(name string) error {
		s := core.SettingNamed(name)
		if s == nil {
			return frame.Wrong("is not a setting")
		}
		all.given = append(all.given, s)
		return readOne(s, r, &all.Settings)
	})
	return all, err
}

func (all *settings) apply(kind core.Kind, q *core.Settings) error {
	for _, s := range all.given {
		if !s.Kinds.Has(kind) {
			return core.Refuse(core.InvalidArgument, "settings.%s is not a setting of a %s.", s.Name, kind.Word())
		}
		s.Copy(q, &all.Settings)
	}
	return nil
}

func writeSettings(w codec.Writer, kind core.Kind, q *core.Settings) {
	w.OpenMap()
	for i := range core.AllSettings {
		if s := &core.AllSettings[i]; s.Kinds.Has(kind) {
			writeOne(s, w.Key(s.Name), q)
		}
	}
	w.CloseMap()
}

func readAccessRule(r *codec.Reader) (rule core.AccessRule, err error) {
	err = frame.ReadMap(r, "a map", func(name string) (err error) {
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
			err = frame.Wrong("does not belong in an authorization rule")
		}
		return err
	})
	return rule, err
}

func readRights(r *codec.Reader) (rights core.Right, err error) {
	names, err := items(frame.ReadText)(r)
	if err != nil {
		return 0, err
	}
	if rights, err = core.ParseRights(strings.Join(names, ",")); err != nil {
		return 0, frame.Wrong(`must be one of "Send", "Listen" and "Manage"`)
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
