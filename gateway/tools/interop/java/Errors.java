import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.util.BinaryData;
import com.azure.messaging.servicebus.*;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What a program sees of each error, told with the official Java SDK: writes {case: {type, text}} to the file STORY_REPORT.
 * It runs from its source, with the packages of the module azure.
 */
public final class Errors {
    static final String QUEUE = of("QUEUE"), CONNECTION = of("CONNECTION");

    static String of(String name) {
        return System.getenv("STORY_" + name);
    }

    interface Provocation {
        void run() throws Exception;
    }

    static ServiceBusClientBuilder builder(String connection) {
        return new ServiceBusClientBuilder().connectionString(connection)
            .retryOptions(new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(Duration.ofSeconds(20)));
    }

    static Provocation send(String connection, String queue, byte[] body) {
        return () -> {
            try (var sender = builder(connection).sender().queueName(queue).buildClient()) {
                sender.sendMessage(new ServiceBusMessage(body).setMessageId("m"));
            }
        };
    }

    static void settleLost() throws Exception {
        send(CONNECTION, QUEUE, "hello".getBytes()).run();
        try (var receiver = builder(CONNECTION).receiver().queueName(QUEUE).disableAutoComplete()
            .maxAutoLockRenewDuration(Duration.ZERO).buildClient()) {
            for (var m : receiver.receiveMessages(1)) {
                var unlock = HttpRequest.newBuilder(URI.create(of("MESSAGES") + "/" + m.getMessageId() + "/" + m.getLockToken()))
                    .header("Authorization", of("TOKEN")).PUT(HttpRequest.BodyPublishers.noBody()).build();
                var answer = HttpClient.newHttpClient().send(unlock, HttpResponse.BodyHandlers.ofString());
                if (answer.statusCode() != 200) {
                    throw new AssertionError("unlock: " + answer.statusCode() + " " + answer.body());
                }
                receiver.complete(m);
            }
        }
    }

    static String kind(Exception e) {
        if (e instanceof ServiceBusException refused) {
            return "ServiceBusException, reason " + refused.getReason() + (refused.isTransient() ? ", transient" : "");
        }
        return e.getClass().getSimpleName();
    }

    public static void main(String[] args) throws Exception {
        byte[] hello = "hello".getBytes();
        var cases = Map.<String, Provocation>of(
            "wrong key", send(of("WRONG_KEY"), QUEUE, hello),
            "expired token", send(of("EXPIRED"), QUEUE, hello),
            "missing entity", send(CONNECTION, "no-such-queue", hello),
            "missing claim", send(of("LISTEN_ONLY"), QUEUE, hello),
            "no network", send(of("NOBODY"), QUEUE, hello),
            "lost lock", Errors::settleLost,
            "message too large", send(CONNECTION, QUEUE, new byte[300 << 10]),
            "disabled entity", send(CONNECTION, of("DISABLED"), hello));
        var report = new LinkedHashMap<String, Map<String, String>>();
        cases.forEach((name, provocation) -> {
            try {
                provocation.run();
            } catch (Exception e) {
                report.put(name, Map.of("type", kind(e), "text", String.valueOf(e.getMessage())));
            }
        });
        Files.writeString(Path.of(of("REPORT")), BinaryData.fromObject(report).toString());
        System.exit(0); // the SDK's threads would go on
    }
}
