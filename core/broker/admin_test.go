package broker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/forward"
)

func TestAQueueIsCreatedReadListedAndDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		ent := b.create(t, "Orders")
		if ent.Partitions != 1 || ent.Settings.MaxSizeInMegabytes != 1024 || ent.Revision != 1 || ent.CreatedAt.IsZero() {
			t.Errorf("created: %+v", ent)
		}
		_, err := b.CreateEntity(t.Context(), root, core.Queue, "orders", core.DefaultSettings(core.Queue), nil)
		if !errors.Is(err, core.AlreadyExists) || !strings.HasPrefix(core.TextOf(err), "Conflict. ") {
			t.Errorf("again: got %v", err)
		}
		got, rt, err := b.Entity(t.Context(), root, "ORDERS")
		if err != nil || got.Name != "Orders" || rt.Availability != "Available" {
			t.Errorf("read: got %+v, %+v, %v", got, rt, err)
		}
		b.create(t, "a")
		b.create(t, "z")
		ents, rts, err := b.Entities(t.Context(), root, core.Listing{}, 1, 1)
		if err != nil || len(ents) != 1 || len(rts) != 1 || ents[0].Name != "Orders" {
			t.Errorf("listed: got %v, %v", ents, err)
		}
		if err := b.DeleteEntity(t.Context(), root, "orders"); err != nil {
			t.Error(err)
		}
		for name, err := range map[string]error{
			"delete": b.DeleteEntity(t.Context(), root, "orders"),
			"read":   errorOf2(b.Entity(t.Context(), root, "orders")),
			"update": errorOf(b.UpdateEntity(t.Context(), root, "orders", core.DefaultSettings(core.Queue))),
		} {
			if !errors.Is(err, core.NotFound) || !strings.HasPrefix(core.TextOf(err), "The messaging entity 'orders' could not be found.") {
				t.Errorf("%s what is gone: got %v", name, err)
			}
		}
		if info, err := b.Namespace(t.Context(), root); err != nil || info.Name != "ns" || info.CreatedAt.IsZero() {
			t.Errorf("namespace: got %+v, %v", info, err)
		}
	})
}

func errorOf[A any](_ A, err error) error          { return err }
func errorOf2[A, B any](_ A, _ B, err error) error { return err }

func TestAdministrationNeedsManage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		id := core.Identity{{Rights: core.Send | core.Listen}}
		settings := core.DefaultSettings(core.Queue)
		ctx := t.Context()
		for i, err := range []error{
			errorOf2(b.Entity(ctx, id, "q")), errorOf2(b.Entities(ctx, id, core.Listing{}, 0, 1)), errorOf(b.Namespace(ctx, id)),
			errorOf(b.CreateEntity(ctx, id, core.Queue, "new", settings, nil)), errorOf(b.UpdateEntity(ctx, id, "q", settings)),
			b.DeleteEntity(ctx, id, "q"),
		} {
			if !errors.Is(err, core.Unauthorized) || !strings.Contains(core.TextOf(err), "'Manage' claim(s) are required") {
				t.Errorf("%d: got %v", i, err)
			}
		}
		expired := core.Identity{{Rights: core.AllRights, Expires: time.Now().Add(-time.Second)}}
		if err := b.DeleteEntity(ctx, expired, "q"); !strings.HasPrefix(core.TextOf(err), "ExpiredToken") {
			t.Errorf("expired: got %v", err)
		}
		local := core.Identity{{Rights: core.AllRights, Scope: "q"}}
		if err := errorOf2(b.Entity(ctx, local, "q")); err != nil {
			t.Errorf("manager of the entity: got %v", err)
		}
		if err := errorOf2(b.Entities(ctx, local, core.Listing{}, 0, 1)); !errors.Is(err, core.Unauthorized) {
			t.Errorf("manager of the entity lists the namespace: got %v", err)
		}
	})
}

func TestCreationRefusesWhatIsNotValid(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		for text, c := range map[string]struct {
			name   string
			change func(*core.Settings)
			code   core.Code
		}{
			"LockDuration is 25h0m0s":               {"q", func(s *core.Settings) { s.LockDuration = 25 * time.Hour }, core.OutOfRange},
			"The entity name '$cbs' is not allowed": {"$cbs", func(*core.Settings) {}, core.InvalidArgument},
		} {
			s := core.DefaultSettings(core.Queue)
			c.change(&s)
			_, err := b.CreateEntity(t.Context(), root, core.Queue, c.name, s, nil)
			if core.CodeOf(err) != c.code || !strings.Contains(core.TextOf(err), text) {
				t.Errorf("got %v, want %s: %s…", err, c.code, text)
			}
		}
	})
}

func TestUpdateKeepsWhatIsFixedAtCreation(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		for text, change := range map[string]func(*core.Settings){
			"The value for the RequiresSession property of an existing Queue cannot be changed. ":            func(s *core.Settings) { s.RequiresSession = true },
			"The value for the RequiresDuplicateDetection property of an existing Queue cannot be changed. ": func(s *core.Settings) { s.RequiresDuplicateDetection = true },
			"Partitioning cannot be changed for Queue. ":                                                     partitioned,
		} {
			s := core.DefaultSettings(core.Queue)
			change(&s)
			if _, err := b.UpdateEntity(t.Context(), root, "q", s); !errors.Is(err, core.InvalidArgument) || core.TextOf(err) != text {
				t.Errorf("got %v, want %s", err, text)
			}
		}
		s := core.DefaultSettings(core.Queue)
		s.MaxDeliveryCount, s.UserMetadata = 3, "mine"
		time.Sleep(time.Second)
		got, err := b.UpdateEntity(t.Context(), root, "q", s)
		if err != nil || got.Settings.MaxDeliveryCount != 3 || got.Settings.UserMetadata != "mine" || got.Revision != 2 || got.UpdatedAt.Sub(got.CreatedAt) != time.Second {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestAnUpdateThatMeetsAnotherIsTriedOnceMore(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		for conflicts, want := range map[int]core.Code{1: "", 2: core.Conflict} {
			b.wrap(&contended{Store: b.store.Store, left: conflicts})
			_, err := b.UpdateEntity(t.Context(), root, "q", core.DefaultSettings(core.Queue))
			if core.CodeOf(err) != want || err != nil && !strings.HasPrefix(core.TextOf(err), "Another conflicting operation") {
				t.Errorf("%d conflicts: got %v, want %q", conflicts, err, want)
			}
		}
	})
}

// contended is a store in which the first updates meet another.
type contended struct {
	core.Store
	left int
}

func (c *contended) UpdateEntity(ctx context.Context, e core.Entity, q core.NamespaceQuotas) (core.Entity, error) {
	if c.left--; c.left >= 0 {
		return core.Entity{}, core.Conflict
	}
	return c.Store.UpdateEntity(ctx, e, q)
}

func (c *contended) ChangeRule(ctx context.Context, e core.Entity, change core.RuleChange) (core.Entity, int64, error) {
	if c.left--; c.left >= 0 {
		return core.Entity{}, 0, core.Conflict
	}
	return c.Store.ChangeRule(ctx, e, change)
}

func TestAPartitionedQueueReportsSixteenfoldAndSharesIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		ent := b.create(t, "q", partitioned, func(s *core.Settings) {
			s.MaxSizeInMegabytes, s.MaxMessageSizeInKilobytes = 4096, 1024
		})
		check := func(step string, ent core.Entity, wants int64) {
			t.Helper()
			if ent.Settings.MaxSizeInMegabytes != wants || ent.Settings.MaxMessageSizeInKilobytes != 1024 || ent.Partitions != 4 {
				t.Errorf("%s: got %d MB in %d partitions, messages of %d KB, want %d in 4, 1024", step,
					ent.Settings.MaxSizeInMegabytes, ent.Partitions, ent.Settings.MaxMessageSizeInKilobytes, wants)
			}
			e, err := b.entity(t.Context(), "q")
			if err != nil {
				t.Fatal(err)
			}
			if got := e.View().Queues[core.Main][3].MaxBytes * 4; got != wants<<20 {
				t.Errorf("%s: the partitions may hold %d bytes together, want %d MB", step, got, wants)
			}
		}
		check("created", ent, 65536)
		read, _, err := b.Entity(t.Context(), root, "q")
		if err != nil {
			t.Fatal(err)
		}
		check("read", read, 65536)
		ent, err = b.UpdateEntity(t.Context(), root, "q", read.Settings)
		if err != nil {
			t.Fatal(err)
		}
		check("sent back", ent, 65536)
		read.Settings.MaxSizeInMegabytes = 1024
		if ent, err = b.UpdateEntity(t.Context(), root, "q", read.Settings); err != nil {
			t.Fatal(err)
		}
		check("a new size of each partition", ent, 16384)
		b.create(t, "plain", partitioned)
		if a := b.sender(t, "plain").Send(t.Context(), each(text(strings.Repeat("x", 1<<20))))[0]; !errors.Is(a.Err, core.TooLarge) {
			t.Errorf("1 MB: got %v, want %v", a.Err, core.TooLarge)
		}
	})
}

func TestTheSizeOfMessagesIsTheDefaultOrLarge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limits       core.Limits
		asked, wants int64 // wants 0: it is refused
	}{
		{core.Limits{}, 0, 256},
		{core.Limits{}, 256, 256},
		{core.Limits{}, 1024, 1024},
		{core.Limits{}, 102400, 102400},
		{core.Limits{}, 1, 0},
		{core.Limits{}, 255, 0},
		{core.Limits{}, 257, 0},
		{core.Limits{}, 1023, 0},
		{core.Limits{}, 102401, 0},
		{core.Limits{}, -1, 0},
		{core.StandardLimits(), 0, 256},
		{core.StandardLimits(), 256, 256},
		{core.StandardLimits(), 1024, 0},
		{core.PremiumLimits(), 0, 1024},
		{core.PremiumLimits(), 256, 256},
		{core.PremiumLimits(), 102400, 102400},
	} {
		b := strict(t, c.limits)
		s := core.DefaultSettings(core.Topic)
		s.MaxMessageSizeInKilobytes = c.asked
		ent, err := b.CreateEntity(t.Context(), root, core.Topic, "t", s, nil)
		switch {
		case c.wants == 0 && core.CodeOf(err) != core.OutOfRange, c.wants != 0 && err != nil, ent.Settings.MaxMessageSizeInKilobytes != c.wants:
			t.Errorf("%s tier, %d: got %d, %v, want %d", c.limits.Tier, c.asked, ent.Settings.MaxMessageSizeInKilobytes, err, c.wants)
		case c.wants == 0 && c.limits.Tier == "" && !strings.Contains(core.TextOf(err), "value for 'MaxMessageSizeInKilobytes' must be between 1024 and 102400"):
			t.Errorf("%d: got %v", c.asked, err)
		}
	}
}

// Clients send back what they read; some have no word for the setting.
func TestAnUpdateKeepsTheSizeOfMessagesThatAnEntityHas(t *testing.T) {
	t.Parallel()
	b := strict(t, core.Limits{})
	if err := made(b.CreateEntity(t.Context(), root, core.Queue, "q", core.DefaultSettings(core.Queue), nil)); err != nil {
		t.Fatal(err)
	}
	old, err := b.store.Entity(t.Context(), "ns", "q")
	if err != nil {
		t.Fatal(err)
	}
	old.Settings.MaxMessageSizeInKilobytes = 512 // an earlier version took it
	if _, err := b.store.UpdateEntity(t.Context(), old, core.NamespaceQuotas{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ asked, wants int64 }{{512, 512}, {0, 512}, {513, 0}, {2048, 2048}, {0, 2048}, {512, 0}} {
		s := core.DefaultSettings(core.Queue)
		s.MaxMessageSizeInKilobytes = c.asked
		ent, err := b.UpdateEntity(t.Context(), root, "q", s)
		if (err == nil) != (c.wants != 0) || ent.Settings.MaxMessageSizeInKilobytes != c.wants {
			t.Errorf("%d: got %d, %v, want %d", c.asked, ent.Settings.MaxMessageSizeInKilobytes, err, c.wants)
		}
	}
}

func TestExpressEntitiesDetectNoDuplicates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limits                    core.Limits
		express, dups, partitions bool
		ok                        bool
	}{
		{core.Limits{}, true, true, false, false},
		{core.Limits{}, true, false, true, true},
		{core.StandardLimits(), true, false, true, true},
		{core.PremiumLimits(), true, false, false, false},
		{core.PremiumLimits(), false, false, true, false},
		{core.PremiumLimits(), false, true, false, true},
	} {
		b := strict(t, c.limits)
		s := core.DefaultSettings(core.Queue)
		s.EnableExpress, s.RequiresDuplicateDetection, s.EnablePartitioning = c.express, c.dups, c.partitions
		if err := made(b.CreateEntity(t.Context(), root, core.Queue, "q", s, nil)); (err == nil) != c.ok || err != nil && core.CodeOf(err) != core.InvalidArgument {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func TestTheNamespaceIsOfTheTierWhoseLimitsHold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limits core.Limits
		tier   string
		units  int
	}{{core.Limits{}, "Standard", 0}, {core.StandardLimits(), "Standard", 0}, {core.PremiumLimits(), "Premium", 1}} {
		got, err := strict(t, c.limits).Namespace(t.Context(), root)
		if err != nil || got.Tier != c.tier || got.MessagingUnits != c.units {
			t.Errorf("got %+v, %v, want %s with %d units", got, err, c.tier, c.units)
		}
	}
}

func TestRuntimeCountsAllPartitions(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		later := text("later")
		later.ScheduledEnqueueTime = time.Now().Add(time.Hour)
		b.send(t, "q", append(numbered(8), later)...)
		in := b.receive(t, "q", core.PeekLock, 3)
		ds := in.take()
		settle(t, b, "q", core.DeadLetterOutcome, ds[0])
		settle(t, b, "q", core.Defer, ds[1])
		in.Close()
		_, rt, err := b.Entity(t.Context(), root, "q")
		if err != nil || rt.Active != 7 || rt.Scheduled != 1 || rt.DeadLetter != 1 || rt.Bytes == 0 || rt.Enqueued != 9 {
			t.Errorf("got %+v, %v, want 7 active, 1 scheduled, 1 dead, 9 enqueued", rt, err)
		}
	})
}

func TestAnUnhealthyPartitionLimitsAnEntity(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.send(t, "q", numbered(8)...)
		b.store.fail(errors.New("connection refused"), 2)
		if _, rt, err := b.Entity(t.Context(), root, "q"); err != nil || rt.Availability != "Limited" || rt.Active != 6 {
			t.Errorf("read: got %+v, %v, want Limited and the 6 that others hold", rt, err)
		}
		s := core.DefaultSettings(core.Queue)
		s.EnablePartitioning = true
		if _, err := b.UpdateEntity(t.Context(), root, "q", s); !errors.Is(err, core.Busy) {
			t.Errorf("update: got %v, want %v", err, core.Busy)
		}
		if err := b.DeleteEntity(t.Context(), root, "q"); !errors.Is(err, core.Busy) {
			t.Errorf("delete: got %v, want %v", err, core.Busy)
		}
	})
}

func TestIdleEntitiesAreDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		soon := func(s *core.Settings) { s.AutoDeleteOnIdle = 5 * time.Minute }
		for _, name := range []string{"unused", "waiting", "busy", "scheduled", "elsewhere"} {
			b.create(t, name, soon)
		}
		b.create(t, "lasting")
		in := b.receive(t, "waiting", core.PeekLock, 1)
		later := text("m")
		later.ScheduledEnqueueTime = time.Now().Add(30 * time.Minute)
		b.send(t, "scheduled", later)
		for range 5 {
			time.Sleep(4 * time.Minute)
			b.send(t, "busy", text("m"))
			if err := b.store.TouchEntities(t.Context(), "ns", map[string]time.Time{"elsewhere": b.store.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		names := func() string {
			ents, err := b.store.Entities(t.Context(), "ns", core.Listing{}, 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, e := range ents {
				all = append(all, e.Name)
			}
			return strings.Join(all, " ")
		}
		if got := names(); got != "busy elsewhere lasting scheduled waiting" {
			t.Errorf("after 20 minutes there are %q", got)
		}
		b.create(t, "late", soon)
		time.Sleep(5*time.Minute + touchInterval)
		synctest.Wait()
		if got := names(); got != "lasting scheduled waiting" {
			t.Errorf("soon after the last one became idle there are %q", got)
		}
		in.Close()
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if got := names(); got != "lasting" {
			t.Errorf("after everybody left there are %q", got)
		}
	})
}

func TestAnEntityInUseAtAnotherGatewayIsNotIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", func(s *core.Settings) { s.AutoDeleteOnIdle = 5 * time.Minute })
		time.Sleep(touchInterval / 4) // so that the gateways do not look at the same time
		other := startGateway(b.store)
		defer other.end()
		for range 3 {
			time.Sleep(5*time.Minute - touchInterval/3)
			s, err := other.OpenSender(t.Context(), root, core.At("q"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if a := s.Send(t.Context(), each(text("m")))[0]; a.Err != nil {
				t.Fatal(a.Err)
			}
			s.Close()
		}
		time.Sleep(4 * time.Minute)
		if _, err := b.store.Entity(t.Context(), "ns", "q"); err != nil {
			t.Errorf("four minutes after its last use: %v", err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if _, err := b.store.Entity(t.Context(), "ns", "q"); core.CodeOf(err) != core.NotFound {
			t.Errorf("six minutes after its last use: %v", err)
		}
	})
}

// A gateway with thousands of entities reads them again only when one of them can be idle.
func TestEntitiesAreReadForIdleOnesOnlyIfOneCanBe(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "lasting")
		walks := func(d time.Duration) int { // for idle entities, besides those of the forwarders
			before := b.store.listCalls()
			time.Sleep(d)
			synctest.Wait()
			return (b.store.listCalls()-before)/2 - int(d/forward.ScanInterval) // a walk lists queues, then topics
		}
		walks(forward.ScanInterval)
		for _, c := range []struct {
			does string
			do   func()
			want int
		}{
			{"nothing happens", func() {}, 0},
			{"an entity is created", func() { b.create(t, "another") }, 1},
			{"one is created that can be idle", func() { b.create(t, "hour", func(s *core.Settings) { s.AutoDeleteOnIdle = time.Hour }) }, 1},
			{"it is deleted, and others are looked for", func() {}, 2},
			{"none is left that can be idle", func() {}, 0},
		} {
			c.do()
			if got := walks(5 * forward.ScanInterval); got != c.want {
				t.Errorf("%s: all entities are read %d times, want %d", c.does, got, c.want)
			}
		}
	})
}

func TestWithoutAutoDeleteOnIdleAnEntityIsNeverIdle(t *testing.T) {
	ent := core.Entity{Settings: core.DefaultSettings(core.Queue)}
	if last := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC); !idleFrom(&ent).After(last) {
		t.Errorf("an entity that was never used is idle from %v", idleFrom(&ent))
	}
}

func TestLastUseIsRecordedInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		time.Sleep(time.Minute)
		used := b.store.Now()
		b.send(t, "q", text("m"))
		time.Sleep(touchInterval + time.Second)
		ent, err := b.store.Entity(t.Context(), "ns", "q")
		if err != nil || used.Sub(ent.AccessedAt) > time.Millisecond {
			t.Fatalf("accessed at %v, %v, want %v", ent.AccessedAt, err, used)
		}
		time.Sleep(time.Minute)
		used = b.store.Now()
		if _, err := b.Peek(t.Context(), root, core.At("q"), nil, 0, 1); err != nil {
			t.Fatal(err)
		}
		b.stop()
		if ent, err = b.store.Entity(t.Context(), "ns", "q"); err != nil || used.Sub(ent.AccessedAt) > time.Millisecond {
			t.Fatalf("after the stop: accessed at %v, %v, want %v", ent.AccessedAt, err, used)
		}
	})
}

func TestAccessRulesSayWhenTheyWereMadeAndChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		made := b.store.Now()
		given := []core.AccessRule{{Name: "a", PrimaryKey: "k", Rights: core.Send}, {Name: "b", PrimaryKey: "k", Rights: core.Send, CreatedAt: made.Add(-time.Hour)}}
		ent := b.create(t, "q", func(s *core.Settings) { s.AuthorizationRules = given })
		given[0].Name = "changed"
		time.Sleep(time.Minute)
		ent.Settings.AuthorizationRules[1].PrimaryKey = "other"
		ent.Settings.AuthorizationRules = append(ent.Settings.AuthorizationRules, core.AccessRule{Name: "c", PrimaryKey: "k", Rights: core.Listen})
		ent, err := b.UpdateEntity(t.Context(), root, "q", ent.Settings)
		if err != nil {
			t.Fatal(err)
		}
		now := made.Add(time.Minute)
		want := []core.AccessRule{
			{Name: "a", PrimaryKey: "k", Rights: core.Send, CreatedAt: made, ModifiedAt: made},
			{Name: "b", PrimaryKey: "other", Rights: core.Send, CreatedAt: made, ModifiedAt: now},
			{Name: "c", PrimaryKey: "k", Rights: core.Listen, CreatedAt: now, ModifiedAt: now},
		}
		if got := ent.Settings.AuthorizationRules; !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// Stores keep milliseconds, and .NET's live tests compare the times of what happens within one.
func TestTimesOfAnEntityAreInTheOrderOfWhatHappened(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		ent, _, err := b.Entity(t.Context(), root, "q")
		if err != nil || !ent.UpdatedAt.Equal(ent.CreatedAt) || !ent.AccessedAt.IsZero() {
			t.Errorf("created %v, updated %v, accessed %v, %v: want neither an update nor a use", ent.CreatedAt, ent.UpdatedAt, ent.AccessedAt, err)
		}
		b.update(t, "q", func(s *core.Settings) { s.MaxDeliveryCount = 3 })
		b.send(t, "q", text("m"))
		ent, _, err = b.Entity(t.Context(), root, "q")
		if err != nil || !ent.UpdatedAt.After(ent.CreatedAt) || !ent.AccessedAt.After(ent.UpdatedAt) || ent.AccessedAt.Sub(ent.CreatedAt) > time.Millisecond {
			t.Errorf("created %v, updated %v, accessed %v, %v: want one after the other", ent.CreatedAt, ent.UpdatedAt, ent.AccessedAt, err)
		}
	})
}

// SDKs compare the times.
func TestLastUseIsNeverBeforeTheCreation(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		time.Sleep(123456789 * time.Nanosecond)
		b.create(t, "q")
		b.send(t, "q", text("m"))
		ent, _, err := b.Entity(t.Context(), root, "q")
		if err != nil || ent.AccessedAt.Before(ent.CreatedAt) || ent.AccessedAt.Sub(ent.CreatedAt) > time.Millisecond {
			t.Errorf("created %v, accessed %v, %v", ent.CreatedAt, ent.AccessedAt, err)
		}
		b.createTopic(t, "t")
		time.Sleep(time.Second)
		b.subscribe(t, "t", "s", nil)
		ent, _, err = b.Entity(t.Context(), root, "t")
		if err != nil || ent.AccessedAt.Sub(ent.CreatedAt) != time.Second {
			t.Errorf("a topic is used by a new subscription: created %v, accessed %v, %v", ent.CreatedAt, ent.AccessedAt, err)
		}
	})
}

// Names may be spelled as URIs, percent-encoded and with a query. The right that
// counts is that on the entity which a spelling stands for.
func TestNoSpellingReachesWhatAnotherManages(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		ctx := t.Context()
		b.create(t, "mine")
		b.create(t, "secret")
		for _, topic := range []string{"news", "gossip"} {
			if _, err := b.CreateEntity(ctx, root, core.Topic, topic, core.DefaultSettings(core.Topic), nil); err != nil {
				t.Fatal(err)
			}
			if _, err := b.CreateEntity(ctx, root, core.Subscription, topic+"/Subscriptions/s", core.DefaultSettings(core.Subscription), nil); err != nil {
				t.Fatal(err)
			}
		}
		id := core.Identity{{Rights: core.AllRights, Scope: "mine"}, {Rights: core.AllRights, Scope: "news"}}
		rule := core.Rule{Name: "r", Filter: core.Filter{Kind: core.TrueFilter}}
		for _, before := range []string{"mine/://x/", "mine/%3a//x/", "mine/%253a%252f%252fx%252f", "news/://x/", "news/%3a//x/", "news/%3a%2f%2fx/"} {
			queue, topic := before+"secret", before+"gossip"
			subscription := topic + "/Subscriptions/s"
			for what, err := range map[string]error{
				"get": errorOf2(b.Entity(ctx, id, queue)), "update": errorOf(b.UpdateEntity(ctx, id, queue, core.DefaultSettings(core.Queue))),
				"delete": b.DeleteEntity(ctx, id, queue), "list": errorOf2(b.Entities(ctx, id, core.Listing{Kind: core.Subscription, Topic: topic}, 0, 1)),
				"subscribe":  errorOf(b.CreateEntity(ctx, id, core.Subscription, topic+"/Subscriptions/new", core.DefaultSettings(core.Subscription), nil)),
				"list rules": errorOf(b.Rules(ctx, id, subscription, 0, 9)), "create a rule": errorOf(b.CreateRule(ctx, id, subscription, rule)),
				"update a rule": errorOf(b.UpdateRule(ctx, id, subscription, core.Rule{Name: core.DefaultRuleName, Filter: rule.Filter})),
				"delete a rule": b.DeleteRule(ctx, id, subscription, core.DefaultRuleName),
				"test rules":    errorOf(b.TestRules(ctx, id, topic, text("m"), nil)),
				"explain":       errorOf(b.Explain(ctx, id, queue, core.Subject{MessageID: "m"})),
				"send":          errorOf(b.OpenSender(ctx, id, core.At(queue), nil)),
			} {
				if code := core.CodeOf(err); code != core.Unauthorized && code != core.NotFound {
					t.Errorf("%s behind %s: got %v", what, before, err)
				}
			}
		}
		for _, spelled := range []string{"sb://host/mine", "/MINE/", "min%65?api-version=1"} {
			if e, _, err := b.Entity(ctx, id, spelled); err != nil || e.Name != "mine" {
				t.Errorf("%s: got %q, %v", spelled, e.Name, err)
			}
		}
		for _, left := range []string{"secret", "gossip/Subscriptions/s"} {
			if err := errorOf2(b.Entity(ctx, root, left)); err != nil {
				t.Error(err)
			}
		}
	})
}
