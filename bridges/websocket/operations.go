package websocket

import "github.com/crosstown-mq/crosstown/core"

// operation is something that can be asked for.
type operation struct {
	name   string
	need   memberSet                 // members that it must have
	may    memberSet                 // and may have
	either memberSet                 // and must have exactly one of
	check  func(q *request) error    // what cannot be said by the sets; or nil
	run    func(c *conn, q *request) // in the owner
}

// operations by their names.
var operations = func() map[string]*operation {
	m := make(map[string]*operation)
	for _, o := range []*operation{
		{name: "auth", need: hasToken, may: hasNamespace, run: (*conn).authenticate},

		{name: "send", need: hasEntity | hasMessages, run: (*conn).send},
		{name: "cancel", need: hasEntity | hasSequenceNumbers, run: (*conn).cancelScheduled},

		{name: "feed", need: hasFeed | hasEntity, may: hasMode | hasCredit | hasBodies | hasAccept | hasSession | hasNextSession | hasWait | hasExclusive | hasSessionLockToken, check: checkFeed, run: (*conn).openFeed},
		{name: "credit", need: hasFeed | hasCredit, run: (*conn).credit},
		{name: "drain", need: hasFeed, run: (*conn).drainFeed},
		{name: "end", need: hasFeed, run: (*conn).endFeed},
		{name: "settle", need: hasSettlements, either: hasFeed | hasEntity, run: (*conn).settle},
		{name: "renew", need: hasEntity | hasLockTokens, run: (*conn).renew},
		{name: "peek", may: hasFrom | hasMax | hasInState | hasBodies, either: hasFeed | hasEntity, check: checkPeek, run: (*conn).peek},
		{name: "receiveDeferred", need: hasSequenceNumbers, may: hasMode | hasBodies, either: hasFeed | hasEntity, run: (*conn).receiveDeferred},
		{name: "purge", need: hasBefore, may: hasMax, either: hasFeed | hasEntity, run: (*conn).purge},

		{name: "renewSession", need: hasFeed, run: (*conn).renewSession},
		{name: "state", need: hasFeed, run: (*conn).state},
		{name: "setState", need: hasFeed | hasState, run: (*conn).setState},
		{name: "sessions", need: hasEntity, may: hasSince | hasSkip | hasTop, run: (*conn).sessions},

		{name: "entities", need: hasKind, may: hasTopic | hasSkip | hasTop, check: checkListing, run: (*conn).entities},
		{name: "entity", need: hasEntity, run: (*conn).entity},
		{name: "create", need: hasKind | hasEntity, may: hasSettings | hasRule, check: checkCreate, run: (*conn).create},
		{name: "update", need: hasEntity | hasSettings, run: (*conn).update},
		{name: "delete", need: hasEntity, run: (*conn).remove},
		{name: "rules", need: hasEntity, run: (*conn).rules},
		{name: "createRule", need: hasEntity | hasRule, run: (*conn).createRule},
		{name: "updateRule", need: hasEntity | hasRule, run: (*conn).updateRule},
		{name: "deleteRule", need: hasEntity | hasName, run: (*conn).deleteRule},
		{name: "testRules", need: hasEntity | hasMessage, may: hasRules, run: (*conn).testRules},
		{name: "connections", run: (*conn).connections},
		{name: "closeConnection", need: hasConnection, run: (*conn).closeConnection},
	} {
		m[o.name] = o
	}
	return m
}()

func checkFeed(q *request) error {
	if q.given.has(hasSession) && q.nextSession {
		return core.Refuse(core.InvalidArgument, "session and nextSession exclude each other.")
	}
	if q.given.has(hasWait) && !q.nextSession {
		return core.Refuse(core.InvalidArgument, "wait is for nextSession.")
	}
	if q.given.has(hasExclusive) && !q.given.has(hasSession) && !q.nextSession {
		return core.Refuse(core.InvalidArgument, "exclusive is for sessions.")
	}
	if q.given.has(hasSessionLockToken) && (!q.given.has(hasSession) || q.given.has(hasExclusive) && !q.shared) {
		return core.Refuse(core.InvalidArgument, "sessionLockToken is for a session that is named, and not exclusive.")
	}
	return nil
}

func checkPeek(q *request) error {
	if q.max > core.MaxPeek {
		return core.Refuse(core.OutOfRange, "max must be between 1 and %d.", core.MaxPeek)
	}
	if q.given.has(hasInState) && q.given.has(hasFeed) {
		return core.Refuse(core.InvalidArgument, "inState is for an entity, not for a session's feed.")
	}
	return nil
}

func checkListing(q *request) error {
	switch isSubscription := q.kind == core.Subscription; {
	case isSubscription && q.topic == "":
		return core.Refuse(core.InvalidArgument, "topic is missing: whose subscriptions?")
	case !isSubscription && q.given.has(hasTopic):
		return core.Refuse(core.InvalidArgument, "topic is for subscriptions.")
	}
	return nil
}

func checkCreate(q *request) error {
	if q.rule != nil && q.kind != core.Subscription {
		return core.Refuse(core.InvalidArgument, "rule is for subscriptions.")
	}
	return nil
}
