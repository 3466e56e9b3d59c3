package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

func TestKeysStayWithTheirPartitionsForEver(t *testing.T) {
	t.Parallel()
	// These are facts about stored messages: the numbers must never change.
	for _, c := range []struct {
		key  string
		n    int
		want uint16
	}{
		{"a", 4, 3},
		{"session-1", 4, 3},
		{"customer/42", 4, 1},
		{"Füße", 4, 1},
		{"a", 32, 27},
		{"b", 7, 2},
		{"anything", 1, 0},
	} {
		if got := core.PartitionOf(c.key, c.n); got != c.want {
			t.Errorf("%q of %d: got partition %d, want %d", c.key, c.n, got, c.want)
		}
	}
}

func TestKeysSpreadEvenly(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"key-%[1]d", "%[1]d%[1]d", "%08[1]x-0000-%08[1]x"} {
		var counts [4]int
		for i := range 4000 {
			counts[core.PartitionOf(fmt.Sprintf(format, i), 4)]++
		}
		for p, n := range counts {
			if n < 850 || n > 1150 {
				t.Errorf("%s: partition %d got %d of 4000 keys", format, p, n)
			}
		}
	}
}

func TestPartitionIsChosenBySessionThenKeyThenID(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.create(t, "dup", partitioned, func(s *core.Settings) { s.RequiresDuplicateDetection = true })
		partitions := func(name string, m core.Message) uint16 {
			n := b.send(t, name, &m)
			p, _ := core.SplitSequenceNumber(n[0])
			return p
		}
		for range 3 { // round robin would not stay
			if got := partitions("q", core.Message{SessionID: keyFor(2)}); got != 2 {
				t.Errorf("session: got %d", got)
			}
			if got := partitions("q", core.Message{PartitionKey: keyFor(3), MessageID: core.StringID(keyFor(1))}); got != 3 {
				t.Errorf("partition key: got %d", got)
			}
		}
		if got := partitions("dup", core.Message{MessageID: core.StringID(keyFor(1))}); got != 1 {
			t.Errorf("message id with duplicate detection: got %d", got)
		}
		seen := map[uint16]int{}
		for range 8 {
			seen[partitions("q", core.Message{MessageID: core.StringID("same")})]++
			seen[partitions("dup", core.Message{})]++
		}
		for p := range uint16(4) {
			if seen[p] != 4 {
				t.Errorf("without a key: got %v, want each partition in turn", seen)
			}
		}
	})
}

func TestAGroupGoesToOnePartition(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.create(t, "dup", partitioned, func(s *core.Settings) { s.RequiresDuplicateDetection = true })
		b.create(t, "plain", func(s *core.Settings) { s.RequiresDuplicateDetection = true })
		id := func(s string) *core.Message { return &core.Message{MessageID: core.StringID(s)} }
		key := func(s string) *core.Message { return &core.Message{PartitionKey: s} }
		for name, c := range map[string]struct {
			queue string
			group []*core.Message
			text  string // of the refusal; "": accepted
		}{
			"keyless":                     {"q", numbered(9), ""},
			"one key and none":            {"q", []*core.Message{text("a"), key("k"), text("b")}, ""},
			"two keys":                    {"q", []*core.Message{key("k"), key("l")}, "give them one SessionId or PartitionKey"},
			"session and key agree":       {"q", []*core.Message{key("k"), {SessionID: "k"}}, ""},
			"ids without detection":       {"q", []*core.Message{id("a"), id("b")}, ""},
			"ids with detection":          {"dup", []*core.Message{id("a"), id("b")}, "give them a common SessionId or PartitionKey"},
			"no ids with detection":       {"dup", numbered(3), ""},
			"ids and a common key":        {"dup", []*core.Message{{MessageID: core.StringID("x"), PartitionKey: "k"}, key("k")}, ""},
			"two keys, not partitioned":   {"plain", []*core.Message{key("k"), key("l"), id("a"), id("b")}, ""},
			"the same id with detection ": {"dup", []*core.Message{id("z"), id("z")}, ""},
		} {
			a := b.sender(t, c.queue).Send(t.Context(), [][]*core.Message{c.group})[0]
			if c.text != "" {
				if !errors.Is(a.Err, core.NotAllowed) || !strings.Contains(core.TextOf(a.Err), c.text) {
					t.Errorf("%s: got %v, want %v: …%s…", name, a.Err, core.NotAllowed, c.text)
				}
				continue
			}
			partitions := map[uint16]bool{}
			for _, n := range a.Numbers {
				if n != 0 { // 0: a duplicate
					p, _ := core.SplitSequenceNumber(n)
					partitions[p] = true
				}
			}
			if a.Err != nil || len(partitions) != 1 {
				t.Errorf("%s: got partitions %v, %v, want one", name, partitions, a.Err)
			}
		}
	})
}

// Groups of one call share a call of the store. The next call's go to the next partition.
func TestKeylessMessagesOfACallGoToOnePartition(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		s := b.sender(t, "q")
		var went []uint16
		for range 4 {
			partitions := map[uint16]int{}
			keyed := text("keyed")
			keyed.PartitionKey = keyFor(3)
			for i, a := range s.Send(t.Context(), each(append(numbered(5), keyed)...)) {
				p, n := core.SplitSequenceNumber(a.Numbers[0])
				if a.Err != nil || n == 0 {
					t.Fatalf("message %d: got %+v", i, a)
				}
				if i < 5 {
					partitions[p]++
				} else if p != 3 {
					t.Errorf("a message with a key went to partition %d, want 3", p)
				}
				if i == 0 {
					went = append(went, p)
				}
			}
			if len(partitions) != 1 {
				t.Errorf("messages without a key went to %v, want one partition", partitions)
			}
		}
		slices.Sort(went)
		if !slices.Equal(went, []uint16{0, 1, 2, 3}) {
			t.Errorf("four calls went to partitions %v, want each once", went)
		}
	})
}

func TestKeylessMessagesAvoidABusyPartition(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", partitioned)
		b.store.fail(core.NotDone{Err: core.Busy}, 1, 2)
		b.send(t, "q", numbered(8)...)
		b.store.appendedTo()
		b.send(t, "q", numbered(8)...)
		if to := b.store.appendedTo(); slices.Contains(to, 1) || slices.Contains(to, 2) {
			t.Errorf("just after Busy: appended to %v", to)
		}
		time.Sleep(time.Second)
		b.send(t, "q", numbered(8)...)
		if to := b.store.appendedTo(); !slices.Contains(to, 1) || !slices.Contains(to, 2) {
			t.Errorf("a while after Busy: appended to %v, want all tried again", to)
		}
		keyed := text("keyed")
		keyed.PartitionKey = keyFor(1)
		s := b.sender(t, "q")
		if a := s.Send(t.Context(), each(keyed))[0]; !errors.Is(a.Err, core.Busy) {
			t.Errorf("keyed: got %v, want %v", a.Err, core.Busy)
		}
		b.store.fail(core.NotDone{Err: core.Busy}, 0, 1, 2, 3)
		if a := s.Send(t.Context(), each(text("m")))[0]; !errors.Is(a.Err, core.Busy) {
			t.Errorf("nowhere to go: got %v, want %v", a.Err, core.Busy)
		}
	})
}

// A partition whose answer comes late, or never, may have stored the message.
func TestWhatMayBeStoredIsNotSentElsewhere(t *testing.T) {
	for what, settings := range map[string]func(*started, *testing.T){
		"queue": func(b *started, t *testing.T) { b.create(t, "q", partitioned) },
		"topic": func(b *started, t *testing.T) {
			b.createTopic(t, "q", partitioned)
			b.subscribe(t, "q", "s", nil)
		},
	} {
		inBubbleNamed(t, what, func(t *testing.T, b *started) {
			settings(b, t)
			holder := "q"
			if what == "topic" {
				holder = core.SubscriptionPath("q", "s")
			}
			b.store.loseAnswers(true)
			s := b.sender(t, "q")
			for i := range 8 {
				if a := s.Send(t.Context(), each(text(fmt.Sprint(i))))[0]; core.CodeOf(a.Err) != core.Busy || core.IsNotDone(a.Err) {
					t.Errorf("message %d: got %v, want that nobody knows", i, a.Err)
				}
			}
			b.store.loseAnswers(false)
			if ds := b.all(t, holder); len(ds) != 8 {
				t.Errorf("%d messages were stored, want each of 8 once", len(ds))
			}
		})
	}
}

func TestABadMessageFailsItsGroupAlone(t *testing.T) {
	for _, settings := range []func(*core.Settings){func(*core.Settings) {}, partitioned} {
		inBubbleNamed(t, "", func(t *testing.T, b *started) {
			b.create(t, "q", settings)
			bad := text("bad")
			bad.SessionID = strings.Repeat("x", 129)
			answers := b.sender(t, "q").Send(t.Context(), [][]*core.Message{
				{text("1"), text("2")}, {text("3"), bad}, {text("4")},
			})
			if answers[0].Err != nil || answers[2].Err != nil || !errors.Is(answers[1].Err, core.InvalidArgument) {
				t.Fatalf("got %v, want only the second refused", answers)
			}
			in := b.receive(t, "q", core.PeekLock, 10)
			if got := sortedBodies(in.take()); got != "1 2 4" {
				t.Fatalf("stored: %q", got)
			}
		})
	}
}

func TestMessagesAreChecked(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		s := b.sender(t, "q")
		if s.MaxMessageSize() != 256<<10 {
			t.Fatalf("max message size: got %d", s.MaxMessageSize())
		}
		long := strings.Repeat("ü", 129)
		property := func(key string, v any) core.Message {
			p, err := core.NewProperties(core.Property{Key: key, Value: v})
			if err != nil {
				t.Fatal(err)
			}
			return core.Message{Properties: p}
		}
		for name, c := range map[string]struct {
			m    core.Message
			code core.Code
			text string
		}{
			"empty":                  {core.Message{}, "", ""},
			"longest keys":           {core.Message{MessageID: core.StringID(long[:256]), SessionID: long[:256], ReplyToSessionID: long[:256]}, "", ""},
			"MessageId":              {core.Message{MessageID: core.StringID(long)}, core.InvalidArgument, "MessageId has 129 characters"},
			"SessionId":              {core.Message{SessionID: long}, core.InvalidArgument, "SessionId has 129 characters"},
			"PartitionKey":           {core.Message{PartitionKey: long}, core.InvalidArgument, "PartitionKey has 129 characters"},
			"ReplyToSessionId":       {core.Message{ReplyToSessionID: long}, core.InvalidArgument, "ReplyToSessionId has 129 characters"},
			"two keys":               {core.Message{SessionID: "a", PartitionKey: "b"}, core.NotAllowed, "SessionId 'a' and PartitionKey 'b' differ"},
			"key and empty session":  {core.Message{EmptyText: core.FieldSessionID, PartitionKey: "b"}, "", ""},
			"largest body":           {core.Message{Body: core.Body{Bytes: make([]byte, 256<<10)}}, "", ""},
			"body too large":         {core.Message{Subject: "s", Body: core.Body{Bytes: make([]byte, 256<<10)}}, core.TooLarge, "262145 bytes, which exceeds the limit of 262144 bytes"},
			"header too large":       {core.Message{Subject: strings.Repeat("s", 40000), ReplyTo: strings.Repeat("r", 30000)}, core.InvalidArgument, "The largest property is Label with 40000 bytes"},
			"longest property":       {property("p", strings.Repeat("ü", 32767/1)[:65000]), "", ""},
			"property too long":      {property("wide", strings.Repeat("x", 32768)), core.InvalidArgument, "The user property 'wide' has 4 characters in its name and 32768 in its value"},
			"binary property":        {property("bin", make([]byte, 32768)), core.InvalidArgument, "The user property 'bin' has 3 characters in its name and 32768 in its value"},
			"negative life":          {core.Message{TimeToLive: -1}, core.OutOfRange, "TimeToLive"},
			"properties too large":   {manyProperties(t), core.InvalidArgument, "The largest property is user property 'big'"},
			"list as a property":     {property("list", valueList), core.InvalidArgument, "The user property 'list' is a list, map or array"},
			"null and number":        {property("n", nil), "", ""},
			"via partition key":      {core.Message{ViaPartitionKey: long}, core.InvalidArgument, "ViaPartitionKey"},
			"user id is metadata":    {core.Message{UserID: make([]byte, 65<<10)}, core.InvalidArgument, "The largest property is UserId"},
			"largest is hidden":      {core.Message{DeliveryAnnotations: property("x-opt-y", make([]byte, 65<<10)).Properties}, core.InvalidArgument, "The largest property is delivery annotation 'x-opt-y' with"},
			"largest is the footer ": {core.Message{Footer: make([]byte, 65<<10)}, core.InvalidArgument, "the footer"},
		} {
			m := c.m
			err := s.Send(t.Context(), each(&m))[0].Err
			if core.CodeOf(err) != c.code || !strings.Contains(core.TextOf(err), c.text) {
				t.Errorf("%s: got %v (%s), want %s: …%s…", name, err, core.CodeOf(err), c.code, c.text)
			}
		}
	})
}

func TestMessagesWithoutAnIDGetOne(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.send(t, "q", text("a"), text("b"), &core.Message{MessageID: core.ULongID(7)})
		got := b.receive(t, "q", core.PeekLock, 3).take()
		a, other := got[0].MessageID.String(), got[1].MessageID.String()
		if len(a) != 32 || strings.Trim(a, "0123456789abcdef") != "" || a == other {
			t.Errorf("got ids %q and %q, want two of 32 hexadecimal digits", a, other)
		}
		if got[2].MessageID != core.ULongID(7) {
			t.Errorf("the sender's own: got %v", got[2].MessageID)
		}
	})
}

func TestTimeToLiveIsBoundedByTheEntitys(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "limited", func(s *core.Settings) { s.DefaultMessageTimeToLive = time.Minute })
		b.create(t, "free")
		for _, c := range []struct {
			queue      string
			ttl, wants time.Duration
		}{
			{"limited", 0, time.Minute},
			{"limited", time.Second, time.Second},
			{"limited", time.Hour, time.Minute},
			{"limited", core.Forever, time.Minute},
			{"free", 0, 0},
			{"free", time.Hour, time.Hour},
			{"free", core.Forever, 0},
		} {
			b.send(t, c.queue, &core.Message{TimeToLive: c.ttl})
			in := b.receive(t, c.queue, core.ReceiveAndDelete, 1)
			d := in.take()[0]
			in.Close()
			if d.TimeToLive != c.wants || c.wants == 0 != d.ExpiresAt.IsZero() {
				t.Errorf("%s, %v: got %v, expires %v, want %v", c.queue, c.ttl, d.TimeToLive, d.ExpiresAt, c.wants)
			}
		}
	})
}

func TestSendingNeedsTheRightAndAQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q")
		b.create(t, "off", func(s *core.Settings) { s.Status = core.StatusSendDisabled })
		listener := core.Identity{{Rights: core.Listen}}
		for _, c := range []struct {
			id      core.Identity
			address string
			code    core.Code
		}{
			{root, "q", ""},
			{root, "sb://host/Q/", ""},
			{listener, "q", core.Unauthorized},
			{nil, "q", core.Unauthorized},
			{core.Identity{{Rights: core.Send, Scope: "q"}}, "Q", ""},
			{core.Identity{{Rights: core.Send, Scope: "q", Expires: time.Now()}}, "q", core.Unauthorized},
			{core.Identity{{Rights: core.Send, Scope: "other"}}, "q", core.Unauthorized},
			{root, "q/$DeadLetterQueue", core.NotAllowed},
			{root, "q/$management", core.NotAllowed},
			{root, "missing", core.NotFound},
			{root, "", core.NotFound},
			{root, "off", core.EntityDisabled},
		} {
			s, err := b.OpenSender(t.Context(), c.id, core.At(c.address), nil)
			if core.CodeOf(err) != c.code {
				t.Errorf("%q by %v: got %v, want %q", c.address, c.id, err, c.code)
			}
			if err == nil {
				s.Close()
				s.Close()
				if a := s.Send(t.Context(), each(text("m"))); a[0].Err == nil {
					t.Errorf("%q: a closed sender sent", c.address)
				}
			}
		}
		_, err := b.OpenSender(t.Context(), root, core.At("missing"), nil)
		if got := core.TextOf(err); got != "The messaging entity 'missing' could not be found. To know more visit https://aka.ms/sbResourceMgrExceptions. " {
			t.Errorf("text: %q", got)
		}
	})
}

func TestAFullQueueSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *started) {
		b.create(t, "q", func(s *core.Settings) { s.MaxSizeInMegabytes, s.MaxMessageSizeInKilobytes = 1, 1024 })
		s := b.sender(t, "q")
		big := func() *core.Message { return &core.Message{Body: core.Body{Bytes: make([]byte, 1<<20)}} }
		s.Send(t.Context(), each(big()))
		err := s.Send(t.Context(), each(big()))[0].Err
		if !errors.Is(err, core.QuotaExceeded) || !strings.Contains(strings.ToLower(core.TextOf(err)), "max entity size in bytes: 1048576") {
			t.Fatalf("got %v", err)
		}
	})
}
