package websocket

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// sub is the member of an object, and of that, and so on.
func sub(f object, path ...string) object {
	for _, name := range path {
		f = f[name].(object)
	}
	return f
}

func TestEntitiesAreManaged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "first")
		p := h.connect()
		made := p.ok("create", object{"kind": "queue", "entity": "orders", "settings": object{
			"LockDuration": "PT30S", "MaxDeliveryCount": 3, "RequiresDuplicateDetection": true, "DefaultMessageTimeToLive": "P14D", "UserMetadata": "m",
			"AuthorizationRules": []object{{"KeyName": "k", "PrimaryKey": "p", "SecondaryKey": "s", "Rights": []string{"Send", "Listen"}}},
		}})
		s := sub(made, "entity", "settings")
		if s["LockDuration"] != "PT30S" || s["MaxDeliveryCount"] != int64(3) || s["RequiresDuplicateDetection"] != true || s["DefaultMessageTimeToLive"] != "P14D" ||
			s["EnableBatchedOperations"] != true || fmt.Sprint(s["AuthorizationRules"]) != "[map[KeyName:k PrimaryKey:p Rights:[Send Listen] SecondaryKey:s]]" {
			t.Errorf("create: got %v", made)
		}
		p.refused("create", object{"kind": "topic", "entity": "orders"}, core.AlreadyExists)
		p.refused("create", object{"kind": "topic", "entity": "t", "settings": object{"LockDuration": "PT30S"}}, core.InvalidArgument)
		p.refused("create", object{"kind": "queue", "entity": "x", "settings": object{"LockDuration": "PT30H"}}, core.OutOfRange)
		p.refused("create", object{"kind": "queue", "entity": "x", "settings": object{"ForwardTo": "none"}}, core.InvalidArgument)
		updated := p.ok("update", object{"entity": "orders", "settings": object{"MaxDeliveryCount": 4, "Status": "SendDisabled"}})
		if s := sub(updated, "entity", "settings"); s["MaxDeliveryCount"] != int64(4) || s["LockDuration"] != "PT30S" || s["UserMetadata"] != "m" || s["Status"] != "SendDisabled" {
			t.Errorf("update changed more than it says: got %v", s)
		}
		p.refused("send", object{"entity": "orders", "messages": []object{{"text": "x"}}}, core.EntityDisabled)
		p.refused("update", object{"entity": "orders", "settings": object{"RequiresSession": true}}, core.InvalidArgument)
		p.fill("first", 3)
		got := sub(p.ok("entity", object{"entity": "first"}), "entity")
		if c := sub(got, "counts"); c["active"] != int64(3) || c["enqueued"] != int64(3) || c["scheduled"] != int64(0) || got["availability"] != "Available" || got["kind"] != "queue" || got["partitions"] != int64(1) {
			t.Errorf("entity: got %v", got)
		}
		p.ok("feed", object{"feed": 1, "entity": "first", "credit": 2})
		taken := p.deliveries(1, 2)
		p.ok("settle", object{"feed": 1, "settlements": []object{{"lockToken": broke(taken[0])["LockToken"], "outcome": "defer"}}})
		if c := sub(p.ok("entity", object{"entity": "first"}), "entity", "counts"); c["active"] != int64(3) || c["locked"] != int64(1) || c["deferred"] != int64(1) || c["consumers"] != int64(1) {
			t.Errorf("with a receiver: got %v", c)
		}
		p.ok("end", object{"feed": 1})
		if c := sub(p.ok("entity", object{"entity": "first"}), "entity", "counts"); c["consumers"] != int64(0) {
			t.Errorf("without: got %v", c)
		}
		p.ok("create", object{"kind": "topic", "entity": "events"})
		p.ok("create", object{"kind": "subscription", "entity": "events/Subscriptions/all"})
		all := p.ok("entities", object{"kind": "subscription", "topic": "events"})["entities"].([]any)
		if len(all) != 1 || all[0].(object)["name"] != "events/Subscriptions/all" || sub(all[0].(object), "settings")["ForwardTo"] != "" {
			t.Errorf("subscriptions: got %v", all)
		}
		if all := p.ok("entities", object{"kind": "queue", "skip": 1, "top": 1})["entities"].([]any); len(all) != 1 || all[0].(object)["name"] != "orders" {
			t.Errorf("queues: got %v", all)
		}
		p.ok("delete", object{"entity": "orders"})
		p.refused("entity", object{"entity": "orders"}, core.NotFound)
		p.refused("delete", object{"entity": "orders"}, core.NotFound)
	})
}

func TestWhoForwardsSends(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "a", "b")
		p := h.dial(protocolJSON)
		p.ok("auth", object{"token": "manager Manage a"})
		if text := p.refused("update", object{"entity": "a", "settings": object{"ForwardTo": "b"}}, core.Unauthorized); !strings.Contains(text, "ForwardTo") {
			t.Errorf("got %q", text)
		}
		p.ok("auth", object{"token": "sender Send b"})
		p.ok("update", object{"entity": "a", "settings": object{"ForwardTo": "b"}})
		p.ok("update", object{"entity": "a", "settings": object{"UserMetadata": "x"}})
	})
}

func TestRulesAreManagedAndTried(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		p := h.connect()
		const north = "events/Subscriptions/north"
		p.ok("create", object{"kind": "topic", "entity": "events"})
		byRegion := object{
			"name": "region", "filter": object{"kind": "sql", "sql": "region = @r", "parameters": object{"r": "north"}},
			"action": "SET sys.Label = @l", "actionParameters": object{"l": "n"},
		}
		p.ok("create", object{"kind": "subscription", "entity": north, "rule": byRegion})
		vip := object{"name": "vip", "filter": object{"kind": "correlation", "correlation": object{"Label": "vip", "properties": object{"tier": object{"$int": 1}}}}}
		made := p.ok("createRule", object{"entity": north, "rule": vip})
		if got, want := asText(t, made["rule"]), asText(t, vip); got != want {
			t.Errorf("createRule:\n got %s\nwant %s", got, want)
		}
		p.refused("createRule", object{"entity": north, "rule": vip}, core.AlreadyExists)
		p.refused("createRule", object{"entity": north, "rule": object{"name": "x", "filter": object{"kind": "sql", "sql": "a = = b"}}}, core.InvalidArgument)
		p.refused("updateRule", object{"entity": north, "rule": object{"name": "none"}}, core.NotFound)
		p.ok("updateRule", object{"entity": north, "rule": object{"name": "vip", "filter": object{"kind": "false"}}})
		rules := p.ok("rules", object{"entity": north})["rules"].([]any)
		if got, want := asText(t, rules), `[`+asText(t, byRegion)+`,{"filter":{"kind":"false"},"name":"vip"}]`; got != want {
			t.Errorf("rules:\n got %s\nwant %s", got, want)
		}
		message := object{"properties": object{"region": "north"}, "text": "x"}
		judged := p.ok("testRules", object{"entity": "events", "message": message})["judgements"].([]any)
		if len(judged) != 2 {
			t.Fatalf("testRules: got %v", judged)
		}
		first, second := judged[0].(object), judged[1].(object)
		if first["subscription"] != "north" || first["rule"] != "region" || first["matched"] != true || len(first["why"].([]any)) == 0 || sub(first, "message", "broker")["Label"] != "n" {
			t.Errorf("the rule that matches: got %v", first)
		}
		if second["matched"] != false || second["message"] != nil {
			t.Errorf("the rule that does not: got %v", second)
		}
		tried := p.ok("testRules", object{"entity": "events", "message": message, "rules": []object{{"name": "t", "filter": object{"kind": "sql", "sql": "a = ="}}}})["judgements"].([]any)
		if j := tried[0].(object); j["matched"] != false || j["error"] == nil {
			t.Errorf("a rule that is none: got %v", j)
		}
		p.ok("deleteRule", object{"entity": north, "name": "vip"})
		p.refused("deleteRule", object{"entity": north, "name": "vip"}, core.NotFound)
		p.ok("send", object{"entity": "events", "messages": []object{message}})
		p.ok("feed", object{"feed": 1, "entity": north, "credit": 1})
		if got := p.deliveries(1, 1)[0]; broke(got)["Label"] != "n" {
			t.Errorf("got %v", got)
		}
	})
}

func TestJudgementsOfManyRulesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		p := h.connect()
		p.ok("create", object{"kind": "topic", "entity": "events"})
		rules := func(n int, kind string) (all []object) {
			for i := range n {
				all = append(all, object{"name": fmt.Sprintf("%s%d", kind, i), "filter": object{"kind": kind}})
			}
			return all
		}
		wrong := object{"name": "wrong", "filter": object{"kind": "sql", "sql": "a ="}}
		for _, c := range []struct {
			text                       string
			rules                      []object
			judgements, total, matched int
			messages                   int
			first, second, last        string
		}{
			{"x", append(append(rules(1200, "false"), wrong), rules(2, "true")...), 1000, 1203, 2, 2, "true0", "true1", "false996"},
			{strings.Repeat("x", 200<<10), append(rules(3, "false"), rules(9, "true")...), 12, 12, 9, 5, "true0", "true1", "false2"}, // 1 MiB of messages,
			{"x", append(rules(1, "false"), wrong), 2, 2, 0, 0, "wrong", "false0", "false0"},
		} {
			got := p.ok("testRules", object{"entity": "events", "message": object{"text": c.text}, "rules": c.rules})
			all := got["judgements"].([]any)
			if len(all) != c.judgements || got["total"] != int64(c.total) || got["matched"] != int64(c.matched) {
				t.Fatalf("got %d judgements, total %v, matched %v, want %d, %d, %d", len(all), got["total"], got["matched"], c.judgements, c.total, c.matched)
			}
			messages := 0
			for _, j := range all {
				if j.(object)["message"] != nil {
					messages++
				}
			}
			if messages != c.messages {
				t.Errorf("%d judgements have a message, want %d", messages, c.messages)
			}
			for i, want := range map[int]string{0: c.first, 1: c.second, len(all) - 1: c.last} {
				if name := all[i].(object)["rule"]; name != want {
					t.Errorf("judgement %d: got that of %v, want %s", i, name, want)
				}
			}
		}
	})
}

func TestRulesOfOneSubscriptionAreTried(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{})
		p := h.connect()
		p.ok("create", object{"kind": "topic", "entity": "events"})
		for _, name := range []string{"a", "b"} {
			p.ok("create", object{"kind": "subscription", "entity": "events/Subscriptions/" + name, "rule": object{"name": "r-" + name, "filter": object{"kind": "true"}}})
		}
		asked := func(entity string, more object) string {
			t.Helper()
			request := object{"entity": entity, "message": object{"text": "x"}}
			maps.Copy(request, more)
			got := p.ok("testRules", request)
			var names []string
			for _, j := range got["judgements"].([]any) {
				names = append(names, j.(object)["rule"].(string))
			}
			return fmt.Sprint(names, got["total"], got["matched"])
		}
		for _, c := range []struct {
			entity, want string
			more         object
		}{
			{"events", "[r-a r-b] 2 2", nil},
			{"events/subscriptions/B", "[r-b] 1 1", nil},
			{"events/Subscriptions/b", "[mine] 1 1", object{"rules": []object{{"name": "mine"}}}},
		} {
			if got := asked(c.entity, c.more); got != c.want {
				t.Errorf("%s: got %s, want %s", c.entity, got, c.want)
			}
		}
		p.refused("testRules", object{"entity": "events/Subscriptions/c", "message": object{"text": "x"}}, core.NotFound)
	})
}

func asText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestConnectionsAreListed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := openHouse(t, Options{}, "q")
		h.queue("s", withSessions)
		h.dial(protocolPack)
		p := h.connect()
		p.ok("auth", object{"token": "more Listen q"})
		p.fill("q", 1)
		p.ok("feed", object{"feed": 1, "entity": "q", "mode": "receiveAndDelete"})
		p.ok("send", object{"entity": "s", "messages": []object{inSession("x", "y")}})
		p.ok("feed", object{"feed": 2, "entity": "s", "nextSession": true})
		all := p.ok("connections", nil)["connections"].([]any)
		if len(all) != 2 {
			t.Fatalf("got %v", all)
		}
		mine := all[0].(object)
		if len(mine["links"].([]any)) == 0 {
			mine = all[1].(object)
		}
		links := fmt.Sprint(mine["links"])
		for _, want := range []string{
			"map[direction:receive entity:q mode:receiveAndDelete]", "map[direction:receive entity:s mode:peekLock session:x]",
			"map[direction:send entity:q]", "map[direction:send entity:s]",
		} {
			if !strings.Contains(links, want) {
				t.Errorf("links: got %s, want %s among them", links, want)
			}
		}
		if mine["protocol"] != "websocket" || fmt.Sprint(mine["policies"]) != "[root more]" || mine["product"] != "Go-http-client/1.1" {
			t.Errorf("got %v", mine)
		}
	})
}
