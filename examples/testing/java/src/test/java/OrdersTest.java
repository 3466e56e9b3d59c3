import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** An order workflow against a Crosstown of the test's own. */
class OrdersTest {
    @RegisterExtension
    static final CrosstownServer bus = new CrosstownServer(System.getenv().getOrDefault("ENTITIES", "../orders.yaml"));

    static ServiceBusClientBuilder client() {
        return new ServiceBusClientBuilder().connectionString(bus.connectionString())
            .retryOptions(new AmqpRetryOptions().setDelay(Duration.ofMillis(10)).setTryTimeout(Duration.ofSeconds(20)));
    }

    static ServiceBusSenderClient sender(String queue) {
        return client().sender().queueName(queue).buildClient();
    }

    static ServiceBusReceiverClient receiver(String queue, SubQueue sub) {
        return client().receiver().queueName(queue).subQueue(sub).disableAutoComplete().buildClient();
    }

    static ServiceBusReceivedMessage one(ServiceBusReceiverClient receiver) {
        return receiver.receiveMessages(1, Duration.ofSeconds(5)).stream().findFirst().orElseThrow();
    }

    @Test
    void anOrderThatFailsIsTriedTwice() {
        try (var sender = sender("orders"); var orders = receiver("orders", SubQueue.NONE); var dead = receiver("orders", SubQueue.DEAD_LETTER_QUEUE)) {
            sender.sendMessage(new ServiceBusMessage("tea"));
            for (int i = 0; i < 2; i++) {
                orders.abandon(one(orders));
            }
            var order = one(dead);
            assertEquals("MaxDeliveryCountExceeded", order.getDeadLetterReason());
            dead.complete(order);
        }
    }

    @Test
    void aReminderComesWhenItIsDue() throws Exception {
        try (var sender = sender("reminders"); var reminders = receiver("reminders", SubQueue.NONE)) {
            var due = bus.now().plusDays(14);
            sender.scheduleMessage(new ServiceBusMessage("pay"), due);
            bus.advance("P14D");
            var reminder = one(reminders);
            assertFalse(reminder.getEnqueuedTime().plus(Duration.ofMillis(1)).isBefore(due));
            reminders.complete(reminder);
        }
    }

    @Test
    void anOrderIsSentAgainWhenTheConnectionBreaks() throws Exception {
        bus.inject("{\"entity\": \"reminders\", \"effect\": \"drop-connection\"}");
        try (var sender = sender("reminders"); var reminders = receiver("reminders", SubQueue.NONE)) {
            sender.sendMessage(new ServiceBusMessage("again"));
            var m = one(reminders);
            assertEquals("again", m.getBody().toString());
            reminders.complete(m);
        }
    }
}
