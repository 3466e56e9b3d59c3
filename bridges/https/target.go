package https

import (
	"strings"

	"github.com/crosstown-mq/crosstown/core"
)

// target is the resource of an admin request: an entity, a rule, or the list of a topic's
// subscriptions or of a subscription's rules.
type target struct {
	entity       string
	subscription string
	rule         string
	feed         bool
}

// parseTarget parses {entity}, {topic}/Subscriptions, {topic}/Subscriptions/{name}, and below that
// Rules and Rules/{name}. Names of entities contain no segment Subscriptions.
func parseTarget(path string) (target, error) {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if i == 0 || !strings.EqualFold(s, "subscriptions") {
			continue
		}
		t := target{entity: strings.Join(segments[:i], "/")}
		below := segments[i+1:]
		switch {
		case len(below) == 0:
			t.feed = true
			return t, nil
		case len(below) > 1 && !strings.EqualFold(below[1], "rules"), len(below) > 3:
			return target{}, core.Refuse(core.NotFound, "The resource '/%s' does not exist: below a subscription there are only Rules and Rules/NAME.", path)
		}
		t.subscription, t.feed = below[0], len(below) == 2
		if len(below) == 3 {
			t.rule = below[2]
		}
		return t, nil
	}
	return target{entity: path}, nil
}

func (t target) node() string {
	if t.subscription == "" {
		return t.entity
	}
	return core.SubscriptionPath(t.entity, t.subscription)
}

func (t target) path() string {
	path := "/" + escapePath(t.node())
	switch {
	case t.rule != "":
		return path + "/Rules/" + escapePath(t.rule)
	case t.feed && t.subscription != "":
		return path + "/Rules"
	case t.feed:
		return path + "/Subscriptions"
	}
	return path
}

type access uint8

const (
	read access = iota
	write
	remove
)

// claims are the texts of Service Bus for missing rights. Users of SDKs know them.
var claims = [...]string{
	read:   "Manage,EntityRead claims required for this operation.",
	write:  "Authorization failed for specified action: Manage,EntityWrite.",
	remove: "Authorization failed for specified action: Manage,EntityDelete.",
}

// denied replaces the text of an error about a missing right by that of Service Bus: it names the
// claim for queues and topics, and the operation for subscriptions and rules. Other errors stay
// unchanged.
func (t target) denied(at reference, a access, err error) error {
	if core.CodeOf(err) != core.Unauthorized || strings.HasPrefix(core.TextOf(err), "ExpiredToken") {
		return err
	}
	noun := ""
	switch {
	case t.rule != "" || t.feed && t.subscription != "":
		noun = "Rule"
	case t.subscription != "" || t.feed && t.entity != "":
		noun = "Subscription"
	default:
		return core.Refuse(core.Unauthorized, "%s", claims[a])
	}
	operation := [...]string{read: "Get", write: "CreateOrUpdate", remove: "Delete"}[a] + noun
	if t.feed && a == read {
		operation = "Enumerate" + noun + "s"
	}
	return core.Refuse(core.Unauthorized, "401 SubCode=40100: Unauthorized : Unauthorized access for '%s' operation on endpoint 'sb://%s%s'.", operation, at.host(), t.path())
}
