package e2e

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func TestTheJavaScriptSDKIsAtHomeInAPage(t *testing.T) {
	tell(t, func(e *env) {
		sessions := e.queue(&admin.QueueProperties{RequiresSession: new(true)})
		e.browser("sdkpage", "STORY_PAGE="+e.page("pages/sdk.mjs"), "STORY_QUEUE="+e.queue(nil), "STORY_SESSIONS="+sessions)
	}, "memory/tls", "redis/tls")
}
