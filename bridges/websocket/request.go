package websocket

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/fair"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

// request is one request. op defines its members; fields without a member have defaults.
type request struct {
	id    int64
	op    *operation
	wrong error
	bytes int
	large bool // if it is refused, the connection pauses: see largeRequest
	given memberSet

	token           string
	namespace       string
	entity          string
	feed            int64
	session         string
	nextSession     bool
	shared          bool
	takeOver        core.LockToken // the lock token of the session to take over
	wait            time.Duration
	mode            core.ReceiveMode
	credit          int
	binary          bool
	accept          string
	messages        []*core.Message
	settlements     []core.Settlement
	lockTokens      []core.LockToken
	sequenceNumbers []int64
	from            int64
	max             int
	inState         *core.State
	before, since   time.Time
	state           []byte
	skip, top       int
	kind            core.Kind
	topic           string
	settings        settings
	rule            *core.Rule
	rules           []core.Rule
	message         *core.Message
	name            string
	connection      string
}

type memberSet uint64

func (s memberSet) has(m memberSet) bool { return s&m == m }

type member struct {
	name string
	read func(q *request, r *codec.Reader) error
}

var members = [...]member{
	{"token", into(func(q *request) *string { return &q.token }, frame.ReadText)},
	{"entity", into(func(q *request) *string { return &q.entity }, frame.ReadText)},
	{"feed", into(func(q *request) *int64 { return &q.feed }, readID)},
	{"session", into(func(q *request) *string { return &q.session }, frame.ReadText)},
	{"nextSession", into(func(q *request) *bool { return &q.nextSession }, readBool)},
	{"wait", func(q *request, r *codec.Reader) (err error) {
		q.wait, err = frame.ReadSeconds(r)
		q.wait = min(q.wait, maxWait)
		return err
	}},
	{"mode", into(func(q *request) *core.ReceiveMode { return &q.mode }, oneOf(choice[core.ReceiveMode]{"peekLock", core.PeekLock}, choice[core.ReceiveMode]{"receiveAndDelete", core.ReceiveAndDelete}))},
	{"credit", into(func(q *request) *int { return &q.credit }, whole[int](0, maxCredit))},
	{"bodies", into(func(q *request) *bool { return &q.binary }, oneOf(choice[bool]{"binary", true}, choice[bool]{"decoded", false}))},
	{"accept", into(func(q *request) *string { return &q.accept }, frame.ReadText)},
	{"messages", into(func(q *request) *[]*core.Message { return &q.messages }, items(frame.ReadMessage))},
	{"settlements", into(func(q *request) *[]core.Settlement { return &q.settlements }, items(readSettlement))},
	{"lockTokens", into(func(q *request) *[]core.LockToken { return &q.lockTokens }, items(readLockToken))},
	{"sequenceNumbers", into(func(q *request) *[]int64 { return &q.sequenceNumbers }, items(readSequenceNumber))},
	{"from", into(func(q *request) *int64 { return &q.from }, readSequenceNumber)},
	{"max", into(func(q *request) *int { return &q.max }, whole[int](1, maxGroup))},
	{"inState", into(func(q *request) **core.State { return &q.inState }, oneOf(choice[*core.State]{"Active", new(core.Active)}, choice[*core.State]{"Deferred", new(core.Deferred)}, choice[*core.State]{"Scheduled", new(core.Scheduled)}))},
	{"before", into(func(q *request) *time.Time { return &q.before }, frame.ReadTime)},
	{"since", into(func(q *request) *time.Time { return &q.since }, frame.ReadTime)},
	{"state", into(func(q *request) *[]byte { return &q.state }, readState)},
	{"skip", into(func(q *request) *int { return &q.skip }, whole[int](0, 1<<31-1))},
	{"top", into(func(q *request) *int { return &q.top }, whole[int](1, maxTop))},
	{"kind", into(func(q *request) *core.Kind { return &q.kind }, oneOf(choice[core.Kind]{"queue", core.Queue}, choice[core.Kind]{"topic", core.Topic}, choice[core.Kind]{"subscription", core.Subscription}))},
	{"topic", into(func(q *request) *string { return &q.topic }, frame.ReadText)},
	{"settings", into(func(q *request) *settings { return &q.settings }, readSettings)},
	{"rule", func(q *request, r *codec.Reader) error {
		rule, err := readRule(r)
		q.rule = &rule
		return err
	}},
	{"rules", into(func(q *request) *[]core.Rule { return &q.rules }, items(readRule))},
	{"message", into(func(q *request) **core.Message { return &q.message }, frame.ReadMessage)},
	{"name", into(func(q *request) *string { return &q.name }, frame.ReadText)},
	{"exclusive", func(q *request, r *codec.Reader) error {
		exclusive, err := readBool(r)
		q.shared = !exclusive
		return err
	}},
	{"sessionLockToken", func(q *request, r *codec.Reader) (err error) {
		if q.takeOver, err = readLockToken(r); err == nil && q.takeOver.IsZero() {
			err = frame.Wrong("is not a lock token")
		}
		return err
	}},
	{"connection", into(func(q *request) *string { return &q.connection }, frame.ReadText)},
	{"namespace", into(func(q *request) *string { return &q.namespace }, frame.ReadText)},
}

func setOf(names ...string) (set memberSet) {
	for _, name := range names {
		at, ok := memberOf[name]
		if !ok {
			panic("a request has no member named " + name)
		}
		set |= 1 << at
	}
	return set
}

func (q *request) has(name string) bool { return q.given.has(setOf(name)) }

var memberOf = func() map[string]int {
	m := make(map[string]int, len(members))
	for i := range members {
		m[members[i].name] = i
	}
	return m
}()

// maxID is the largest id of a request or a feed. Every JSON parser keeps it exactly.
const maxID = 1<<53 - 1

// parse returns an error if the frame is malformed or has no op or id: the caller must close the
// connection. It stores other errors in the request, whose answer then has its id.
func parse(e codec.Encoding, b *readBuffer, afford func(bytes int64) error) (*request, error) {
	var err error
	if b.readers[e] == nil {
		b.readers[e] = frame.NewReader(e)
	}
	r := b.readers[e]
	if b.members, err = frame.Split(r, b.data, b.members[:0]); err != nil {
		return nil, faulty(closeMalformed, "Cannot read the frame: %v.", err)
	}
	q := &request{bytes: len(b.data), large: len(b.data) > largeRequest, wait: defaultWait, from: 1, max: defaultPeek, top: defaultTop}
	op := slices.IndexFunc(b.members, func(m frame.Member) bool { return m.Key == "op" })
	if op < 0 {
		return nil, faulty(closeMalformed, "The frame has no member op.")
	}
	if r.Reset(b.members[op].Value, true); r.Kind() != codec.Text {
		return nil, faulty(closeMalformed, "The frame's op is %s: it must be a string.", r.Kind())
	}
	name := r.Text()
	id := slices.IndexFunc(b.members, func(m frame.Member) bool { return m.Key == "id" })
	if id < 0 {
		return nil, faulty(closeNoID, "The request has no member id.")
	}
	r.Reset(b.members[id].Value, true)
	if q.id, err = readID(r); err != nil {
		return nil, faulty(closeNoID, "%v", frame.In("id", err))
	}
	if q.op = operations[string(name)]; q.op == nil {
		q.wrong = core.Refuse(core.InvalidArgument, "'op' is %.40q, which is not an operation.", name)
		return q, nil
	}
	q.wrong = q.read(r, b.members, op, id, afford)
	return q, nil
}

func (q *request) read(r *codec.Reader, all []frame.Member, op, id int, afford func(bytes int64) error) error {
	for i := range all {
		if i == op || i == id {
			continue
		}
		name := all[i].Key
		at, ok := memberOf[name]
		bit := memberSet(1) << at
		switch {
		case name == "op" || name == "id" || ok && q.given.has(bit):
			return frame.In(name, frame.Wrong("appears twice"))
		case !ok || (q.op.need|q.op.may|q.op.either)&bit == 0:
			return core.Refuse(core.InvalidArgument, "The operation '%s' has no member '%.40s'.", q.op.name, name)
		}
		q.given |= bit
		if name == "messages" {
			r.Reset(all[i].Value, true)
			n := countItems(r)
			if n > maxGroup {
				return frame.In(name, errTooMany)
			}
			cost := int64(n) * fair.Message
			q.large = q.large || cost > largeRequest
			if err := afford(cost); err != nil {
				return err
			}
			q.bytes += int(cost)
		}
		r.Reset(all[i].Value, true)
		if err := members[at].read(q, r); err != nil {
			return frame.In(name, err)
		}
	}
	for i := range members {
		if bit := memberSet(1) << i; q.op.need.has(bit) && !q.given.has(bit) {
			return core.Refuse(core.InvalidArgument, "'%s' is missing: the operation '%s' requires it.", members[i].name, q.op.name)
		}
	}
	if e := q.op.either; e != 0 && (q.given&e == 0 || q.given.has(e)) {
		return core.Refuse(core.InvalidArgument, "The operation '%s' requires exactly one of 'entity' and 'feed'.", q.op.name)
	}
	if q.op.check != nil {
		return q.op.check(q)
	}
	return nil
}

func into[T any](field func(*request) *T, read func(*codec.Reader) (T, error)) func(*request, *codec.Reader) error {
	return func(q *request, r *codec.Reader) (err error) {
		*field(q), err = read(r)
		return err
	}
}

type choice[T any] struct {
	word  string
	means T
}

func oneOf[T any](choices ...choice[T]) func(*codec.Reader) (T, error) {
	words := make([]string, len(choices))
	for i, c := range choices {
		words[i] = c.word
	}
	return func(r *codec.Reader) (none T, err error) {
		word, err := frame.ReadText(r)
		if err != nil {
			return none, err
		}
		if i := slices.Index(words, word); i >= 0 {
			return choices[i].means, nil
		}
		return none, frame.Wrong("is %.40q: it must be one of %s", word, strings.Join(words, ", "))
	}
}

func whole[T int | int64](least, most int64) func(*codec.Reader) (T, error) {
	return func(r *codec.Reader) (T, error) {
		switch k := r.Kind(); k {
		case codec.Int:
			if n := r.Int(); n >= least && n <= most {
				return T(n), nil
			}
		case codec.Uint, codec.Huge:
		default:
			return 0, frame.Wrong("is %s: it must be an integer", k)
		}
		return 0, &frame.Error{Code: core.OutOfRange, Text: wholeRange(least, most)}
	}
}

var (
	readID             = whole[int64](1, maxID)
	readSequenceNumber = whole[int64](0, math.MaxInt64)
)

var errTooMany = &frame.Error{Code: core.OutOfRange, Text: wholeRange(1, maxGroup) + " elements"}

func items[T any](read func(*codec.Reader) (T, error)) func(*codec.Reader) ([]T, error) {
	return func(r *codec.Reader) (all []T, err error) {
		if k := r.Kind(); k != codec.List {
			return nil, frame.Wrong("is %s: it must be a list", k)
		}
		for r.Open(); r.More(); {
			if len(all) == maxGroup {
				return nil, errTooMany
			}
			item, err := read(r)
			if err != nil {
				return nil, frame.At(len(all), err)
			}
			all = append(all, item)
		}
		if len(all) == 0 {
			return nil, frame.Wrong("is empty")
		}
		return all, nil
	}
}

// countItems returns how many elements a list has, or maxGroup+1 if it has more than maxGroup. It
// decodes none, so that a request that is refused costs little.
func countItems(r *codec.Reader) (n int) {
	if r.Kind() != codec.List {
		return 0
	}
	for r.Open(); n <= maxGroup && r.More(); n++ {
		r.Skip()
	}
	return n
}

func readLockToken(r *codec.Reader) (core.LockToken, error) {
	text, err := frame.ReadText(r)
	if err != nil {
		return core.LockToken{}, err
	}
	token, err := core.ParseLockToken(text)
	if err != nil {
		return token, frame.Wrong("is %.60q: %v", text, err)
	}
	return token, nil
}

func wholeRange(least, most int64) string {
	return fmt.Sprintf("must be between %d and %d", least, most)
}

func readBool(r *codec.Reader) (bool, error) {
	if k := r.Kind(); k != codec.Bool {
		return false, frame.Wrong("is %s: it must be true or false", k)
	}
	return r.Bool(), nil
}
