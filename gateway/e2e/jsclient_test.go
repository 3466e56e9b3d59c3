package e2e

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func TestTheClientIsAtHomeInNode(t *testing.T) {
	tell(t, func(e *env) { e.node("client", "STORY_QUEUE="+e.name()) }, "file/tcp", "redis/tls")
}

func TestClientReportsUnknownOutcomes(t *testing.T) {
	onEachEngine(t, func(e *env) {
		sessions := e.queue(&admin.QueueProperties{RequiresSession: new(true)})
		e.node("reconnect", "STORY_QUEUE="+e.queue(nil), "STORY_SESSIONS="+sessions)
	})
}

func TestTheClientLosesNothingWhenItsConnectionBreaks(t *testing.T) {
	tell(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{RequiresDuplicateDetection: new(true), LockDuration: new("PT5S"), MaxDeliveryCount: new(int32(1000))})
		e.browser("clientpage", "STORY_PAGE="+e.page("pages/client.mjs"), "STORY_QUEUE="+queue)
	}, "redis/tcp")
}
