import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.impl.DefaultCamelContext;

/** Routes of Apache Camel that send to a queue, consume it, and dead-letter what throws. */
public final class Story {
    static final String NAME = System.getenv("STORY_NAME");
    static final ArrayBlockingQueue<String> heard = new ArrayBlockingQueue<>(100);
    static final AtomicInteger tries = new AtomicInteger();

    static void want(Object got, Object want, String what) {
        if (!want.equals(got)) {
            throw new AssertionError(what + ": got " + got + ", want " + want);
        }
    }

    static void crosstown(String... arguments) throws Exception {
        var command = new java.util.ArrayList<>(java.util.List.of(System.getenv("CROSSTOWN")));
        command.addAll(java.util.List.of(arguments));
        want(new ProcessBuilder(command).inheritIO().start().waitFor(), 0, command.toString());
    }

    public static void main(String[] args) throws Exception {
        crosstown("queue", "create", "--max-delivery-count", "3", NAME + "-queue");
        crosstown("topic", "create", NAME + "-topic");
        crosstown("subscription", "create", NAME + "-topic", "all");
        var context = new DefaultCamelContext();
        context.getPropertiesComponent().addInitialProperty("connection", System.getenv("STORY_CONNECTION"));
        context.addRoutes(new RouteBuilder() {
            @Override
            public void configure() {
                String end = "?connectionString=RAW({{connection}})";
                from("direct:queue").to("azure-servicebus:" + NAME + "-queue" + end);
                from("direct:topic").to("azure-servicebus:" + NAME + "-topic" + end + "&serviceBusType=topic");
                from("azure-servicebus:" + NAME + "-queue" + end).process(e -> {
                    String body = e.getMessage().getBody(String.class);
                    if (body.equals("poison")) {
                        tries.incrementAndGet();
                        throw new IllegalStateException("on purpose");
                    }
                    heard.add(body + " " + e.getMessage().getHeader("CamelAzureServiceBusApplicationProperties"));
                });
                from("azure-servicebus:" + NAME + "-queue" + end + "&subQueue=DEAD_LETTER_QUEUE").process(e -> heard.add("dead " + e.getMessage().getBody(String.class)));
                from("azure-servicebus:" + NAME + "-topic" + end + "&serviceBusType=topic&subscriptionName=all").process(e -> heard.add("topic " + e.getMessage().getBody(String.class)));
            }
        });
        context.start();
        var template = context.createProducerTemplate();
        template.sendBodyAndHeader("direct:queue", "hello", "CamelAzureServiceBusApplicationProperties", new java.util.HashMap<>(java.util.Map.of("colour", "red")));
        want(heard.poll(20, TimeUnit.SECONDS), "hello {colour=red}", "from the queue");
        template.sendBody("direct:topic", "news");
        want(heard.poll(20, TimeUnit.SECONDS), "topic news", "from the subscription");
        template.sendBody("direct:queue", "poison");
        want(heard.poll(20, TimeUnit.SECONDS), "dead poison", "from the dead letter queue");
        want(tries.get(), 3, "deliveries of the poison");
        System.out.println("told");
        System.exit(0);
    }
}
