import com.azure.core.util.BinaryData;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.OffsetDateTime;
import java.util.Map;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A Crosstown for the tests of a class: {@code @RegisterExtension static final CrosstownServer bus = new CrosstownServer("orders.yaml");}
 * The variable CROSSTOWN names the program, "crosstown" by default.
 */
public final class CrosstownServer implements BeforeAllCallback, AutoCloseable, ExtensionContext.Store.CloseableResource {
    private final String entities;
    private Process process;
    private Map<String, Object> is;

    public CrosstownServer(String entities) {
        this.entities = entities;
    }

    @Override
    public void beforeAll(ExtensionContext context) throws Exception {
        var program = System.getenv().getOrDefault("CROSSTOWN", "crosstown");
        process = new ProcessBuilder(program, "test-server", "--config", entities).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        var line = process.inputReader().readLine();
        if (line == null) {
            throw new IllegalStateException(program + " test-server has ended with code " + process.waitFor() + ": standard error says why");
        }
        is = BinaryData.fromString(line).toObject(Map.class);
        context.getStore(ExtensionContext.Namespace.GLOBAL).put(this, this); // this calls close() at the end
    }

    public String connectionString() {
        return (String) is.get("connectionString");
    }

    /** The broker's time. */
    public OffsetDateTime now() throws Exception {
        return timeOf(request("clock").GET());
    }

    /** Moves the broker's time on, by a duration such as PT5M or P14D. */
    public OffsetDateTime advance(String duration) throws Exception {
        return timeOf(request("clock").PUT(HttpRequest.BodyPublishers.ofString("{\"advance\": \"" + duration + "\"}")));
    }

    /** Makes operations go wrong, by a rule such as {"operation": "send", "entity": "orders", "times": 2}. */
    public void inject(String rule) throws Exception {
        ask(request("faults").POST(HttpRequest.BodyPublishers.ofString(rule)));
    }

    private HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create(is.get("url") + "/$crosstown/" + path)).header("Authorization", (String) is.get("authorization"));
    }

    private static OffsetDateTime timeOf(HttpRequest.Builder request) throws Exception {
        return OffsetDateTime.parse((String) ask(request).get("now"));
    }

    private static Map<String, Object> ask(HttpRequest.Builder request) throws Exception {
        var answer = HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() / 100 != 2) {
            throw new IllegalStateException(answer.statusCode() + " " + answer.body());
        }
        return BinaryData.fromString(answer.body()).toObject(Map.class);
    }

    @Override
    public void close() throws Exception {
        process.getOutputStream().close(); // this ends the process
        process.waitFor();
    }
}
