// Geo-router is a plugin that sends orders to the queue of their country.
package main

import (
	"context"
	"strings"

	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

// regions has queues by country. Orders of other countries go to elsewhere.
var regions = map[string]string{
	"at": "orders-eu", "de": "orders-eu", "es": "orders-eu", "fr": "orders-eu", "it": "orders-eu", "nl": "orders-eu", "pl": "orders-eu",
	"ca": "orders-na", "mx": "orders-na", "us": "orders-na",
}

const elsewhere = "orders-world"

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	return sdk.Plugin{Name: "geo-router", Version: "1.0.0", OnSend: route}
}

// route chooses the queue by the property country, an ISO 3166 code in any case.
func route(_ context.Context, m *sdk.Message) (sdk.Verdict, error) {
	country, ok := m.Properties["country"].(string)
	if !ok {
		return sdk.DeadLetter("NoCountry", "The property country, a text, says where an order goes."), nil
	}
	queue, ok := regions[strings.ToLower(country)]
	if !ok {
		queue = elsewhere
	}
	m.Properties["region"] = strings.TrimPrefix(queue, "orders-")
	return sdk.To(queue), nil
}
