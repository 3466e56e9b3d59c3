import java.io.IOException;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.MountableFile;

/**
 * A Crosstown in a container: {@code @Container static final CrosstownContainer bus = new CrosstownContainer(Path.of("orders.yaml"));}
 * The variable CROSSTOWN_IMAGE names the image, "crosstown" by default: docker build -t crosstown .
 */
public final class CrosstownContainer extends GenericContainer<CrosstownContainer> {
    private static final int PORT = 5672; // for AMQP and HTTP

    public CrosstownContainer(Path entities) {
        super(System.getenv().getOrDefault("CROSSTOWN_IMAGE", "crosstown"));
        withCopyFileToContainer(MountableFile.forHostPath(entities), "/crosstown.yaml");
        withEnv("CROSSTOWN_CONFIG", "/crosstown.yaml");
        withEnv("CROSSTOWN_STORE", "memory");
        withEnv("CROSSTOWN_VIRTUAL_TIME", "true");
        withEnv("CROSSTOWN_ALLOW_FAULTS", "true");
        withExposedPorts(PORT);
        waitingFor(Wait.forHttp("/health").forPort(PORT));
    }

    public String connectionString() {
        return "Endpoint=sb://" + getHost() + ":" + getMappedPort(PORT)
            + ";SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true";
    }

    /** Runs a command in the container, such as {@code crosstown("clock", "advance", "P14D")}, and returns what it prints. */
    public String crosstown(String... command) throws IOException, InterruptedException {
        var result = execInContainer(Stream.concat(Stream.of("crosstown"), Stream.of(command)).toArray(String[]::new));
        if (result.getExitCode() != 0) {
            throw new IllegalStateException(result.getStderr());
        }
        return result.getStdout();
    }
}
