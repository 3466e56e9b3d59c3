package e2e

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core/auth"
)

func TestTheJavaScriptSDKIsAtHomeInAPage(t *testing.T) {
	tell(t, func(e *env) {
		queue, sessions := e.queue(nil), e.queue(&admin.QueueProperties{RequiresSession: new(true)})
		address := "sb://" + e.gw.host + "/"
		token := auth.SignSAS(address+queue, sendOnly, sendOnlyKey, time.Now().Add(time.Hour))
		e.browser("sdkpage", "STORY_PAGE="+e.page("pages/sdk.mjs"), "STORY_QUEUE="+queue, "STORY_SESSIONS="+sessions,
			"STORY_TOKEN=Endpoint="+address+";SharedAccessSignature="+token)
	}, "memory/tls", "redis/tls")
}
