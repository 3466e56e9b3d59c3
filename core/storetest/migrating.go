package storetest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// migrate sweeps, and makes each store import the other's export, which does not sweep.
func (p *player) migrate() {
	p.Helper()
	p.everywhere(p.sweep)
	p.subjects = slices.DeleteFunc(p.subjects, func(pl *subject) bool {
		if pl.Subscription == "" {
			return false
		}
		_, err := p.a.Entity(p.Context(), pl.entity.Namespace, pl.entity.Name)
		return err != nil
	})
	model, engine := p.export(p.a), p.export(p.b)
	p.tell("migrate %d things", len(model))
	got, want := p.known(engine), p.known(model)
	for i := range min(len(got), len(want)) {
		if diff := diffStored(&got[i], &want[i]); diff != "" {
			p.fail("exported thing %d differs (got: engine, want: model): %s", i, diff)
		}
	}
	if len(got) != len(want) {
		p.fail("the engine exports %d things, the model %d", len(got), len(want))
	}

	old := p.entity
	p.deafen()
	p.ears = nil
	p.sameCode("delete what was migrated", p.a.DeleteEntity(p.Context(), old.Namespace, old.Name), p.b.DeleteEntity(p.Context(), old.Namespace, old.Name))
	p.entity.Name, p.entity.ID = old.Name+"-moved", old.ID+"moved"
	p.createEverywhere(p.entity)
	for _, pl := range p.subjects {
		pl.Entity = p.entity.ID
		if pl.Subscription == "" {
			continue
		}
		_, name, _ := core.SplitSubscription(pl.entity.Name)
		pl.entity.Name, pl.entity.TopicID = core.SubscriptionPath(p.entity.Name, name), p.entity.ID
		p.createEverywhere(pl.entity)
	}
	r := p.subjects[0].Ref
	for store, things := range map[core.Store][]core.Stored{p.a: engine, p.b: model} {
		if err := p.backups(store).Import(p.Context(), r, stream(things, nil)); err != nil {
			p.fail("import into %T: %v", store, err)
		}
	}
	for _, pl := range p.subjects {
		pl.History = core.HistoryBounds{} // histories may lack the ids of imported messages, so they cannot be compared any more
		p.listen(pl)
	}
}

func (p *player) createEverywhere(e core.Entity) {
	p.Helper()
	for _, store := range []core.Store{p.a, p.b} {
		if _, err := store.CreateEntity(p.Context(), e, core.NamespaceQuotas{}); err != nil {
			p.fail("create %s in %T: %v", &e, store, err)
		}
	}
}

func (p *player) backups(store core.Store) core.Backups {
	p.Helper()
	b, ok := store.(core.Backups)
	if !ok {
		p.fail("%T exports nothing", store)
	}
	return b
}

func (p *player) export(store core.Store) (all []core.Stored) {
	p.Helper()
	err := p.backups(store).Export(p.Context(), p.subjects[0].Ref, func(x *core.Stored) error {
		all = append(all, *x)
		return nil
	})
	if err != nil {
		p.fail("export from %T: %v", store, err)
	}
	return all
}

// known sorts ids (those of one time have no order), and drops what an engine may have forgotten.
func (p *player) known(all []core.Stored) []core.Stored {
	now := p.clock.Now()
	var things, ids []core.Stored
	for _, x := range all {
		switch {
		case x.Kind == core.StoredSeen && x.Time.Add(p.subjects[0].DuplicateWindow).After(now),
			x.Kind == core.StoredMove && x.Time.Add(core.KeyLife).After(now):
			ids = append(ids, x)
		case x.Kind != core.StoredSeen && x.Kind != core.StoredMove:
			things = append(things, x)
		}
	}
	slices.SortFunc(ids, func(x, y core.Stored) int {
		return cmp.Or(strings.Compare(x.Subscription, y.Subscription), cmp.Compare(x.Kind, y.Kind), x.Time.Compare(y.Time), strings.Compare(x.Key, y.Key))
	})
	return append(things, ids...)
}
