// Package plugintest tests plugins with the same tests twice: in the process of the test, and
// compiled and launched as by a gateway:
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
