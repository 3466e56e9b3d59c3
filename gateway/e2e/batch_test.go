package e2e

import (
	"errors"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/Azure/go-amqp"
)

// batchFormat is the message format of a batch, whose data sections are encoded messages.
const batchFormat = 0x80013700

// SDKs bound a batch by its bytes, which the link names, and not by the number of its messages.
func TestABatchMayHaveManyTinyMessages(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{MaxMessageSizeInKilobytes: new(int64(1024))})
		topic := e.topic(&admin.TopicProperties{MaxMessageSizeInKilobytes: new(int64(1024))})
		for _, name := range []string{"a", "b"} {
			e.subscribe(topic, name, nil)
		}
		tiny, err := (&amqp.Message{Data: [][]byte{{'x'}}}).MarshalBinary()
		if err != nil {
			e.Fatal(err)
		}
		for _, entity := range []string{queue, topic} {
			s, err := e.amqp().NewSender(e.ctx(), entity, nil)
			if err != nil {
				e.Fatal(err)
			}
			most, _ := s.Properties()["com.microsoft:max-message-batch-size"].(uint64)
			if most != 1<<20 {
				e.Fatalf("%s: the link takes batches of %d bytes, want %d", entity, most, 1<<20)
			}
			batch := amqp.Message{Format: batchFormat, Data: slices.Repeat([][]byte{tiny}, 20_000)}
			attempts := int32(0)
			e.eventually("the batch is sent", func() bool { // the Redis of a busy machine may answer too late
				attempts++
				err := s.Send(e.ctx(), &batch, nil)
				if refused, ok := errors.AsType[*amqp.Error](err); err != nil && (!ok || refused.Condition != "com.microsoft:timeout" && refused.Condition != "com.microsoft:server-busy") {
					e.Fatalf("%s: %d messages: %v", entity, len(batch.Data), err)
				}
				return err == nil
			})
			stored := func() int32 { return e.runtime(queue).ActiveMessageCount }
			if entity == topic {
				stored = func() int32 {
					return min(e.subscriptionRuntime(topic, "a").ActiveMessageCount, e.subscriptionRuntime(topic, "b").ActiveMessageCount)
				}
			}
			all := int32(len(batch.Data))
			e.eventually("all messages are stored, once for each attempt at most", func() bool {
				n := stored()
				return n >= all && n <= attempts*all && n%all == 0
			})
		}
	})
}
