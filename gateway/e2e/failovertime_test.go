package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// Masters die with their disks, and the log says how long clients wait for the next send that is accepted: without
// another node, or until the dead one is replaced, which begins at once. docs/high-availability.md has the figures.
func TestSecondsUntilTheNextSendAfterAMastersDeath(t *testing.T) {
	needDisks(t)
	sentinel := func(nodes int) func(*testing.T) (string, func() func()) {
		return func(t *testing.T) (string, func() func()) {
			s := redistest.StartSentinel(t, nodes)
			return s.URL() + "?", func() func() {
				lost := s.LoseMaster(t)
				return func() { s.Repair(t, lost) }
			}
		}
	}
	cluster := func(replicas int) func(*testing.T) (string, func() func()) {
		return func(t *testing.T) (string, func() func()) {
			c := redistest.StartCluster(t, replicas)
			n := 0
			return c.URL() + "&", func() func() {
				n++
				loss := c.LoseMaster(t, n)
				return func() { loss.Repair(t) }
			}
		}
	}
	for _, recipe := range []struct {
		name     string
		start    func(*testing.T) (string, func() func())
		replicas int
		replace  bool // nothing is accepted until the node is replaced
	}{
		{"Sentinel 1 + 1, replicas=1", sentinel(1), 1, true},
		{"Sentinel 1 + 2, replicas=2", sentinel(2), 2, true},
		{"Sentinel 1 + 2, replicas=1", sentinel(2), 1, false},
		{"Cluster 3 + 3, replicas=1", cluster(1), 1, true},
		{"Cluster 3 + 6, replicas=1", cluster(2), 1, false},
		{"Sentinel 1 + 1, without replicas", sentinel(1), 0, false},
		{"Cluster 3 + 3, without replicas", cluster(1), 0, false},
	} {
		t.Run(recipe.name, func(t *testing.T) { // one after the other
			url, lose := recipe.start(t)
			e := &env{T: t, gw: own(t, fmt.Sprintf("%sreplicas=%d", url, recipe.replicas)), plain: true}
			// Each partition of a cluster is used.
			queue := e.queue(&admin.QueueProperties{EnablePartitioning: new(true)})
			sender := e.sender(queue)
			sent := func(key int) bool {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				return sender.SendMessage(ctx, &azservicebus.Message{PartitionKey: new(fmt.Sprint(key))}, nil) == nil
			}
			const kills, keys = 5, 12
			var waits []time.Duration
			for range kills {
				e.eventually("sends are accepted", func() bool { return sent(0) })
				replace := lose()
				began := time.Now()
				repaired := make(<-chan bool)
				repair := func() <-chan bool { return beside(e, func() bool { replace(); return true }) }
				if recipe.replace {
					repaired = repair()
				}
				for key := range keys { // of all partitions
					e.eventually("a send is accepted", func() bool { return sent(key) })
				}
				waits = append(waits, time.Since(began))
				if !recipe.replace {
					repaired = repair()
				}
				<-repaired
			}
			slices.Sort(waits)
			t.Logf("%s: median %.1f s, %.1f to %.1f s of %d deaths", recipe.name, waits[kills/2].Seconds(), waits[0].Seconds(), waits[kills-1].Seconds(), kills)
		})
	}
}
