package intercept

import (
	"context"

	"github.com/crosstown-mq/crosstown/core"
)

func (f *Front) CreateEntity(ctx context.Context, id core.Identity, kind core.Kind, name string, settings core.Settings, first *core.Rule) (core.Entity, error) {
	return ask(ctx, f, Create, id, core.At(name), func(ctx context.Context, s *Space) (core.Entity, error) {
		return s.Admin.CreateEntity(ctx, id, kind, name, settings, first)
	})
}

func (f *Front) UpdateEntity(ctx context.Context, id core.Identity, name string, settings core.Settings) (core.Entity, error) {
	return ask(ctx, f, Manage, id, core.At(name), func(ctx context.Context, s *Space) (core.Entity, error) {
		return s.Admin.UpdateEntity(ctx, id, name, settings)
	})
}

func (f *Front) DeleteEntity(ctx context.Context, id core.Identity, name string) error {
	return f.tell(ctx, Manage, id, core.At(name), func(ctx context.Context, s *Space) error { return s.Admin.DeleteEntity(ctx, id, name) })
}

func (f *Front) CreateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	return ask(ctx, f, Create, id, core.At(subscription), func(ctx context.Context, s *Space) (core.Rule, error) {
		return s.Admin.CreateRule(ctx, id, subscription, r)
	})
}

func (f *Front) UpdateRule(ctx context.Context, id core.Identity, subscription string, r core.Rule) (core.Rule, error) {
	return ask(ctx, f, Manage, id, core.At(subscription), func(ctx context.Context, s *Space) (core.Rule, error) {
		return s.Admin.UpdateRule(ctx, id, subscription, r)
	})
}

func (f *Front) DeleteRule(ctx context.Context, id core.Identity, subscription, rule string) error {
	return f.tell(ctx, Manage, id, core.At(subscription), func(ctx context.Context, s *Space) error {
		return s.Admin.DeleteRule(ctx, id, subscription, rule)
	})
}

func (f *Front) Rules(ctx context.Context, id core.Identity, subscription string, skip, top int) ([]core.Rule, error) {
	return ask(ctx, f, Read, id, core.At(subscription), func(ctx context.Context, s *Space) ([]core.Rule, error) {
		return s.Admin.Rules(ctx, id, subscription, skip, top)
	})
}

func (f *Front) Rule(ctx context.Context, id core.Identity, subscription, name string) (core.Rule, error) {
	return ask(ctx, f, Read, id, core.At(subscription), func(ctx context.Context, s *Space) (core.Rule, error) {
		return s.Admin.Rule(ctx, id, subscription, name)
	})
}

func (f *Front) TestRules(ctx context.Context, id core.Identity, name string, m *core.Message, trial []core.Rule) ([]core.Judgement, error) {
	return ask(ctx, f, Read, id, core.At(name), func(ctx context.Context, s *Space) ([]core.Judgement, error) {
		return s.Admin.TestRules(ctx, id, name, m, trial)
	})
}

func (f *Front) Entity(ctx context.Context, id core.Identity, name string) (e core.Entity, r core.Runtime, err error) {
	err = f.tell(ctx, Read, id, core.At(name), func(ctx context.Context, s *Space) (err error) {
		e, r, err = s.Admin.Entity(ctx, id, name)
		return err
	})
	return e, r, err
}

func (f *Front) Entities(ctx context.Context, id core.Identity, l core.Listing, skip, top int) (es []core.Entity, rs []core.Runtime, err error) {
	err = f.tell(ctx, Read, id, core.Address{}, func(ctx context.Context, s *Space) (err error) {
		es, rs, err = s.Admin.Entities(ctx, id, l, skip, top)
		return err
	})
	return es, rs, err
}

func (f *Front) Explain(ctx context.Context, id core.Identity, entity string, of core.Subject) (core.Account, error) {
	return ask(ctx, f, Read, id, core.At(entity), func(ctx context.Context, s *Space) (core.Account, error) {
		return s.Admin.Explain(ctx, id, entity, of)
	})
}

func (f *Front) Namespace(ctx context.Context, id core.Identity) (core.NamespaceInfo, error) {
	return ask(ctx, f, Read, id, core.Address{}, func(ctx context.Context, s *Space) (core.NamespaceInfo, error) {
		info, err := s.Admin.Namespace(ctx, id)
		if err == nil && s.Describe != nil {
			s.Describe(&info)
		}
		return info, err
	})
}

func (f *Front) Reset(ctx context.Context, id core.Identity) error {
	return f.tell(ctx, Read, id, core.Address{}, func(ctx context.Context, s *Space) error { return s.Admin.Reset(ctx, id) })
}
