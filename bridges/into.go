package bridges

import "github.com/crosstown-mq/crosstown/core"

// Into is a ReceiverOptions.Deliver that puts deliveries into a channel. The credit given must never exceed
// what is free of its capacity.
func Into(arrived chan<- core.Delivery) func([]core.Delivery) {
	return func(ds []core.Delivery) {
		for _, d := range ds {
			arrived <- d
		}
	}
}
