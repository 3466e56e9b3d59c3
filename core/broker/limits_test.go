package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// strict is a broker with the limits of a tier.
func strict(t *testing.T, l core.Limits) *Broker {
	t.Helper()
	b := New(memory.New(memory.Options{}), Options{Namespace: "ns", Limits: l})
	t.Cleanup(b.stop)
	return b
}

func made(_ core.Entity, err error) error { return err }

// wide is so many characters of two bytes each, which counts what is counted in
// characters as such.
func wide(n int) string { return strings.Repeat("é", n) }

// A limit is told twice: of n, which is allowed, and of n+1, which is not.
func TestLimitsHoldToTheLast(t *testing.T) {
	t.Parallel()
	queue := func(change func(s *core.Settings, n int)) func(*testing.T, *Broker, int) error {
		return func(t *testing.T, b *Broker, n int) error {
			s := core.DefaultSettings(core.Queue)
			change(&s, n)
			return made(b.CreateEntity(t.Context(), root, core.Queue, "made", s, nil))
		}
	}
	message := func(make func(n int) *core.Message) func(*testing.T, *Broker, int) error {
		return func(t *testing.T, b *Broker, n int) error { return b.sends(t, "q", make(n)) }
	}
	rule := func(make func(n int) core.Rule) func(*testing.T, *Broker, int) error {
		return func(t *testing.T, b *Broker, n int) error {
			_, err := b.CreateRule(t.Context(), root, "t/Subscriptions/s", make(n))
			return err
		}
	}
	all := core.Filter{Kind: core.TrueFilter}
	tiers := map[string]core.Limits{"none": {}, "standard": core.StandardLimits(), "premium": core.PremiumLimits()}
	second, any := int(time.Second/time.Millisecond), []string{"standard", "premium"}
	for _, c := range []struct {
		name  string
		tiers []string
		n     int
		down  bool // n-1 is what is not allowed
		do    func(t *testing.T, b *Broker, n int) error
		want  core.Code
	}{
		{"LockDuration", any, 300 * second, false, queue(func(s *core.Settings, n int) { s.LockDuration = time.Duration(n) * time.Millisecond }), core.OutOfRange},
		{"LockDuration", []string{"none"}, 24 * 3600 * second, false, queue(func(s *core.Settings, n int) { s.LockDuration = time.Duration(n) * time.Millisecond }), core.OutOfRange},
		{"least LockDuration", any, second, true, queue(func(s *core.Settings, n int) { s.LockDuration = time.Duration(n) * time.Millisecond }), core.OutOfRange},
		{"least DefaultMessageTimeToLive", any, second, true, queue(func(s *core.Settings, n int) { s.DefaultMessageTimeToLive = time.Duration(n) * time.Millisecond }), core.OutOfRange},
		{"DuplicateDetectionHistoryTimeWindow", any, 7 * 24 * 3600, false, queue(func(s *core.Settings, n int) { s.DuplicateDetectionHistoryTimeWindow = time.Duration(n) * time.Second }), core.OutOfRange},
		{"least DuplicateDetectionHistoryTimeWindow", any, 20, true, queue(func(s *core.Settings, n int) { s.DuplicateDetectionHistoryTimeWindow = time.Duration(n) * time.Second }), core.OutOfRange},
		{"least AutoDeleteOnIdle", any, 300, true, queue(func(s *core.Settings, n int) { s.AutoDeleteOnIdle = time.Duration(n) * time.Second }), core.OutOfRange},
		{"MaxDeliveryCount", any, 1<<31 - 1, false, queue(func(s *core.Settings, n int) { s.MaxDeliveryCount = n }), core.OutOfRange},
		{"least MaxDeliveryCount", any, 1, true, queue(func(s *core.Settings, n int) { s.MaxDeliveryCount = n }), core.OutOfRange},
		{"UserMetadata", any, 1024, false, queue(func(s *core.Settings, n int) { s.UserMetadata = wide(n) }), core.OutOfRange},
		{"AuthorizationRules", any, 12, false, queue(func(s *core.Settings, n int) {
			s.AuthorizationRules = make([]core.AccessRule, n)
			for i := range s.AuthorizationRules {
				s.AuthorizationRules[i] = core.AccessRule{Name: fmt.Sprint(i), PrimaryKey: "k", Rights: core.Send}
			}
		}), core.OutOfRange},
		{"MaxSizeInMegabytes", []string{"standard"}, 5120, false, queue(func(s *core.Settings, n int) { s.MaxSizeInMegabytes = int64(n) }), core.OutOfRange},
		{"MaxSizeInMegabytes", []string{"premium"}, 81920, false, queue(func(s *core.Settings, n int) { s.MaxSizeInMegabytes = int64(n) }), core.OutOfRange},
		{"least MaxSizeInMegabytes", any, 1024, true, queue(func(s *core.Settings, n int) { s.MaxSizeInMegabytes = int64(n) }), core.OutOfRange},
		{"MaxSizeInMegabytes between", any, 2048, false, queue(func(s *core.Settings, n int) { s.MaxSizeInMegabytes = int64(n) }), core.OutOfRange},
		{"MaxMessageSizeInKilobytes", []string{"standard"}, 256, false, queue(func(s *core.Settings, n int) { s.MaxMessageSizeInKilobytes = int64(n) }), core.OutOfRange},
		{"MaxMessageSizeInKilobytes", []string{"premium"}, 102400, false, queue(func(s *core.Settings, n int) { s.MaxMessageSizeInKilobytes = int64(n) }), core.OutOfRange},
		{"name of a queue", any, 260, false, func(t *testing.T, b *Broker, n int) error {
			return made(b.CreateEntity(t.Context(), root, core.Queue, strings.Repeat("q", n), core.DefaultSettings(core.Queue), nil))
		}, core.InvalidArgument},
		{"name of a subscription", any, 50, false, func(t *testing.T, b *Broker, n int) error {
			return made(b.CreateEntity(t.Context(), root, core.Subscription, "t/Subscriptions/"+strings.Repeat("s", n), core.DefaultSettings(core.Subscription), nil))
		}, core.InvalidArgument},
		{"name of a rule", any, 50, false, rule(func(n int) core.Rule { return core.Rule{Name: strings.Repeat("r", n), Filter: all} }), core.InvalidArgument},
		{"SQL filter", any, 1024, false, rule(func(n int) core.Rule {
			return core.Rule{Name: "r", Filter: core.Filter{Kind: core.SQLFilter, SQL: "a='" + wide(n-4) + "'"}}
		}), core.InvalidArgument},
		{"SQL filter", []string{"none"}, 16 << 10, false, rule(func(n int) core.Rule {
			return core.Rule{Name: "r", Filter: core.Filter{Kind: core.SQLFilter, SQL: "a='" + wide(n-4) + "'"}}
		}), core.InvalidArgument},
		{"long SQL filters", []string{"none"}, 2000 / 16, false, func(t *testing.T, b *Broker, n int) error {
			for i := range n {
				r := core.Rule{Name: fmt.Sprint(i), Filter: core.Filter{Kind: core.SQLFilter, SQL: "a='b'"}}
				if _, err := b.CreateRule(t.Context(), root, "t/Subscriptions/s", r); err != nil {
					return err
				}
				r.Filter.SQL = "a='" + strings.Repeat("b", 16<<10-4) + "'"
				if _, err := b.UpdateRule(t.Context(), root, "t/Subscriptions/s", r); err != nil {
					return err
				}
			}
			return nil
		}, core.QuotaExceeded},
		{"subscriptions", []string{"standard"}, 2000, false, subscribers, core.QuotaExceeded},
		{"subscriptions", []string{"none"}, 10_000, false, subscribers, core.QuotaExceeded},
		{"SQL action", any, 1024, false, rule(func(n int) core.Rule {
			return core.Rule{Name: "r", Filter: all, Action: "SET a='" + wide(n-8) + "'"}
		}), core.InvalidArgument},
		{"statements of an action", any, 32, false, rule(func(n int) core.Rule {
			return core.Rule{Name: "r", Filter: all, Action: strings.Repeat("SET a=1;", n)}
		}), core.InvalidArgument},
		{"MessageId", any, 128, false, message(func(n int) *core.Message { return &core.Message{MessageID: core.StringID(wide(n))} }), core.InvalidArgument},
		{"SessionId", any, 128, false, message(func(n int) *core.Message { return &core.Message{SessionID: wide(n)} }), core.InvalidArgument},
		{"PartitionKey", any, 128, false, message(func(n int) *core.Message { return &core.Message{PartitionKey: wide(n)} }), core.InvalidArgument},
		{"value of a property", any, 32767, false, func(t *testing.T, b *Broker, n int) error {
			return b.sends(t, "q", &core.Message{Properties: propertyOf(t, "p", strings.Repeat("v", n))})
		}, core.InvalidArgument},
		{"name of a property", any, 32767, false, func(t *testing.T, b *Broker, n int) error {
			return b.sends(t, "q", &core.Message{Properties: propertyOf(t, strings.Repeat("p", n), "v")})
		}, core.InvalidArgument},
		{"properties", any, 64 << 10, false, message(func(n int) *core.Message { return filled(subject, n) }), core.InvalidArgument},
		{"message", []string{"standard"}, 256 << 10, false, message(func(n int) *core.Message { return filled(body, n) }), core.TooLarge},
		{"large message", []string{"premium"}, 1 << 20, false, func(t *testing.T, b *Broker, n int) error {
			return b.sends(t, "large", filled(body, n))
		}, core.TooLarge},
		{"batch", []string{"standard"}, 256 << 10, false, batchOf("q", 128<<10), core.TooLarge},
		{"batch", []string{"premium"}, 1 << 20, false, batchOf("large", 512<<10), core.TooLarge},
		{"session state", []string{"standard"}, 256 << 10, false, func(t *testing.T, b *Broker, n int) error {
			held, err := b.AcceptSession(t.Context(), root, core.At("sessions"), core.SessionOptions{ID: "s"})
			if err != nil {
				return err
			}
			defer held.Close()
			return held.SetState(t.Context(), make([]byte, n))
		}, core.TooLarge},
		{"operations of a transaction", any, 100, false, func(t *testing.T, b *Broker, n int) error {
			tx := b.Begin()
			for range n {
				if err := tx.Send(t.Context(), root, core.At("q"), core.Address{}, []*core.Message{{}}); err != nil {
					return err
				}
			}
			return tx.Commit(t.Context())
		}, core.QuotaExceeded},
		{"queues and topics", []string{"standard"}, 10_000, false, crowd, core.QuotaExceeded},
		{"queues and topics", []string{"premium"}, 1000, false, crowd, core.QuotaExceeded},
		{"partitioned queues and topics", []string{"standard"}, 100, false, func(t *testing.T, b *Broker, n int) error {
			s := core.DefaultSettings(core.Queue)
			s.EnablePartitioning = true
			for i := range n - 1 {
				if err := made(b.CreateEntity(t.Context(), root, core.Queue, fmt.Sprint("partitioned", i), s, nil)); err != nil {
					t.Fatal(err)
				}
			}
			s = core.DefaultSettings(core.Topic)
			s.EnablePartitioning = true
			return made(b.CreateEntity(t.Context(), root, core.Topic, "last", s, nil))
		}, core.QuotaExceeded},
		{"receivers", any, 5000, false, func(t *testing.T, b *Broker, n int) error {
			for range n {
				r, err := b.OpenReceiver(t.Context(), root, core.At("q"), core.ReceiverOptions{Deliver: func([]core.Delivery) {}})
				if err != nil {
					return err
				}
				t.Cleanup(r.Close)
			}
			return nil
		}, core.QuotaExceeded},
	} {
		past := c.n + 1
		if c.down {
			past = c.n - 1
		}
		for _, tier := range c.tiers {
			t.Run(c.name+"/"+tier, func(t *testing.T) {
				t.Parallel()
				try := func(n int) error {
					b := strict(t, tiers[tier])
					b.furnish(t)
					return c.do(t, b, n)
				}
				if err := try(c.n); err != nil {
					t.Errorf("%d: got %v, want none", c.n, err)
				}
				if err := try(past); core.CodeOf(err) != c.want {
					t.Errorf("%d: got %v, want %v", past, err, c.want)
				}
			})
		}
	}
}

func TestAPurgeTakesNoMoreThanTheTierAllows(t *testing.T) {
	t.Parallel()
	b := strict(t, core.StandardLimits())
	b.furnish(t)
	if err := b.sends(t, "q", numbered(501)...); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{500, 1} {
		if n, err := b.Purge(t.Context(), root, core.At("q"), time.Now().Add(time.Minute), 501); n != want || err != nil {
			t.Errorf("got %d, %v, want %d", n, err, want)
		}
	}
}

// Service Bus has its text of .NET (azure-sdk-for-python#30140).
func TestBinaryPropertiesAreRefusedWhereATierIsEnforced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits core.Limits
		want   core.Code
	}{"none": {core.Limits{}, ""}, "standard": {core.StandardLimits(), core.TooLarge}, "premium": {core.PremiumLimits(), core.TooLarge}} {
		b := strict(t, c.limits)
		b.furnish(t)
		err := b.sends(t, "q", &core.Message{Properties: propertyOf(t, "b", []byte{0, 255})})
		if core.CodeOf(err) != c.want || c.want != "" && core.TextOf(err) != "Serialization operation failed due to unsupported type System.Byte[]: the user property 'b' is binary." {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if err := b.sends(t, "q", &core.Message{Properties: propertyOf(t, "b", "text")}); err != nil {
			t.Errorf("%s: a text: %v", name, err)
		}
	}
}

// Entities that were made before the limits were enforced stay.
func TestWhatIsLargerThanTheTierTakesWhatTheTierTakes(t *testing.T) {
	t.Parallel()
	b := strict(t, core.Limits{})
	s := core.DefaultSettings(core.Queue)
	s.MaxMessageSizeInKilobytes = 1024
	if err := made(b.CreateEntity(t.Context(), root, core.Queue, "q", s, nil)); err != nil {
		t.Fatal(err)
	}
	limited := New(b.store, Options{Namespace: "ns", Limits: core.StandardLimits()})
	t.Cleanup(limited.stop)
	if got := limited.opened(t, "q").MaxMessageSize(); got != 256<<10 {
		t.Errorf("got %d bytes, want 256 KB", got)
	}
	if err := b.sends(t, "q", filled(body, 1<<20)); err != nil {
		t.Errorf("without limits: %v", err)
	}
}

// furnish makes the entities that the limits are tried on.
func (b *Broker) furnish(t *testing.T) {
	t.Helper()
	ctx, s := t.Context(), core.DefaultSettings(core.Queue)
	with := func(change func(*core.Settings)) core.Settings { s := s; change(&s); return s }
	errs := []error{
		made(b.CreateEntity(ctx, root, core.Queue, "q", s, nil)),
		made(b.CreateEntity(ctx, root, core.Queue, "sessions", with(func(s *core.Settings) { s.RequiresSession = true }), nil)),
		made(b.CreateEntity(ctx, root, core.Topic, "t", core.DefaultSettings(core.Topic), nil)),
		made(b.CreateEntity(ctx, root, core.Subscription, "t/Subscriptions/s", core.DefaultSettings(core.Subscription), nil)),
	}
	if b.options.Limits.MaxMessageSizeKB > 256 {
		errs = append(errs, made(b.CreateEntity(ctx, root, core.Queue, "large", with(func(s *core.Settings) { s.MaxMessageSizeInKilobytes = 1024 }), nil)))
	}
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (b *Broker) opened(t *testing.T, queue string) core.Sender {
	t.Helper()
	s, err := b.OpenSender(t.Context(), root, core.At(queue), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sends sends messages as one group.
func (b *Broker) sends(t *testing.T, queue string, ms ...*core.Message) error {
	t.Helper()
	return b.opened(t, queue).Send(t.Context(), [][]*core.Message{ms})[0].Err
}

func propertyOf(t *testing.T, name string, v any) core.Properties {
	t.Helper()
	p, err := core.NewProperties(core.Property{Key: name, Value: v})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func body(m *core.Message, n int) { m.Body.Bytes = make([]byte, n) }

func subject(m *core.Message, n int) { m.Subject = strings.Repeat("h", n) }

// filled makes a message n bytes large by what one part of it has.
func filled(fill func(*core.Message, int), n int) *core.Message {
	m := &core.Message{}
	size := func() int { return m.HeaderSize() + len(m.Body.Bytes) }
	fill(m, n)
	fill(m, n-(size()-n))
	return m
}

// batchOf sends a batch of n bytes, in two messages of which one has so many.
func batchOf(queue string, half int) func(*testing.T, *Broker, int) error {
	return func(t *testing.T, b *Broker, n int) error {
		return b.sends(t, queue, filled(body, half), filled(body, n-half))
	}
}

// subscribers makes subscriptions of a topic until there are n.
func subscribers(t *testing.T, b *Broker, n int) error {
	topic, err := b.store.Entity(t.Context(), "ns", "t")
	if err != nil {
		return err
	}
	for i := range n - 2 { // furnish has made one
		ent := core.Entity{
			Namespace: "ns", Kind: core.Subscription, Name: core.SubscriptionPath("t", fmt.Sprint("n", i)), ID: core.NewIncarnation(),
			TopicID: topic.ID, Partitions: 1, Settings: core.DefaultSettings(core.Subscription),
		}
		if _, err := b.store.CreateEntity(t.Context(), ent, core.NamespaceQuotas{}); err != nil {
			return err
		}
	}
	return made(b.CreateEntity(t.Context(), root, core.Subscription, "t/Subscriptions/last", core.DefaultSettings(core.Subscription), nil))
}

// crowd makes queues and topics until there are n.
func crowd(t *testing.T, b *Broker, n int) error {
	there := 0
	for _, k := range [...]core.Kind{core.Queue, core.Topic} {
		err := b.walkListing(t.Context(), core.Listing{Kind: k}, func(*core.Entity) {
			there++
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range n - there {
		kind := core.Kind(i % 2)
		if err := made(b.CreateEntity(t.Context(), root, kind, fmt.Sprint("e", there+i), core.DefaultSettings(kind), nil)); err != nil {
			return err
		}
	}
	return nil
}
