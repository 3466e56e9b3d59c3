import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import jakarta.jms.TextMessage;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.springframework.jms.InvalidDestinationException;
import org.springframework.jms.connection.CachingConnectionFactory;
import org.springframework.jms.connection.JmsTransactionManager;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.listener.DefaultMessageListenerContainer;
import org.springframework.jms.support.JmsHeaders;
import org.springframework.jms.support.SimpleJmsHeaderMapper;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * A queue and a topic as an application of Spring sees them: templates, a listener container, transactions and headers, on connections
 * of Apache Qpid JMS. STORY_URL says where.
 */
public final class Story {
    static final String NAME = System.getenv("STORY_NAME");
    static final String QUEUE = NAME + "-queue";
    static final String OUT = NAME + "-out";
    static final String DEAD = QUEUE + "/$DeadLetterQueue";
    static final long PATIENCE = 20_000;

    static void want(Object got, Object want, String what) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError(what + ": got " + got + ", want " + want);
        }
    }

    static void crosstown(String... arguments) throws Exception {
        var command = new ArrayList<>(List.of(System.getenv("CROSSTOWN")));
        command.addAll(List.of(arguments));
        want(new ProcessBuilder(command).inheritIO().start().waitFor(), 0, command.toString());
    }

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> {
            e.printStackTrace();
            System.exit(1); // although the container and its connection have threads
        });
        for (String queue : List.of(QUEUE, OUT)) {
            crosstown("queue", "create", "--max-delivery-count", "3", queue);
        }
        crosstown("topic", "create", NAME + "-topic");
        crosstown("subscription", "create", NAME + "-topic", "all");
        var connections = new CachingConnectionFactory(new JmsConnectionFactory("RootManageSharedAccessKey", "SAS_KEY_VALUE", System.getenv("STORY_URL")));
        connections.setCacheConsumers(false); // Qpid JMS prefetches messages for a cached one
        var template = new JmsTemplate(connections);
        template.setReceiveTimeout(PATIENCE);
        conversion(template);
        headers(template);
        topics(connections, template);
        transactions(connections, template);
        listener(connections, template);
        want(refused(template), true, "refused");
        connections.destroy();
        System.out.println("told");
        System.exit(0);
    }

    /** What the template's converter makes of objects. */
    static void conversion(JmsTemplate template) {
        template.convertAndSend(QUEUE, "grüße");
        want(template.receiveAndConvert(QUEUE), "grüße", "text");
        template.convertAndSend(QUEUE, "bytes".getBytes(StandardCharsets.UTF_8));
        want(new String((byte[]) template.receiveAndConvert(QUEUE), StandardCharsets.UTF_8), "bytes", "bytes");
        template.convertAndSend(QUEUE, Map.of("k", "v", "n", 7));
        want(template.receiveAndConvert(QUEUE), Map.of("k", "v", "n", 7), "map");
        template.convertAndSend(QUEUE, java.time.LocalDate.EPOCH);
        want(template.receiveAndConvert(QUEUE), java.time.LocalDate.EPOCH, "object");
    }

    /** Properties of the application keep their types, in JMS and as headers of Spring. */
    static void headers(JmsTemplate template) throws JMSException {
        Map<String, Object> properties = Map.of("text", "t", "int", 7, "long", 1L << 40, "short", (short) 3, "byte", (byte) 4, "double", 1.5, "float", 2.5f, "yes", true);
        template.setExplicitQosEnabled(true);
        template.setTimeToLive(60_000);
        template.setPriority(7);
        template.convertAndSend(QUEUE, "hello", m -> {
            for (var p : properties.entrySet()) {
                m.setObjectProperty(p.getKey(), p.getValue());
            }
            m.setJMSCorrelationID("c");
            m.setJMSType("subject");
            m.setJMSReplyTo(template.execute(s -> s.createQueue(OUT)));
            return m;
        });
        template.setExplicitQosEnabled(false);
        Message got = template.receive(QUEUE);
        var headers = new SimpleJmsHeaderMapper().toHeaders(got);
        for (var p : properties.entrySet()) {
            want(headers.get(p.getKey()), p.getValue(), "property " + p.getKey());
        }
        want(headers.get(JmsHeaders.CORRELATION_ID), "c", "correlation");
        want(headers.get(JmsHeaders.TYPE), "subject", "type");
        want(headers.get(JmsHeaders.REDELIVERED), false, "redelivered");
        want(headers.get(JmsHeaders.MESSAGE_ID), got.getJMSMessageID(), "id");
        want(((jakarta.jms.Queue) headers.get(JmsHeaders.REPLY_TO)).getQueueName(), OUT, "reply to");
        want((long) headers.get(JmsHeaders.EXPIRATION) > System.currentTimeMillis(), true, "expiration");
    }

    static void topics(CachingConnectionFactory connections, JmsTemplate template) {
        var publisher = new JmsTemplate(connections);
        publisher.setPubSubDomain(true);
        publisher.convertAndSend(NAME + "-topic", "told to all");
        want(template.receiveAndConvert(NAME + "-topic/Subscriptions/all"), "told to all", "from the subscription");
    }

    /** What a transaction of Spring has sent and received is undone with it. */
    static void transactions(CachingConnectionFactory connections, JmsTemplate template) {
        var transaction = new TransactionTemplate(new JmsTransactionManager(connections));
        template.convertAndSend(QUEUE, "asked");
        transaction.executeWithoutResult(status -> {
            want(template.receiveAndConvert(QUEUE), "asked", "first delivery");
            template.convertAndSend(OUT, "not answered");
            status.setRollbackOnly();
        });
        transaction.executeWithoutResult(status -> {
            want(template.receiveAndConvert(QUEUE), "asked", "second delivery");
            template.convertAndSend(OUT, "answered");
        });
        want(template.receiveAndConvert(OUT), "answered", "answer");
    }

    record Delivery(String text, int count, boolean redelivered) {
        static Delivery of(Message m) {
            try {
                return new Delivery(((TextMessage) m).getText(), m.getIntProperty("JMSXDeliveryCount"), m.getJMSRedelivered());
            } catch (JMSException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** A message whose listener throws comes again, and is dead-lettered after the queue's maximum. */
    static void listener(CachingConnectionFactory connections, JmsTemplate template) throws Exception {
        var heard = new ArrayBlockingQueue<Delivery>(100);
        var container = new DefaultMessageListenerContainer();
        container.setConnectionFactory(connections);
        container.setDestinationName(QUEUE);
        container.setSessionTransacted(true);
        container.setErrorHandler(e -> { });
        container.setMessageListener((MessageListener) m -> {
            var delivery = Delivery.of(m);
            heard.add(delivery);
            template.convertAndSend(OUT, delivery.text() + delivery.count()); // in the container's session, so undone with it
            if (delivery.text().equals("poison") || delivery.text().equals("once") && delivery.count() == 1) {
                throw new IllegalStateException("on purpose");
            }
        });
        container.afterPropertiesSet();
        container.start();

        template.convertAndSend(QUEUE, "once");
        want(heard.poll(PATIENCE, TimeUnit.MILLISECONDS), new Delivery("once", 1, false), "first delivery");
        want(heard.poll(PATIENCE, TimeUnit.MILLISECONDS), new Delivery("once", 2, true), "second delivery");
        want(template.receiveAndConvert(OUT), "once2", "what the listener sent");

        template.convertAndSend(QUEUE, "poison");
        for (int n = 1; n <= 3; n++) {
            want(heard.poll(PATIENCE, TimeUnit.MILLISECONDS), new Delivery("poison", n, n > 1), "delivery");
        }
        var dead = template.receive(DEAD);
        want(((TextMessage) dead).getText() + dead.getStringProperty("DeadLetterReason"), "poisonMaxDeliveryCountExceeded", "dead letter");

        template.convertAndSend(QUEUE, "last");
        want(heard.poll(PATIENCE, TimeUnit.MILLISECONDS), new Delivery("last", 1, false), "after the poison");
        want(template.receiveAndConvert(OUT), "last1", "what the listener sent after the poison");
        container.shutdown();
    }

    static boolean refused(JmsTemplate template) {
        try {
            template.convertAndSend(NAME + "-not", "x");
            return false;
        } catch (InvalidDestinationException e) {
            return e.getMessage().contains("could not be found");
        }
    }
}
