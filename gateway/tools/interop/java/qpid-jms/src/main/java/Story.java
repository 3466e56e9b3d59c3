import jakarta.jms.BytesMessage;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.Objects;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * A queue and a topic as an application sees them through Apache Qpid JMS: the policy and its key are user and password, and a
 * subscription is a queue of the name TOPIC/Subscriptions/SUBSCRIPTION. STORY_URL says where.
 */
public final class Story {
    static final String NAME = System.getenv("STORY_NAME");
    static final long PATIENCE = 20_000;
    static final JmsConnectionFactory factory = new JmsConnectionFactory("RootManageSharedAccessKey", "SAS_KEY_VALUE", System.getenv("STORY_URL"));

    static void want(Object got, Object want, String what) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError(what + ": got " + got + ", want " + want);
        }
    }

    static String text(Message m) throws JMSException {
        return m == null ? null : ((TextMessage) m).getText();
    }

    static void crosstown(String... arguments) throws Exception {
        var command = new java.util.ArrayList<>(java.util.List.of(System.getenv("CROSSTOWN")));
        command.addAll(java.util.List.of(arguments));
        want(new ProcessBuilder(command).inheritIO().start().waitFor(), 0, command.toString());
    }

    public static void main(String[] args) throws Exception {
        for (String queue : java.util.List.of("-queue", "-out")) {
            crosstown("queue", "create", "--max-delivery-count", "3", NAME + queue);
        }
        crosstown("queue", "create", "--requires-session", NAME + "-sessions");
        crosstown("topic", "create", NAME + "-topic");
        crosstown("subscription", "create", NAME + "-topic", "all");
        try (var connection = factory.createConnection()) {
            connection.start();
            messages(connection.createSession(false, Session.CLIENT_ACKNOWLEDGE));
            listener(connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
            redelivery(connection.createSession(true, Session.SESSION_TRANSACTED));
            transactions(connection.createSession(true, Session.SESSION_TRANSACTED), connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
            topics(connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
            refusals(connection.createSession(false, Session.AUTO_ACKNOWLEDGE));
        }
        System.out.println("told");
        System.exit(0);
    }

    static void messages(Session session) throws Exception {
        Queue queue = session.createQueue(NAME + "-queue");
        var producer = session.createProducer(queue);
        var consumer = session.createConsumer(queue);
        var m = session.createTextMessage("grüße");
        m.setJMSCorrelationID("c");
        m.setJMSType("subject");
        m.setJMSReplyTo(session.createQueue(NAME + "-out"));
        m.setStringProperty("text", "t");
        m.setIntProperty("int", 7);
        m.setLongProperty("long", 1L << 40);
        m.setDoubleProperty("double", 1.5);
        m.setBooleanProperty("yes", true);
        producer.setTimeToLive(60_000);
        producer.send(m);
        var got = (TextMessage) consumer.receive(PATIENCE);
        want(text(got), "grüße", "text");
        want(got.getJMSMessageID(), m.getJMSMessageID(), "id");
        want(got.getJMSCorrelationID() + got.getJMSType(), "csubject", "correlation and type");
        want(((Queue) got.getJMSReplyTo()).getQueueName(), NAME + "-out", "reply to");
        want(got.getStringProperty("text") + got.getIntProperty("int") + got.getLongProperty("long") + got.getDoubleProperty("double") + got.getBooleanProperty("yes"),
            "t7" + (1L << 40) + "1.5true", "properties");
        want(got.getJMSRedelivered(), false, "redelivered");
        want(got.getJMSExpiration() > System.currentTimeMillis(), true, "expiration");
        got.acknowledge();
        producer.setTimeToLive(0);

        var bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[] {1, 2, 3});
        producer.send(bytes);
        var map = session.createMapMessage();
        map.setString("k", "v");
        producer.send(map);
        producer.send(session.createObjectMessage("an object"));
        producer.send(session.createMessage());
        want(((BytesMessage) consumer.receive(PATIENCE)).getBodyLength(), 3L, "bytes");
        want(((jakarta.jms.MapMessage) consumer.receive(PATIENCE)).getString("k"), "v", "map");
        want(((jakarta.jms.ObjectMessage) consumer.receive(PATIENCE)).getObject(), "an object", "object");
        var last = consumer.receive(PATIENCE);
        want(last.isBodyAssignableTo(String.class), true, "a body of nothing");
        last.acknowledge(); // and all before
        session.close();
    }

    static void listener(Session session) throws Exception {
        Queue queue = session.createQueue(NAME + "-queue");
        var producer = session.createProducer(queue);
        var heard = new ArrayBlockingQueue<String>(10);
        session.createConsumer(queue).setMessageListener(m -> {
            try {
                heard.add(text(m));
            } catch (JMSException e) {
                heard.add(e.toString());
            }
        });
        producer.send(session.createTextMessage("soon"));
        want(heard.poll(PATIENCE, TimeUnit.MILLISECONDS), "soon", "heard");
        session.close();
    }

    static void redelivery(Session session) throws Exception {
        Queue queue = session.createQueue(NAME + "-queue");
        session.createProducer(queue).send(session.createTextMessage("poison"));
        session.commit();
        MessageConsumer consumer = session.createConsumer(queue);
        for (int n = 1; n <= 3; n++) {
            var m = consumer.receive(PATIENCE);
            want(text(m) + m.getIntProperty("JMSXDeliveryCount") + m.getJMSRedelivered(), "poison" + n + (n > 1), "delivery");
            session.rollback();
        }
        want(text(consumer.receive(500)), null, "a fourth delivery");
        consumer.close();
        var dead = session.createConsumer(session.createQueue(NAME + "-queue/$DeadLetterQueue"));
        var m = dead.receive(PATIENCE);
        want(text(m) + m.getStringProperty("DeadLetterReason"), "poisonMaxDeliveryCountExceeded", "dead letter");
        session.commit();
        session.close();
    }

    static void transactions(Session session, Session other) throws Exception {
        Queue queue = session.createQueue(NAME + "-queue");
        Queue out = session.createQueue(NAME + "-out");
        var producer = session.createProducer(null);
        var consumer = session.createConsumer(queue);
        producer.send(queue, session.createTextMessage("rolled back"));
        session.rollback();
        producer.send(queue, session.createTextMessage("asked"));
        session.commit();
        want(text(consumer.receive(PATIENCE)), "asked", "first delivery");
        producer.send(out, session.createTextMessage("not answered"));
        session.rollback();
        var m = consumer.receive(PATIENCE);
        want(text(m) + m.getJMSRedelivered(), "askedtrue", "second delivery");
        producer.send(out, session.createTextMessage("answered"));
        session.commit();
        refused(() -> session.createConsumer(out), "multiple top-level entities"); // as at Service Bus
        session.close();
        var answers = other.createConsumer(out);
        want(text(answers.receive(PATIENCE)), "answered", "answer");
        want(text(answers.receive(500)), null, "another answer");
        other.close();
    }

    static void topics(Session session) throws Exception {
        var producer = session.createProducer(session.createTopic(NAME + "-topic"));
        var consumer = session.createConsumer(session.createQueue(NAME + "-topic/Subscriptions/all"));
        producer.send(session.createTextMessage("told to all"));
        want(text(consumer.receive(PATIENCE)), "told to all", "from the subscription");
        session.close();
    }

    interface Act {
        void run() throws Exception;
    }

    static void refused(Act act, String want) throws Exception {
        try {
            act.run();
        } catch (JMSException e) {
            if (!e.toString().contains(want)) {
                throw new AssertionError("want " + want, e);
            }
            return;
        }
        throw new AssertionError("nothing was refused, want " + want);
    }

    static void refusals(Session session) throws Exception {
        refused(() -> session.createConsumer(session.createQueue(NAME + "-not")), "could not be found");
        refused(() -> session.createProducer(session.createQueue(NAME + "-not")), "could not be found");
        refused(() -> session.createConsumer(session.createQueue(NAME + "-sessions")), "session");
        refused(() -> session.createProducer(session.createQueue(NAME + "-sessions")).send(session.createTextMessage("x")), "SessionId");
        refused(() -> session.createDurableConsumer(session.createTopic(NAME + "-topic"), "durable"), "");
        refused(() -> session.createTemporaryQueue(), "");
        refused(() -> {
            var producer = session.createProducer(session.createQueue(NAME + "-queue"));
            producer.setDeliveryDelay(1_000);
            producer.send(session.createTextMessage("late"));
        }, "delayed");
        refused(() -> new JmsConnectionFactory("RootManageSharedAccessKey", "wrong", System.getenv("STORY_URL")).createConnection().start(), "");
        session.close();
    }
}
