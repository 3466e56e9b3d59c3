import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.models.SubQueue;
import java.nio.file.Path;
import java.time.Duration;
import java.time.OffsetDateTime;
import org.junit.jupiter.api.Test;
import org.testcontainers.junit.jupiter.Container;
import org.testcontainers.junit.jupiter.Testcontainers;

/** An order workflow against a Crosstown in a container. Without a container engine the tests are skipped. */
@Testcontainers(disabledWithoutDocker = true)
class OrdersContainerTest {
    @Container
    static final CrosstownContainer bus = new CrosstownContainer(Path.of(System.getenv().getOrDefault("ENTITIES", "../orders.yaml")));

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
            sender.scheduleMessage(new ServiceBusMessage("pay"), OffsetDateTime.now().plusDays(14));
            bus.crosstown("clock", "advance", "P15D");
            reminders.complete(one(reminders));
        }
    }

    @Test
    void anOrderIsSentAgainWhenTheConnectionBreaks() throws Exception {
        bus.crosstown("fault", "add", "--entity", "reminders", "--effect", "drop-connection");
        try (var sender = sender("reminders"); var reminders = receiver("reminders", SubQueue.NONE)) {
            sender.sendMessage(new ServiceBusMessage("again"));
            var m = one(reminders);
            assertEquals("again", m.getBody().toString());
            reminders.complete(m);
        }
    }
}
