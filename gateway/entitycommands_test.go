package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const managedEntities = `
queues:
  - {name: orders, user-metadata: m, policies: [{name: clerk, key: k, rights: [Send]}]}
  - {name: copies, lock-duration: 30s, policies: [{name: owner, key: o, rights: [Manage, Send, Listen]}]}
topics:
  - {name: events, subscriptions: [{name: all}], policies: [{name: owner, key: o, rights: [Manage, Send, Listen]}]}
policies:
  - {name: RootManageSharedAccessKey, key: SAS_KEY_VALUE, rights: [Manage, Send, Listen]}
  - {name: sender, key: s, rights: [Send]}
`

// entityCommands are command lines for entities, in this order, by the connection that they use: those of
// refusals, owner (a policy of an entity), web (a server that has no such page), page (one that has every page), or busy (one that refuses
// with a text of Service Bus).
const entityCommands = `
root      queue create made --lock-duration=45s --max-delivery-count=3 --default-message-time-to-live=1h --user-metadata=<a&b>
root      queue create made
root      queue create a/b
root      queue create forwarding --forward-to=made --forward-dead-lettered-messages-to=copies
root      queue create replies --requires-session --auto-delete-on-idle=1d --enable-partitioning --status=ReceiveDisabled --json
root      queue create unique --requires-duplicate-detection --duplicate-detection-history-time-window=5m --dead-lettering-on-message-expiration
root      queue create more --max-message-size-in-kilobytes=1024 --max-size-in-megabytes=2048 --enable-batched-operations=false
root      queue create nope/$x
root      queue create q --lock-duration=25h
root      queue create q --lock-duration=0s
root      queue create q --forward-to=nope
root      queue create q --forward-to=q
root      queue create q --status=Off
root      queue create
root      queue update made --lock-duration=50s
root      queue update made --requires-session
root      queue update made --user-metadata=
root      queue update forwarding --forward-to=
root      queue update more --max-delivery-count=4
root      queue update orders --user-metadata=changed
root      queue update nope --user-metadata=x
root      queue update events --user-metadata=x
root      queue update events/Subscriptions/all --user-metadata=x
root      queue update orders/$DeadLetterQueue --user-metadata=x
root      queue update orders --lock-duration=x
root      queue show made
root      queue show made --json
root      queue show replies --json
root      queue show forwarding --json
root      queue show unique --json
root      queue show more --json
root      queue show more
root      queue show orders
root      queue show a/b
root      queue show ORDERS
root      queue show nope
root      queue show events
root      queue show events/Subscriptions/all
root      queue show $management
root      queue list
root      queue list --json
root      queue list extra
root      queue delete made
root      queue delete replies --json
root      queue delete nope
root      queue delete events
root      queue delete events/Subscriptions/all
root      topic create news --default-message-time-to-live=1h --requires-duplicate-detection --max-size-in-megabytes=2048 --user-metadata=m
root      topic create orders
root      topic create ordered --enable-partitioning --status=SendDisabled --json
root      topic create t --max-size-in-megabytes=0
root      topic update news --status=Disabled
root      topic update news --requires-duplicate-detection=false
root      topic update nope --status=Disabled
root      topic update orders --user-metadata=x
root      topic show news
root      topic show news --json
root      topic show ordered --json
root      topic show nope
root      topic show orders
root      topic show events/Subscriptions/all
root      topic list
root      topic list --json
root      topic delete ordered
root      topic delete ordered
root      topic delete orders
root      subscription create events eu --sql=region=@r --parameter=r=eu --lock-duration=30s --requires-session --forward-dead-lettered-messages-to=copies
root      subscription create events eu
root      subscription create events first --rule=own --property=a=1 --property=b="1" --correlation=label=x
root      subscription create events acted --action=SET_a=1 --json
root      subscription create events none --match-none --dead-lettering-on-filter-evaluation-exceptions=false
root      subscription create events bad --sql=a==b
root      subscription create events bad --sql=a=1 --match-none
root      subscription create nope s
root      subscription create orders s
root      subscription create events
root      subscription update events eu --max-delivery-count=7
root      subscription update events eu --requires-session=false
root      subscription update events eu --status=ReceiveDisabled
root      subscription update events nope --max-delivery-count=7
root      subscription update nope eu --max-delivery-count=7
root      subscription show events eu
root      subscription show events eu --json
root      subscription show events none --json
root      subscription show events nope
root      subscription show nope nope
root      subscription show orders nope
root      subscription list events
root      subscription list events --json
root      subscription list nope
root      subscription list orders
root      subscription delete events none
root      subscription delete events none
root      subscription delete nope none
root      rule create events all large --sql=amount>@limit --parameter=limit=100 --action=SET_a=@v --action-parameter=v="7"
root      rule create events all large
root      rule create events all typed --property=i=5 --property=f=1.5 --property=b=true --property=t=text --property=q="5" --correlation=correlation-id=c --correlation=message-id=m --correlation=to=t --correlation=reply-to=r --correlation=label=l --correlation=session-id=s --correlation=reply-to-session-id=rs --correlation=content-type=ct --json
root      rule create events all none --match-none
root      rule create events all sp/ace
root      rule create events all bad --sql=a==b
root      rule create events all bad --parameter=a=1
root      rule create events all bad --property=p
root      rule create events nope r
root      rule create nope nope r
root      rule create orders nope r
root      rule update events all large --sql=amount>5
root      rule update events all nope --sql=amount>5
root      rule update nope all large
root      rule show events all large
root      rule show events all large --json
root      rule show events all typed
root      rule show events all typed --json
root      rule show events all none
root      rule show events all $Default --json
root      rule show events all nope
root      rule show events nope nope
root      rule show nope nope nope
root      rule list events all
root      rule list events all --json
root      rule list events acted --json
root      rule list events nope
root      rule list nope nope
root      rule list orders nope
root      rule delete events all typed
root      rule delete events all typed
root      rule delete events nope typed
root      rule delete nope nope typed
owner     queue show copies --json
owner     queue update copies --user-metadata=x
owner     queue show orders
owner     queue list
owner     subscription create events mine
owner     subscription update events mine --max-delivery-count=3
owner     subscription show events mine --json
owner     rule create events mine r
owner     rule show events mine r
owner     rule list events mine
owner     rule delete events mine r
owner     subscription delete events mine
root      topic delete events --json
sender    queue create q
sender    queue update orders --user-metadata=x
sender    queue show orders
sender    queue show nope
sender    queue list
sender    queue delete orders
sender    topic list
sender    subscription list news
sender    rule list news nope
sender    rule show news nope nope
wrong-key queue create q
wrong-key queue update orders --user-metadata=x
wrong-key queue show orders
wrong-key queue list
wrong-key queue delete orders
wrong-key subscription show news s
wrong-key rule list news s
wrong-policy topic show news
nowhere   queue list
nowhere   queue show orders
nowhere   queue delete orders
nowhere   rule list news s
untrusted queue list
untrusted topic create t
web       queue list
web       queue show orders
web       queue create q
web       queue delete q
web       rule show t s r
web       subscription show t s
page      queue list
page      queue show orders
page      queue create q
busy      queue list
busy      queue create q
busy      topic update t --status=Disabled
foreign   queue list
foreign   queue show nope
wrong-key bench --duration=1ms --queues=2
nowhere   bench --duration=1ms
web       bench --duration=1ms
`

// What a command for entities prints, and how it ends, stays when it uses another client.
func TestWhatCommandsForEntitiesPrintStays(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--config", write(t, "c.yaml", managedEntities))
	served := func(status int, kind, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return "Endpoint=sb://" + strings.TrimPrefix(s.URL, "http://") + ";SharedAccessKeyName=x;SharedAccessKey=y;UseDevelopmentEmulator=true"
	}
	r := g.golden(t)
	r.connect("web", "WEB", served(http.StatusNotFound, "text/html", "<html><body>no such page</body></html>"))
	r.connect("page", "PAGE", served(http.StatusOK, "text/html", "<html><body>a page</body></html>"))
	r.connect("busy", "BUSY", served(http.StatusForbidden, "application/xml", "<Error><Code>403</Code><Detail>SubCode=40300. The namespace is full. TrackingId:1, Timestamp:2</Detail></Error>"))
	var got strings.Builder
	for line := range strings.Lines(strings.TrimSpace(entityCommands)) {
		got.WriteString(r.try(t, line, strings.NewReplacer("SET_", "SET ").Replace))
	}
	compareGolden(t, "entity-commands.txt", got.String())
}
