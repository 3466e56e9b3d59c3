package websocket

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/internal/codec"
)

func (c *conn) mayBegin() bool {
	return !c.proving && len(c.underWay) < maxRequests && c.held <= maxUnderWay && len(c.out)+c.writing <= 2*maxWaiting
}

// After a refused request, the connection pauses (see link.Owner.Rest) if the frame or its decoded
// messages have more than largeRequest bytes.
const largeRequest = 16 << 10

func (c *conn) begin(q *request) {
	if c.said {
		return
	}
	if _, twice := c.underWay[q.id]; twice {
		c.close(closeNoID, fmt.Sprintf("A request with the id %d is still in progress: use another id.", q.id))
		return
	}
	if c.underWay == nil {
		c.underWay = make(map[int64]struct{})
	}
	c.underWay[q.id] = struct{}{}
	c.held += q.bytes
	switch {
	case len(c.Identity) == 0 && (q.op == nil || q.op.name != "auth"):
		c.close(closeNotSignedIn, "The first frame must be 'auth'.")
	case q.wrong != nil:
		c.rests = c.rests || q.large
		c.refuse(q, q.wrong)
	case q.op.run != nil:
		q.op.run(c, q)
	case !q.has("feed"):
		c.perform(q, nil, func() {})
	default:
		c.onFeed(q, func(f *feed) {
			if f.held == nil {
				c.refuse(q, core.Refuse(core.NotAllowed, "Feed %d has no session: open a feed with 'session' or 'nextSession'.", f.number))
				return
			}
			f.busy = true // later requests for the session wait for the end of this one
			c.perform(q, f.held, f.next)
		})
	}
}

// call is a broker call for a request.
type call struct {
	*request
	id      core.Identity
	session core.Session // of the request's feed; nil if the request names no feed
}

// answer writes the members of an answer. It may be nil.
type answer = func(w codec.Writer)

// perform makes the broker call of q's operation in a goroutine. After the call, a job of the owner
// answers q and then calls then.
func (c *conn) perform(q *request, session core.Session, then func()) {
	o := call{q, c.Identity, session}
	c.Calls.Begin(func(ctx context.Context) func() {
		more, err := q.op.do(c, ctx, o)
		return func() {
			c.conclude(q, err, more)
			then()
		}
	})
}

func (c *conn) answer(q *request, more answer) {
	c.finish(q)
	c.tell("ok", func(w codec.Writer) {
		w.Key("id").Int(q.id)
		if more != nil {
			more(w)
		}
	})
}

func (c *conn) refuse(q *request, err error) {
	c.finish(q)
	c.tell("error", func(w codec.Writer) {
		w.Key("id").Int(q.id)
		c.writeError(w, err, q.entity, q.about()...)
	})
}

func (q *request) about() []any {
	about := []any{"request", q.id}
	if q.op != nil {
		about = append(about, "operation", q.op.name)
	}
	if q.has("feed") {
		about = append(about, "link", q.feed)
	}
	return about
}

func (c *conn) conclude(q *request, err error, more answer) {
	if err != nil {
		c.refuse(q, err)
		return
	}
	c.answer(q, more)
}

func (c *conn) finish(q *request) {
	delete(c.underWay, q.id)
	c.held -= q.bytes
	c.Memory.Add(-int64(q.bytes))
}

type operation struct {
	name   string
	need   memberSet
	may    memberSet
	either memberSet
	check  func(q *request) error // checks what need, may and either cannot express; may be nil

	// Each operation has either run or do. do makes a broker call, with a session if q has a feed.
	run func(c *conn, q *request)
	do  func(c *conn, ctx context.Context, o call) (answer, error)
}

var operations = func() map[string]*operation {
	m := make(map[string]*operation)
	for _, o := range []*operation{
		{name: "auth", need: setOf("token"), may: setOf("namespace"), run: (*conn).authenticate},

		{name: "send", need: setOf("entity", "messages"), run: (*conn).send},
		{name: "cancel", need: setOf("entity", "sequenceNumbers"), do: (*conn).cancelScheduled},

		{name: "feed", need: setOf("feed", "entity"), may: setOf("mode", "credit", "bodies", "accept", "session", "nextSession", "wait", "exclusive", "sessionLockToken"), check: checkFeed, run: (*conn).openFeed},
		{name: "credit", need: setOf("feed", "credit"), run: (*conn).credit},
		{name: "drain", need: setOf("feed"), run: (*conn).drainFeed},
		{name: "end", need: setOf("feed"), run: (*conn).endFeed},
		{name: "settle", need: setOf("settlements"), either: setOf("feed", "entity"), run: (*conn).settle},
		{name: "renew", need: setOf("entity", "lockTokens"), do: (*conn).renew},
		{name: "peek", may: setOf("from", "max", "inState", "bodies"), either: setOf("feed", "entity"), check: checkPeek, do: (*conn).peek},
		{name: "receiveDeferred", need: setOf("sequenceNumbers"), may: setOf("mode", "bodies"), either: setOf("feed", "entity"), do: (*conn).receiveDeferred},
		{name: "purge", need: setOf("before"), may: setOf("max"), either: setOf("feed", "entity"), do: (*conn).purge},

		{name: "renewSession", need: setOf("feed"), do: (*conn).renewSession},
		{name: "state", need: setOf("feed"), do: (*conn).state},
		{name: "setState", need: setOf("feed", "state"), do: (*conn).setState},
		{name: "sessions", need: setOf("entity"), may: setOf("since", "skip", "top"), do: (*conn).sessions},

		{name: "entities", need: setOf("kind"), may: setOf("topic", "skip", "top"), check: checkListing, do: (*conn).entities},
		{name: "entity", need: setOf("entity"), do: (*conn).entity},
		{name: "create", need: setOf("kind", "entity"), may: setOf("settings", "rule"), check: checkCreate, do: (*conn).create},
		{name: "update", need: setOf("entity", "settings"), do: (*conn).update},
		{name: "delete", need: setOf("entity"), do: (*conn).remove},
		{name: "rules", need: setOf("entity"), do: (*conn).rules},
		{name: "createRule", need: setOf("entity", "rule"), do: (*conn).createRule},
		{name: "updateRule", need: setOf("entity", "rule"), do: (*conn).updateRule},
		{name: "deleteRule", need: setOf("entity", "name"), do: (*conn).deleteRule},
		{name: "testRules", need: setOf("entity", "message"), may: setOf("rules"), do: (*conn).testRules},
		{name: "connections", do: (*conn).connections},
		{name: "closeConnection", need: setOf("connection"), do: (*conn).closeConnection},
	} {
		m[o.name] = o
	}
	return m
}()

func checkFeed(q *request) error {
	if q.has("session") && q.nextSession {
		return core.Refuse(core.InvalidArgument, "Use 'session' or 'nextSession', not both.")
	}
	if q.has("wait") && !q.nextSession {
		return core.Refuse(core.InvalidArgument, "'wait' is only allowed together with 'nextSession'.")
	}
	if q.has("exclusive") && !q.has("session") && !q.nextSession {
		return core.Refuse(core.InvalidArgument, "'exclusive' is only allowed together with 'session' or 'nextSession'.")
	}
	if q.has("sessionLockToken") && (!q.has("session") || q.has("exclusive") && !q.shared) {
		return core.Refuse(core.InvalidArgument, "'sessionLockToken' is only allowed together with 'session', and not with 'exclusive': true.")
	}
	return nil
}

func checkPeek(q *request) error {
	if q.max > core.MaxPeek {
		return core.Refuse(core.OutOfRange, "'max' is %d: it must be between 1 and %d.", q.max, core.MaxPeek)
	}
	if q.has("inState") && q.has("feed") {
		return core.Refuse(core.InvalidArgument, "'inState' is only allowed together with 'entity', not with 'feed'.")
	}
	return nil
}

func checkListing(q *request) error {
	switch isSubscription := q.kind == core.Subscription; {
	case isSubscription && q.topic == "":
		return core.Refuse(core.InvalidArgument, "'topic' is missing: specify the topic of the subscriptions.")
	case !isSubscription && q.has("topic"):
		return core.Refuse(core.InvalidArgument, "'topic' is only allowed for subscriptions.")
	}
	return nil
}

func checkCreate(q *request) error {
	if q.rule != nil && q.kind != core.Subscription {
		return core.Refuse(core.InvalidArgument, "'rule' is only allowed for subscriptions.")
	}
	return nil
}
