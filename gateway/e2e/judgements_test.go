package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// What testing the rules says of a message is what happens when it is sent.
func TestRuleTestsPredictDeliveries(t *testing.T) {
	onEachEngine(t, func(e *env) {
		topic, n := e.topic(nil), e.native()
		e.subscribe(topic, "everything", nil)
		e.subscribe(topic, "north", nil, matching("r", "region = 'north' AND amount > 10"))
		e.subscribe(topic, "south", nil, matching("r", "region = 'south' OR missing = 1"))
		e.subscribe(topic, "label", nil, admin.RuleProperties{Name: "r", Filter: &admin.CorrelationFilter{Subject: new("order")}})
		e.subscribe(topic, "changed", nil, admin.RuleProperties{
			Name: "r", Filter: &admin.TrueFilter{}, Action: &admin.SQLAction{Expression: "SET sys.Label = 'changed'"},
		})
		for _, c := range []struct {
			message string
			want    []string // subscription: matched, why, label of the copy
		}{
			{
				`{"broker":{"Label":"order"},"properties":{"region":"north","amount":{"$int":50}},"text":"1"}`,
				[]string{
					"changed: true [the filter matches every message] changed",
					"everything: true [the filter matches every message] order",
					"label: true [Label = 'order' is true] order",
					"north: true [region = 'north' is true: region is 'north' (string) amount > 10 is true: amount is 50 (int)] order",
					"south: false [region = 'south' is false: region is 'north' (string) missing = 1 is unknown: missing is not set] ",
				},
			},
			{
				`{"broker":{"Label":"offer"},"properties":{"region":"south"},"text":"2"}`,
				[]string{
					"changed: true [the filter matches every message] changed",
					"everything: true [the filter matches every message] offer",
					"south: true [region = 'south' is true: region is 'south' (string)] offer",
					"label: false [Label = 'order' is false: Label is 'offer'] ",
					"north: false [region = 'north' is false: region is 'south' (string)] ",
				},
			},
		} {
			got := n.askAs(fmt.Sprintf(`"op":"testRules","entity":%q,"message":%s`, topic, c.message))
			var told []string
			before := map[string]int64{}
			for _, j := range got.Judgements {
				told = append(told, fmt.Sprintf("%s: %t %v %s", j.Subscription, j.Matched, j.Why, j.Message.Broker.Label))
				before[j.Subscription] = e.subscriptionRuntime(topic, j.Subscription).TotalMessageCount
			}
			if strings.Join(told, "\n") != strings.Join(c.want, "\n") {
				e.Errorf("got %s %s\n%s\nwant\n%s", got.Code, got.Text, strings.Join(told, "\n"), strings.Join(c.want, "\n"))
			}
			n.must(map[string]any{"op": "send", "entity": topic, "messages": []json.RawMessage{json.RawMessage(c.message)}})
			for _, j := range got.Judgements {
				more := e.subscriptionRuntime(topic, j.Subscription).TotalMessageCount - before[j.Subscription]
				if (more == 1) != j.Matched {
					e.Errorf("%s: %d messages came, and testing said %t", j.Subscription, more, j.Matched)
				}
			}
		}
		got := n.askAs(fmt.Sprintf(`"op":"testRules","entity":%q,"message":{},"rules":[{"name":"new","filter":{"kind":"sql","sql":"region ="}}]`, topic))
		if len(got.Judgements) != 1 || got.Judgements[0].Matched || !strings.Contains(got.Judgements[0].Error, "position 9") {
			e.Errorf("got %+v, want the position of what is wrong", got)
		}
	})
}
