package plugintest_test

import (
	"context"
	"fmt"

	"github.com/crosstown-mq/crosstown/plugins/plugintest"
	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

// A test asks a plugin as a gateway does. It passes its own *testing.T; Run does the same for the plugin in
// process and for its compiled program, and Suite checks what every plugin must do.
func Example() {
	t := newT()
	defer t.end()

	c := plugintest.InProcess(t, sdk.Plugin{
		Name: "by-region",
		OnSend: func(_ context.Context, m *sdk.Message) (sdk.Verdict, error) {
			m.Properties["seen"] = true
			return sdk.To(fmt.Sprint("orders-", m.Properties["region"])), nil
		},
	})
	got, err := c.Judge(t, &sdk.Message{Properties: map[string]any{"region": "eu"}})
	fmt.Println(got.Action, got.Routes, got.Properties, err)
	// Output: pass [orders-eu] map[region:eu seen:true] <nil>
}
