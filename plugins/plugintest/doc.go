// Package plugintest tests plugins: in the test's own process, and compiled and run as a gateway
// runs them. Both run the same tests:
//
//	func TestPlugin(t *testing.T) {
//		plugintest.Run(t, ".", plugin(), func(t *testing.T, c *plugintest.Client) {
//			got, err := c.Judge(t, &sdk.Message{Properties: map[string]any{"region": "eu"}})
//			if err != nil || !slices.Equal(got.Routes, []string{"orders-eu"}) {
//				t.Errorf("got %+v, %v", got, err)
//			}
//		})
//	}
package plugintest
