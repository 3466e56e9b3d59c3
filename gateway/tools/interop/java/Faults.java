import com.azure.core.amqp.AmqpRetryMode;
import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.util.BinaryData;
import com.azure.core.util.IterableStream;
import com.azure.messaging.servicebus.*;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;

/**
 * What the official Java SDK makes of faults: does the steps of STORY_CASES and writes {case: outcome} to the file
 * STORY_REPORT. It runs from its source, with the packages of the module azure.
 */
public final class Faults {
    static ServiceBusClientBuilder builder(String connection) {
        return new ServiceBusClientBuilder().connectionString(connection).retryOptions(new AmqpRetryOptions()
            .setMode(AmqpRetryMode.FIXED).setMaxRetries(3).setDelay(Duration.ofMillis(100)).setTryTimeout(Duration.ofSeconds(20)));
    }

    static ServiceBusMessage message(String body) {
        return new ServiceBusMessage(body).setMessageId(body);
    }

    static void send(String connection, ServiceBusMessage... messages) {
        try (var sender = builder(connection).sender().queueName("q").buildClient()) {
            if (messages.length == 1) {
                sender.sendMessage(messages[0]);
            } else {
                sender.sendMessages(List.of(messages));
            }
        }
    }

    static ServiceBusReceivedMessage first(IterableStream<ServiceBusReceivedMessage> messages) {
        return messages.stream().findFirst().orElse(null);
    }

    static String step(String step, String connection, Duration wait) throws Exception {
        if (step.equals("session")) {
            send(connection, message("one").setSessionId("s"));
            try (var sessions = builder(connection).sessionReceiver().disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO).queueName("q").buildClient();
                 var receiver = sessions.acceptSession("s")) {
                var received = first(receiver.receiveMessages(1, wait));
                Thread.sleep(1000);
                receiver.complete(received);
                return "completed";
            }
        }
        if (step.equals("token")) {
            try (var sender = builder(connection).sender().queueName("q").buildClient()) {
                sender.sendMessage(message("one"));
                Thread.sleep(2000);
                sender.sendMessage(message("two"));
                return "sent";
            }
        }
        boolean many = step.equals("receive");
        send(connection, many ? new ServiceBusMessage[]{message("one"), message("two"), message("three")} : new ServiceBusMessage[]{message("one")});
        if (step.equals("send")) {
            return "sent";
        }
        try (var receiver = builder(connection).receiver().disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO).queueName("q").buildClient()) {
            if (many) {
                var bodies = new ArrayList<String>();
                while (bodies.size() < 3) {
                    int before = bodies.size();
                    for (var m : receiver.receiveMessages(3 - before, wait)) {
                        bodies.add(m.getBody().toString());
                        receiver.complete(m);
                    }
                    if (bodies.size() == before) {
                        break;
                    }
                }
                return String.join(", ", bodies);
            }
            var received = first(receiver.receiveMessages(1, wait));
            if (received == null) {
                return "no message arrives";
            }
            if (step.equals("renew")) {
                receiver.renewMessageLock(received);
                return "renewed";
            }
            receiver.complete(received);
            return "completed";
        }
    }

    static String shown(Exception e) {
        if (e instanceof ServiceBusException refused) {
            return "`ServiceBusException`, reason `" + refused.getReason() + "`";
        }
        return "`" + e.getClass().getSimpleName() + "`";
    }

    public static void main(String[] args) throws Exception {
        List<Map<String, Object>> cases = BinaryData.fromString(System.getenv("STORY_CASES")).toObject(List.class);
        var report = new ConcurrentHashMap<String, String>();
        var pool = Executors.newFixedThreadPool(cases.size());
        for (var c : cases) {
            pool.submit(() -> {
                try {
                    report.put((String) c.get("name"), step((String) c.get("step"), (String) c.get("connection"), Duration.ofMillis(((Number) c.get("receiveMS")).longValue())));
                } catch (Exception e) {
                    report.put((String) c.get("name"), shown(e));
                }
            });
        }
        pool.shutdown();
        pool.awaitTermination(2, java.util.concurrent.TimeUnit.MINUTES);
        Files.writeString(Path.of(System.getenv("STORY_REPORT")), BinaryData.fromObject(new LinkedHashMap<>(report)).toString());
        System.exit(0); // the SDK's threads would go on
    }
}
