package main

import (
	"slices"
	"testing"

	"github.com/crosstown-mq/crosstown/plugins/plugintest"
	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

func TestPlugin(t *testing.T) {
	t.Parallel()
	plugintest.Run(t, ".", plugin(), func(t *testing.T, c *plugintest.Client) {
		for _, test := range []struct{ country, queue, region string }{
			{"DE", "orders-eu", "eu"}, {"us", "orders-na", "na"}, {"jp", "orders-world", "world"},
		} {
			got, err := c.Judge(t, &sdk.Message{Properties: map[string]any{"country": test.country}})
			if err != nil || !slices.Equal(got.Routes, []string{test.queue}) || got.Beside || got.Properties["region"] != test.region {
				t.Errorf("%s: got %+v, %v, want %s", test.country, got, err, test.queue)
			}
		}
		got, err := c.Judge(t, &sdk.Message{Properties: map[string]any{"country": int32(49)}})
		if err != nil || got.Action != "dead-letter" || got.Reason != "NoCountry" {
			t.Errorf("no country: got %+v, %v", got, err)
		}
	})
}
