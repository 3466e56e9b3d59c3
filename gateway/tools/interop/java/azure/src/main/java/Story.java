import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.AmqpTransportType;
import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.core.amqp.models.AmqpAnnotatedMessage;
import com.azure.core.amqp.models.AmqpMessageBody;
import com.azure.core.exception.ResourceExistsException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.core.http.HttpPipelineCallContext;
import com.azure.core.http.HttpPipelineNextPolicy;
import com.azure.core.http.HttpResponse;
import com.azure.core.http.policy.HttpPipelinePolicy;
import com.azure.core.util.BinaryData;
import com.azure.core.util.UrlBuilder;
import com.azure.messaging.servicebus.*;
import com.azure.messaging.servicebus.administration.*;
import com.azure.messaging.servicebus.administration.models.*;
import com.azure.messaging.servicebus.models.*;
import java.net.MalformedURLException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.Collectors;
import reactor.core.publisher.Mono;

/**
 * The lives of queues and a topic, told with the official Java SDK. STORY_AMQP says where, STORY_WEBSOCKET that AMQP is to go
 * through a WebSocket, STORY_PORT the port for management, STORY_NAME what its entities' names begin with.
 */
public final class Story {
    static final String CONNECTION = System.getenv("STORY_AMQP");
    static final int PORT = Integer.parseInt(System.getenv("STORY_PORT"));
    static final String NAME = System.getenv("STORY_NAME");
    static final Duration PATIENCE = Duration.ofSeconds(20);
    static final ServiceBusAdministrationClient admin = new ServiceBusAdministrationClientBuilder()
        .connectionString(CONNECTION).addPolicy(new ToPort(PORT)).buildClient();

    /** ToPort sends requests to a port: the SDK drops that of the connection string. */
    record ToPort(int port) implements HttpPipelinePolicy {
        @Override
        public Mono<HttpResponse> process(HttpPipelineCallContext context, HttpPipelineNextPolicy next) {
            try {
                var url = UrlBuilder.parse(context.getHttpRequest().getUrl()).setPort(String.valueOf(port)).toUrl();
                context.getHttpRequest().setUrl(url);
            } catch (MalformedURLException e) {
                return Mono.error(e);
            }
            return next.process();
        }
    }

    static ServiceBusClientBuilder builder() {
        var builder = new ServiceBusClientBuilder().connectionString(CONNECTION)
            .retryOptions(new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(PATIENCE));
        return System.getenv("STORY_WEBSOCKET") == null ? builder : builder.transportType(AmqpTransportType.AMQP_WEB_SOCKETS);
    }

    static ServiceBusReceiverClient receiver(String queue) {
        return builder().receiver().queueName(queue).disableAutoComplete().maxAutoLockRenewDuration(Duration.ZERO).buildClient();
    }

    static ServiceBusReceivedMessage one(ServiceBusReceiverClient receiver) {
        for (var m : receiver.receiveMessages(1, PATIENCE)) {
            return m;
        }
        throw new AssertionError("no message came");
    }

    static void none(ServiceBusReceiverClient receiver) {
        for (var m : receiver.receiveMessages(1, Duration.ofMillis(400))) {
            throw new AssertionError("a message came: " + m.getBody());
        }
    }

    static ServiceBusMessage message(String body) {
        return new ServiceBusMessage(body).setMessageId(body);
    }

    static void want(Object got, Object want, String what) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError(what + ": got " + got + ", want " + want);
        }
    }

    static void wantReason(Runnable act, ServiceBusFailureReason want) {
        try {
            act.run();
        } catch (ServiceBusException e) {
            if (e.getReason() != want) {
                throw new AssertionError("got reason " + e.getReason() + ", want " + want, e);
            }
            return;
        }
        throw new AssertionError("nothing was refused, want " + want);
    }

    interface Chapter {
        void tell(String queue) throws Exception;
    }

    /** chapter tells a part of the story with a queue of its own; one that fails does not keep the others from being told. */
    static Callable<Boolean> chapter(String name, CreateQueueOptions options, Chapter chapter) {
        return () -> {
            String queue = NAME + "-" + name.replace(' ', '-');
            try {
                admin.createQueue(queue, options);
                chapter.tell(queue);
                admin.deleteQueue(queue);
                return true;
            } catch (Throwable e) {
                var report = new StringBuilder("FAILED " + name);
                for (Throwable cause = e; cause != null; cause = cause.getCause()) {
                    report.append("\n  ").append(cause);
                    Arrays.stream(cause.getStackTrace()).limit(8).forEach(at -> report.append("\n    at ").append(at));
                }
                System.out.println(report);
                return false;
            }
        };
    }

    static CreateQueueOptions plain() {
        return new CreateQueueOptions();
    }

    static CreateQueueOptions withSessions() {
        return plain().setSessionRequired(true);
    }

    static CreateQueueOptions withShortLocks() {
        return plain().setLockDuration(Duration.ofSeconds(5));
    }

    public static void main(String[] args) throws Exception {
        var chapters = List.of(
            chapter("properties", plain(), Story::properties),
            chapter("outcomes", plain(), Story::outcomes),
            chapter("batches", plain(), Story::batches),
            chapter("bodies", plain(), Story::bodies),
            chapter("schedules", plain(), Story::schedules),
            chapter("browsing", plain(), Story::browsing),
            chapter("deleting", plain(), Story::deleting),
            chapter("locks", withShortLocks(), Story::locks),
            chapter("sessions", withSessions(), Story::sessions),
            chapter("processor", plain().setMaxDeliveryCount(3), Story::processor),
            chapter("session processor", withSessions(), Story::sessionProcessor),
            chapter("transactions", withShortLocks(), Story::transactions),
            chapter("schedules in transactions", plain(), Story::schedulesInTransactions),
            chapter("transactions across", plain(), Story::transactionsAcross),
            chapter("session transactions", withSessions(), Story::sessionTransactions),
            chapter("rules", plain(), Story::rules),
            chapter("management", plain(), Story::management),
            chapter("use", plain(), Story::use),
            chapter("refusals", plain(), Story::refusals));
        int failed = 0;
        var pool = Executors.newFixedThreadPool(6);
        for (var told : pool.invokeAll(chapters)) {
            failed += told.get() ? 0 : 1;
        }
        System.out.printf("%d of %d chapters failed%n", failed, chapters.size());
        System.exit(failed == 0 ? 0 : 1); // the SDK's threads would go on
    }

    static void properties(String queue) {
        try (var sender = builder().sender().queueName(queue).buildClient(); var receiver = receiver(queue)) {
            var when = OffsetDateTime.of(1994, 11, 6, 8, 49, 37, 0, ZoneOffset.UTC);
            var id = UUID.randomUUID();
            var sent = new ServiceBusMessage("hello").setMessageId("m-1").setSubject("s").setCorrelationId("c").setTo("t")
                .setReplyTo("r").setReplyToSessionId("rs").setContentType("text/plain").setPartitionKey("k").setTimeToLive(Duration.ofHours(1));
            Map<String, Object> own = Map.of("text", "grüße", "int", 7, "long", 1L << 40, "double", 1.5, "yes", true,
                "when", when, "id", id, "char", 'x', "short", (short) 3, "byte", (byte) 4);
            sent.getApplicationProperties().putAll(own);
            sender.sendMessage(sent);
            var m = one(receiver);
            want(m.getBody().toString(), "hello", "body");
            want(List.of(m.getMessageId(), m.getSubject(), m.getCorrelationId(), m.getTo(), m.getReplyTo(), m.getReplyToSessionId(),
                m.getContentType(), m.getPartitionKey()), List.of("m-1", "s", "c", "t", "r", "rs", "text/plain", "k"), "properties");
            want(m.getTimeToLive(), Duration.ofHours(1), "time to live");
            want(Duration.between(m.getEnqueuedTime(), m.getExpiresAt()), Duration.ofHours(1), "expiry");
            want(m.getDeliveryCount(), 0L, "delivery count");
            want(m.getSequenceNumber(), 1L, "sequence number");
            want(m.getEnqueuedSequenceNumber(), 1L, "enqueued sequence number");
            want(m.getState(), ServiceBusMessageState.ACTIVE, "state");
            want(m.getApplicationProperties(), own, "application properties");
            if (!m.getLockedUntil().isAfter(OffsetDateTime.now()) || m.getLockToken() == null) {
                throw new AssertionError("locked until " + m.getLockedUntil() + " with " + m.getLockToken());
            }
            receiver.complete(m);
            sender.sendMessage(new ServiceBusMessage(m)); // as received
            m = one(receiver);
            want(List.of(m.getBody().toString(), m.getMessageId(), m.getApplicationProperties()),
                List.of("hello", "m-1", own), "sent again");
            receiver.complete(m);
            none(receiver);
        }
    }

    static void outcomes(String queue) {
        try (var sender = builder().sender().queueName(queue).buildClient(); var receiver = receiver(queue);
            var dead = builder().receiver().queueName(queue).subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete().buildClient()) {
            for (String body : List.of("abandoned", "deferred", "dead")) {
                sender.sendMessage(message(body));
            }
            receiver.abandon(one(receiver), new AbandonOptions().setPropertiesToModify(Map.of("changed", "yes")));
            var m = one(receiver);
            want(m.getBody().toString() + m.getDeliveryCount() + m.getApplicationProperties(), "abandoned1{changed=yes}", "abandoned");
            receiver.complete(m);

            m = one(receiver);
            receiver.defer(m, new DeferOptions().setPropertiesToModify(Map.of("put", "away")));
            var deferred = receiver.receiveDeferredMessage(m.getSequenceNumber());
            want(deferred.getBody().toString() + deferred.getApplicationProperties() + deferred.getState(), "deferred{put=away}DEFERRED", "deferred");
            receiver.renewMessageLock(deferred);
            receiver.abandon(deferred);
            var again = List.of(m.getSequenceNumber());
            for (var d : receiver.receiveDeferredMessageBatch(again)) {
                receiver.complete(d);
            }
            try {
                receiver.receiveDeferredMessage(again.get(0));
                throw new AssertionError("a deferred message came again after its completion");
            } catch (ServiceBusException e) {
                want(e.getCause() instanceof NoSuchElementException, true, "nothing found, not " + e);
            }

            m = one(receiver);
            receiver.deadLetter(m, new DeadLetterOptions().setDeadLetterReason("why").setDeadLetterErrorDescription("because")
                .setPropertiesToModify(Map.of("seen", 1)));
            m = one(dead);
            want(List.of(m.getBody().toString(), m.getDeadLetterReason(), m.getDeadLetterErrorDescription(), m.getApplicationProperties().get("seen")),
                List.of("dead", "why", "because", 1), "dead letter");
            dead.complete(m);
            none(receiver);
        }
    }

    static void batches(String queue) {
        try (var sender = builder().sender().queueName(queue).buildClient(); var receiver = receiver(queue)) {
            var batch = sender.createMessageBatch();
            for (int n = 0; n < 50; n++) {
                want(batch.tryAddMessage(message("b" + n)), true, "added");
            }
            sender.sendMessages(batch);
            sender.sendMessages(List.of(message("b50"), message("b51")));
            var small = sender.createMessageBatch(new CreateMessageBatchOptions().setMaximumSizeInBytes(1024));
            small.tryAddMessage(new ServiceBusMessage(new byte[600]));
            want(small.tryAddMessage(new ServiceBusMessage(new byte[600])), false, "added to a small batch");
            var got = new ArrayList<String>();
            while (got.size() < 52) {
                int before = got.size();
                for (var m : receiver.receiveMessages(52 - before, Duration.ofSeconds(10))) {
                    got.add(m.getBody().toString());
                    receiver.complete(m);
                }
                want(got.size() > before, true, "more messages after " + got);
            }
            for (int n = 0; n < 52; n++) {
                want(got.get(n), "b" + n, "order");
            }
            wantReason(() -> sender.sendMessage(new ServiceBusMessage(new byte[2 << 20])), ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED);
            var wide = new byte[200 * 1024]; // several frames
            new Random(1).nextBytes(wide);
            sender.sendMessage(new ServiceBusMessage(wide));
            var m = one(receiver);
            want(Arrays.equals(m.getBody().toBytes(), wide), true, "a body of 200 KiB");
            receiver.complete(m);
        }
    }

    static void bodies(String queue) {
        try (var sender = builder().sender().queueName(queue).buildClient(); var receiver = receiver(queue)) {
            sender.sendMessage(new ServiceBusMessage(AmqpMessageBody.fromValue("a value")));
            sender.sendMessage(new ServiceBusMessage(AmqpMessageBody.fromSequence(List.of("a", 1, 2L))));
            var raw = new ServiceBusMessage(BinaryData.fromBytes(new byte[0]));
            raw.getRawAmqpMessage().getHeader().setDurable(true).setPriority((short) 5);
            raw.getRawAmqpMessage().getFooter().put("foot", "note");
            raw.getRawAmqpMessage().getDeliveryAnnotations().put("x-own", 1);
            sender.sendMessage(raw);
            var m = one(receiver);
            want(m.getRawAmqpMessage().getBody().getValue(), "a value", "value");
            receiver.complete(m);
            m = one(receiver);
            want(m.getRawAmqpMessage().getBody().getSequence(), List.of("a", 1, 2L), "sequence");
            receiver.complete(m);
            m = one(receiver);
            AmqpAnnotatedMessage got = m.getRawAmqpMessage();
            want(Arrays.asList(got.getHeader().isDurable(), got.getHeader().getPriority(), got.getFooter(),
                m.getBody().toBytes().length), List.of(true, (short) 5, Map.of("foot", "note"), 0), "sections");
            receiver.complete(m);
        }
    }

    static void schedules(String queue) {
        try (var sender = builder().sender().queueName(queue).buildClient(); var receiver = receiver(queue)) {
            var later = OffsetDateTime.now().plusSeconds(4);
            var never = OffsetDateTime.now().plusHours(1);
            var numbers = new ArrayList<Long>();
            sender.scheduleMessages(List.of(message("cancelled"), message("cancelled too")), never).forEach(numbers::add);
            var browsed = receiver.peekMessages(10).stream().map(m -> m.getBody() + " " + m.getState()).toList();
            want(browsed, List.of("cancelled SCHEDULED", "cancelled too SCHEDULED"), "browsed");
            sender.cancelScheduledMessage(numbers.get(0));
            sender.cancelScheduledMessages(List.of(numbers.get(1)));
            want(receiver.peekMessages(10, 0).stream().count(), 0L, "messages after cancelling");
            sender.scheduleMessage(message("by request"), later);
            sender.sendMessage(message("by property").setScheduledEnqueueTime(later));
            var got = new TreeSet<String>();
            for (int n = 0; n < 2; n++) {
                var m = one(receiver);
                got.add(m.getBody().toString());
                want(m.getEnqueuedTime().isBefore(later.minusSeconds(1)), false, "enqueued in time");
                receiver.complete(m);
            }
            want(got, new TreeSet<>(List.of("by request", "by property")), "came");
            none(receiver);
        }
    }

    static void browsing(String queue) {
        try (var sender = builder().sender().queueName(queue).buildClient(); var receiver = receiver(queue)) {
            want(receiver.peekMessage(), null, "peeked from the empty queue");
            sender.sendMessages(List.of(message("1"), message("2"), message("3")));
            want(receiver.peekMessage().getBody().toString(), "1", "first");
            want(receiver.peekMessages(5).stream().map(m -> m.getBody().toString()).toList(), List.of("2", "3"), "rest");
            want(receiver.peekMessage(2).getBody().toString(), "2", "by number");
            want(receiver.peekMessages(5, 99).stream().count(), 0L, "beyond the end");
        }
    }

    static void deleting(String queue) {
        try (var sender = builder().sender().queueName(queue).buildClient();
            var receiver = builder().receiver().queueName(queue).receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient()) {
            sender.sendMessages(List.of(message("1"), message("2")));
            want(one(receiver).getBody().toString(), "1", "first");
            want(one(receiver).getBody().toString(), "2", "second");
            none(receiver);
        }
        want(admin.getQueueRuntimeProperties(queue).getTotalMessageCount(), 0L, "messages left");
    }

    static void locks(String queue) throws Exception {
        try (var sender = builder().sender().queueName(queue).buildClient(); var receiver = receiver(queue);
            var other = receiver(queue)) {
            sender.sendMessage(message("locked"));
            var m = one(receiver);
            var until = receiver.renewMessageLock(m);
            want(until.isBefore(m.getLockedUntil()), false, "renewed");
            want(one(other).getDeliveryCount(), 1L, "deliveries once the lock has ended");
            wantReason(() -> receiver.complete(m), ServiceBusFailureReason.MESSAGE_LOCK_LOST);
            wantReason(() -> receiver.renewMessageLock(m), ServiceBusFailureReason.MESSAGE_LOCK_LOST);
        }
    }

    static void sessions(String queue) {
        try (var sender = builder().sender().queueName(queue).buildClient();
            var accepter = builder().sessionReceiver().queueName(queue).disableAutoComplete().buildClient()) {
            for (var s : List.of("a1", "b2", "a3")) {
                sender.sendMessage(message(s).setSessionId(s.substring(0, 1)));
            }
            try (var a = accepter.acceptSession("a")) {
                want(a.getSessionId(), "a", "session");
                var first = one(a);
                var second = one(a);
                want(List.of(first.getBody().toString(), first.getSessionId(), second.getBody().toString()), List.of("a1", "a", "a3"), "messages of a");
                want(a.getSessionState(), null, "state");
                a.setSessionState("step 1".getBytes(StandardCharsets.UTF_8));
                want(new String(a.getSessionState(), StandardCharsets.UTF_8), "step 1", "state");
                want(a.renewSessionLock().isAfter(OffsetDateTime.now()), true, "renewed");
                try (var another = builder().sessionReceiver().queueName(queue).buildClient()) {
                    another.acceptSession("a");
                    throw new AssertionError("a session was accepted twice");
                } catch (AmqpException e) {
                    want(e.getErrorCondition(), AmqpErrorCondition.SESSION_CANNOT_BE_LOCKED, "condition");
                }
                a.complete(first);
                a.defer(second);
                want(a.peekMessage().getState(), ServiceBusMessageState.DEFERRED, "peeked");
                var deferred = a.receiveDeferredMessage(second.getSequenceNumber());
                a.deadLetter(deferred);
                a.setSessionState(null);
                want(a.getSessionState(), null, "state taken away");
            }
            try (var b = accepter.acceptNextSession()) {
                want(b.getSessionId(), "b", "next session");
                b.complete(one(b));
            }
            try (var dead = builder().receiver().queueName(queue).subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete().buildClient()) {
                var m = one(dead);
                want(m.getBody() + m.getSessionId(), "a3a", "dead letter");
                dead.complete(m);
            }
            var impatient = builder().retryOptions(new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(Duration.ofSeconds(2)))
                .sessionReceiver().queueName(queue).buildClient();
            try {
                impatient.acceptNextSession();
                throw new AssertionError("a session came");
            } catch (IllegalStateException | ServiceBusException e) {
                if (!String.valueOf(e).toLowerCase(Locale.ROOT).contains("timeout")) {
                    throw e;
                }
            }
            impatient.close();
        }
    }

    static void processor(String queue) throws Exception {
        var seen = new ConcurrentHashMap<String, Integer>();
        var errors = new ConcurrentLinkedQueue<String>();
        var done = new CountDownLatch(20);
        var processor = builder().processor().queueName(queue).maxConcurrentCalls(4).processMessage(context -> {
            var m = context.getMessage();
            seen.merge(m.getBody().toString(), 1, Integer::sum);
            if (m.getBody().toString().equals("poison")) {
                throw new IllegalStateException("on purpose");
            }
            done.countDown();
        }).processError(e -> errors.add(e.getErrorSource() + " " + e.getException().getMessage())).buildProcessorClient();
        processor.start();
        try (var sender = builder().sender().queueName(queue).buildClient();
            var dead = builder().receiver().queueName(queue).subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete().buildClient()) {
            sender.sendMessage(message("poison"));
            for (int n = 0; n < 20; n++) {
                sender.sendMessage(message("m" + n));
            }
            want(done.await(20, TimeUnit.SECONDS), true, "all 20");
            var m = one(dead);
            want(List.of(m.getBody().toString(), m.getDeadLetterReason()), List.of("poison", "MaxDeliveryCountExceeded"), "dead letter");
            dead.complete(m);
        }
        processor.close();
        want(seen.get("poison"), 3, "deliveries of the poison");
        want(errors.stream().allMatch(e -> e.contains("on purpose")), true, "errors " + errors);
    }

    static void sessionProcessor(String queue) throws Exception {
        var orders = new ConcurrentHashMap<String, List<String>>();
        var errors = new ConcurrentLinkedQueue<String>();
        var done = new CountDownLatch(30);
        var processor = builder().sessionProcessor().queueName(queue).maxConcurrentSessions(2).sessionIdleTimeout(Duration.ofSeconds(1)).processMessage(context -> {
            var m = context.getMessage();
            orders.computeIfAbsent(m.getSessionId(), s -> Collections.synchronizedList(new ArrayList<>())).add(m.getBody().toString());
            done.countDown();
        }).processError(e -> errors.add(e.getErrorSource() + " " + e.getException())).buildProcessorClient();
        try (var sender = builder().sender().queueName(queue).buildClient()) {
            for (int n = 0; n < 30; n++) {
                sender.sendMessage(message("m" + n).setSessionId("s" + n % 5));
            }
        }
        processor.start();
        want(done.await(30, TimeUnit.SECONDS), true, "all 30, not " + orders + errors);
        processor.close();
        for (int s = 0; s < 5; s++) {
            int session = s;
            want(orders.get("s" + s), java.util.stream.IntStream.range(0, 6).mapToObj(n -> "m" + (session + 5 * n)).collect(Collectors.toList()), "order in session " + s);
        }
        want(List.copyOf(errors), List.of(), "errors");
    }

    static void transactions(String queue) {
        try (var sender = builder().sender().queueName(queue).buildClient(); var receiver = receiver(queue)) {
            var tx = sender.createTransaction();
            sender.sendMessage(message("rolled back"), tx);
            sender.rollbackTransaction(tx);
            tx = sender.createTransaction();
            sender.sendMessages(List.of(message("one"), message("two")), tx);
            sender.commitTransaction(tx);
            tx = receiver.createTransaction();
            var m = one(receiver);
            want(m.getBody().toString(), "one", "first");
            receiver.complete(m, new CompleteOptions().setTransactionContext(tx));
            receiver.rollbackTransaction(tx);
            m = one(receiver); // the SDK takes it for settled, so its lock has to end
            var second = m;
            m = one(receiver);
            want(second.getBody() + " " + m.getBody() + m.getDeliveryCount(), "two one1", "after the rollback");
            tx = receiver.createTransaction();
            receiver.complete(m, new CompleteOptions().setTransactionContext(tx));
            receiver.commitTransaction(tx);
            tx = receiver.createTransaction();
            m = one(receiver);
            want(m.getBody().toString(), "two", "after the commit");
            receiver.deadLetter(m, new DeadLetterOptions().setTransactionContext(tx).setDeadLetterReason("in a transaction"));
            receiver.commitTransaction(tx);
            none(receiver);
        }
        var counts = admin.getQueueRuntimeProperties(queue);
        want(List.of(counts.getActiveMessageCount(), counts.getDeadLetterMessageCount()), List.of(0, 1), "counts");
    }

    static void schedulesInTransactions(String queue) {
        try (var sender = builder().sender().queueName(queue).buildClient(); var receiver = receiver(queue)) {
            var never = OffsetDateTime.now().plusHours(1);
            var tx = sender.createTransaction();
            sender.scheduleMessage(message("rolled back"), never, tx);
            sender.scheduleMessages(List.of(message("rolled back too")), never, tx);
            sender.rollbackTransaction(tx);
            want(receiver.peekMessages(10, 0).stream().count(), 0L, "messages after the rollback");
            tx = sender.createTransaction();
            sender.scheduleMessage(message("one"), OffsetDateTime.now().plusSeconds(2), tx);
            var numbers = new ArrayList<Long>();
            sender.scheduleMessages(List.of(message("two"), message("three")), never, tx).forEach(numbers::add);
            want(receiver.peekMessages(10, 0).stream().count(), 0L, "messages before the commit");
            sender.commitTransaction(tx);
            var m = one(receiver);
            want(m.getBody().toString(), "one", "came");
            receiver.complete(m);
            var browsed = receiver.peekMessages(10, 0).stream().map(p -> p.getBody() + " " + p.getState() + " " + p.getSequenceNumber()).toList();
            want(browsed, List.of("two SCHEDULED " + numbers.get(0), "three SCHEDULED " + numbers.get(1)), "browsed");
            sender.cancelScheduledMessages(numbers);
            none(receiver);
        }
        want(admin.getQueueRuntimeProperties(queue).getTotalMessageCount(), 0L, "messages left");
    }

    static void transactionsAcross(String queue) {
        String out = queue + "-out";
        admin.createQueue(out);
        var client = builder().enableCrossEntityTransactions();
        try (var receiver = client.receiver().queueName(queue).disableAutoComplete().buildClient();
            var first = builder().sender().queueName(queue).buildClient(); var result = receiver(out)) {
            first.sendMessage(message("asked"));
            var m = one(receiver);
            try (var sender = client.sender().queueName(out).buildClient()) {
                var tx = receiver.createTransaction();
                receiver.complete(m, new CompleteOptions().setTransactionContext(tx));
                sender.sendMessage(message("answered"), tx);
                receiver.commitTransaction(tx);
            }
            m = one(result);
            want(m.getBody().toString(), "answered", "answer");
            result.complete(m);
            none(receiver);
        }
        admin.deleteQueue(out);
    }

    static void sessionTransactions(String queue) {
        try (var sender = builder().sender().queueName(queue).buildClient();
            var accepter = builder().sessionReceiver().queueName(queue).disableAutoComplete().buildClient()) {
            sender.sendMessage(message("one").setSessionId("s"));
            try (var s = accepter.acceptSession("s")) {
                var m = one(s);
                var tx = s.createTransaction();
                s.complete(m, new CompleteOptions().setTransactionContext(tx));
                s.rollbackTransaction(tx);
            }
            try (var another = builder().sessionReceiver().queueName(queue).disableAutoComplete().buildClient(); var s = another.acceptSession("s")) {
                var m = one(s);
                var tx = s.createTransaction();
                s.complete(m, new CompleteOptions().setTransactionContext(tx));
                s.commitTransaction(tx);
            }
        }
        want(admin.getQueueRuntimeProperties(queue).getTotalMessageCount(), 0L, "messages left");
    }

    static void rules(String queue) {
        String topic = queue + "-topic";
        admin.createTopic(topic);
        admin.createSubscription(topic, "all");
        admin.createSubscription(topic, "some", "first", new CreateSubscriptionOptions().setMaxDeliveryCount(3),
            new CreateRuleOptions(new SqlRuleFilter("size > 100")));
        admin.createRule(topic, "red", "some", new CreateRuleOptions().setAction(new SqlRuleAction("SET seen = 'yes'"))
            .setFilter(new CorrelationRuleFilter().setLabel("s")));
        var rule = admin.getRule(topic, "some", "red");
        want(((CorrelationRuleFilter) rule.getFilter()).getLabel() + ((SqlRuleAction) rule.getAction()).getSqlExpression(), "sSET seen = 'yes'", "rule");
        want(admin.listRules(topic, "some").stream().map(RuleProperties::getName).toList(), List.of("first", "red"), "rules");
        try (var manager = builder().ruleManager().topicName(topic).subscriptionName("all").buildClient()) {
            var correlation = new CorrelationRuleFilter().setLabel("s");
            correlation.getProperties().put("n", 7);
            manager.createRule("labelled", new CreateRuleOptions(correlation));
            manager.createRule("even", new CreateRuleOptions(new SqlRuleFilter("n % 2 = 0")).setAction(new SqlRuleAction("SET half = n / 2")));
            manager.deleteRule("$Default");
            var found = manager.listRules().stream().collect(Collectors.toMap(RuleProperties::getName, r -> r));
            want(found.keySet(), Set.of("labelled", "even"), "rules over AMQP");
            want(((SqlRuleFilter) found.get("even").getFilter()).getSqlExpression(), "n % 2 = 0", "filter");
            want(((CorrelationRuleFilter) found.get("labelled").getFilter()).getProperties().toString(), "{n=7}", "filter"); // the SDK makes a text of the number
        }
        want(((CorrelationRuleFilter) admin.getRule(topic, "all", "labelled").getFilter()).getProperties().toString(), "{n=7}", "filter by HTTP");
        try (var sender = builder().sender().topicName(topic).buildClient();
            var all = builder().receiver().topicName(topic).subscriptionName("all").disableAutoComplete().buildClient();
            var some = builder().receiver().topicName(topic).subscriptionName("some").disableAutoComplete().buildClient()) {
            for (int n = 4; n <= 7; n++) {
                var m = message("m" + n).setSubject("s");
                m.getApplicationProperties().put("n", n);
                sender.sendMessage(m);
            }
            var got = new ArrayList<String>();
            for (int n = 0; n < 3; n++) {
                var m = one(all);
                got.add(m.getBody() + "/" + m.getApplicationProperties().get("half"));
                all.complete(m);
            }
            want(got, List.of("m4/2", "m6/3", "m7/null"), "matched");
            none(all);
            var m = one(some);
            want(m.getApplicationProperties().get("seen"), "yes", "the action's property");
            some.complete(m);
        }
        want(admin.getSubscriptionRuntimeProperties(topic, "some").getActiveMessageCount(), 3, "left");
        want(admin.getTopicRuntimeProperties(topic).getSubscriptionCount(), 2, "subscriptions");
        var made = admin.getSubscriptionRuntimeProperties(topic, "some");
        want(made.getAccessedAt().isBefore(made.getCreatedAt()), false, "subscription accessed before its creation");
        want(admin.getTopicRuntimeProperties(topic).getAccessedAt().isBefore(made.getCreatedAt()), false, "topic accessed before its last subscription's creation");
        admin.deleteTopic(topic);
    }

    static void management(String queue) {
        String other = queue + "-other";
        var created = admin.createQueue(other, new CreateQueueOptions().setLockDuration(Duration.ofSeconds(45)).setMaxDeliveryCount(4)
            .setDefaultMessageTimeToLive(Duration.ofDays(2)).setDuplicateDetectionRequired(true)
            .setDuplicateDetectionHistoryTimeWindow(Duration.ofMinutes(3)).setUserMetadata("meta").setDeadLetteringOnMessageExpiration(true)
            .setAutoDeleteOnIdle(Duration.ofHours(3)).setForwardDeadLetteredMessagesTo(queue).setMaxSizeInMegabytes(2048));
        want(List.of(created.getLockDuration(), created.getMaxDeliveryCount(), created.getDefaultMessageTimeToLive(), created.isDuplicateDetectionRequired(),
            created.getDuplicateDetectionHistoryTimeWindow(), created.getUserMetadata(), created.isDeadLetteringOnMessageExpiration(), created.getAutoDeleteOnIdle(),
            created.getMaxSizeInMegabytes(), created.getStatus()), List.of(Duration.ofSeconds(45), 4, Duration.ofDays(2), true, Duration.ofMinutes(3), "meta", true,
            Duration.ofHours(3), 2048L, EntityStatus.ACTIVE), "created");
        created.getAuthorizationRules().add(new SharedAccessAuthorizationRule("reader", List.of(AccessRights.LISTEN)));
        var updated = admin.updateQueue(created.setMaxDeliveryCount(9).setStatus(EntityStatus.SEND_DISABLED));
        want(updated.getMaxDeliveryCount() + " " + updated.getStatus() + " " + updated.getAuthorizationRules().get(0).getKeyName(), "9 SendDisabled reader", "updated");
        want(admin.getQueueExists(other) + " " + admin.getQueueExists(other + "-not"), "true false", "exist");
        want(admin.listQueues().stream().map(QueueProperties::getName).collect(Collectors.toSet()).containsAll(Set.of(queue, other)), true, "listed");
        want(admin.getQueueRuntimeProperties(other).getTotalMessageCount(), 0L, "messages");
        want(admin.getNamespaceProperties().getName() != null, true, "namespace");
        try {
            admin.createQueue(other);
            throw new AssertionError("created twice");
        } catch (ResourceExistsException expected) {
        }
        admin.deleteQueue(other);
        try {
            admin.getQueue(other);
            throw new AssertionError("found after its deletion");
        } catch (ResourceNotFoundException expected) {
        }
        try {
            admin.deleteQueue(other);
            throw new AssertionError("deleted twice");
        } catch (ResourceNotFoundException expected) {
        }
    }

    static void use(String queue) {
        var made = admin.getQueueRuntimeProperties(queue);
        want(made.getAccessedAt().getYear(), 1, "year in which a queue was used that was not used yet");
        try (var sender = builder().sender().queueName(queue).buildClient()) {
            sender.sendMessage(message("x"));
        }
        var used = admin.getQueueRuntimeProperties(queue);
        want(used.getAccessedAt().isBefore(used.getCreatedAt()), false, "used before its creation");
        want(used.getCreatedAt(), made.getCreatedAt(), "creation after a use");
    }

    static void refusals(String queue) {
        try (var sender = builder().sender().queueName(queue + "-not").buildClient()) {
            wantReason(() -> sender.sendMessage(message("x")), ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND);
        }
        try (var receiver = receiver(queue + "-not")) {
            try {
                one(receiver);
                throw new AssertionError("a queue was found that is not there");
            } catch (RuntimeException e) {
                if (!(e.getCause() instanceof AmqpException cause) || cause.getErrorCondition() != AmqpErrorCondition.NOT_FOUND) {
                    throw e;
                }
            }
        }
        var wrong = CONNECTION.replaceFirst("SharedAccessKey=[^;]*", "SharedAccessKey=wrong");
        try (var sender = builder().connectionString(wrong).sender().queueName(queue).buildClient()) {
            wantReason(() -> sender.sendMessage(message("x")), ServiceBusFailureReason.UNAUTHORIZED);
        }
        admin.updateQueue(admin.getQueue(queue).setStatus(EntityStatus.DISABLED));
        try (var sender = builder().sender().queueName(queue).buildClient()) {
            wantReason(() -> sender.sendMessage(message("x")), ServiceBusFailureReason.MESSAGING_ENTITY_DISABLED);
        }
        String sessions = queue + "-sessions";
        admin.createQueue(sessions, new CreateQueueOptions().setSessionRequired(true));
        try (var sender = builder().sender().queueName(sessions).buildClient()) {
            try {
                sender.sendMessage(message("x"));
                throw new AssertionError("a message without a session was taken");
            } catch (ServiceBusException expected) {
            }
        }
        admin.deleteQueue(sessions);
    }
}
