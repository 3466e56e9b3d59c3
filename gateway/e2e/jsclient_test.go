package e2e

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func TestTheClientIsAtHomeInNode(t *testing.T) {
	tell(t, func(e *env) { e.node("client", "STORY_QUEUE="+e.name()) }, "memory/tcp", "redis/tls")
}

func TestTheClientLosesNothingWhenItsConnectionBreaks(t *testing.T) {
	tell(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{RequiresDuplicateDetection: new(true), LockDuration: new("PT5S")})
		e.browser("clientpage", "STORY_PAGE="+e.page("pages/client.mjs"), "STORY_QUEUE="+queue)
	}, "redis/tcp")
}
