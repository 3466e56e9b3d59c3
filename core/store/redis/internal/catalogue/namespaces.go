package catalogue

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/conn"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/keyspace"
	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

func (s *Catalogue) withRegistry(ctx context.Context, what, name string, f func(ctx context.Context, k keyspace.Registry, folded string) error) error {
	return s.server.Call(ctx, what+" "+name, func(ctx context.Context) error { return f(ctx, s.server.Names.Registry(), core.FoldName(name)) })
}

func (s *Catalogue) changeRegistry(ctx context.Context, sc *script.Script, keys []any, folded string, args ...any) error {
	if _, err := s.change(ctx, sc, keys, "", []string{folded}, args...); err != nil {
		return err
	}
	s.changes.notify("", folded)
	return nil
}

func (s *Catalogue) CreateNamespace(ctx context.Context, n core.Namespace) (core.Namespace, error) {
	n.Revision = 1
	err := s.withRegistry(ctx, "create namespace", n.Name, func(ctx context.Context, k keyspace.Registry, folded string) error {
		value, err := encode(n.Revision, n.ID, &n)
		if err != nil {
			return err
		}
		return s.changeRegistry(ctx, script.NamespaceCreate, []any{k.Namespaces, k.Names}, folded, value)
	})
	return n, err
}

func (s *Catalogue) Namespace(ctx context.Context, name string) (n core.Namespace, err error) {
	err = s.withRegistry(ctx, "read namespace", name, func(ctx context.Context, k keyspace.Registry, folded string) error {
		value, err := s.server.RDB.HGet(ctx, k.Namespaces, folded).Result()
		if conn.IsNil(err) {
			return core.NotFound
		}
		if err != nil {
			return err
		}
		return decode("namespace", value, &n)
	})
	return n, err
}

func (s *Catalogue) Namespaces(ctx context.Context, after string, top int) (ns []core.Namespace, err error) {
	from := "-"
	if after != "" {
		from = "(" + core.FoldName(after)
	}
	err = s.withRegistry(ctx, "list namespaces", "", func(ctx context.Context, k keyspace.Registry, _ string) error {
		for len(ns) < top {
			want := top - len(ns)
			names, err := s.server.RDB.ZRangeByLex(ctx, k.Names, &redis.ZRangeBy{Min: from, Max: "+", Count: int64(want)}).Result()
			if err == nil && len(names) < want {
				err = s.server.Intact()
			}
			if err != nil || len(names) == 0 {
				return err
			}
			values, err := s.server.RDB.HMGet(ctx, k.Namespaces, names...).Result()
			if err != nil {
				return err
			}
			for _, value := range values {
				text, ok := value.(string)
				if !ok {
					continue // the namespace was deleted meanwhile: another one is read instead
				}
				var n core.Namespace
				if err := decode("namespace", text, &n); err != nil {
					return err
				}
				ns = append(ns, n)
			}
			if len(names) < want {
				return nil
			}
			from = "(" + names[len(names)-1]
		}
		return nil
	})
	return ns, err
}

func (s *Catalogue) UpdateNamespace(ctx context.Context, n core.Namespace) (core.Namespace, error) {
	err := s.withRegistry(ctx, "update namespace", n.Name, func(ctx context.Context, k keyspace.Registry, folded string) error {
		old := revisionPrefix(n.Revision, n.ID)
		n.Revision++
		value, err := encode(n.Revision, n.ID, &n)
		if err != nil {
			return err
		}
		return s.changeRegistry(ctx, script.NamespaceUpdate, []any{k.Namespaces}, folded, old, value)
	})
	return n, err
}

func (s *Catalogue) DeleteNamespace(ctx context.Context, name string) error {
	err := s.withRegistry(ctx, "delete namespace", name, func(ctx context.Context, k keyspace.Registry, folded string) error {
		return s.changeRegistry(ctx, script.NamespaceDelete, []any{k.Namespaces, k.Names, k.Remains}, folded, s.server.Millis())
	})
	if err == nil {
		s.removals.Set()
	}
	return err
}
