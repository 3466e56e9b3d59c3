import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Run CLASS... lists the tests of classes, Run CLASS/METHOD... runs tests. For each it prints a line that begins with @@: the test's name, then
 * for one that ran the outcome, the name of what ran, with its arguments, and what was thrown, in base64.
 */
public final class Run {
    public static void main(String[] args) {
        boolean lists = Arrays.stream(args).noneMatch(a -> a.contains("/"));
        var wanted = Set.of(args);
        var classes = new TreeSet<String>();
        for (String a : args) {
            classes.add(a.replaceFirst("/.*", ""));
        }
        PostDiscoveryFilter filter = d -> FilterResult.includedIf(lists || !d.isTest() && d.getSource().filter(s -> s instanceof MethodSource).isEmpty()
            || wanted.contains(name(d.getSource())));
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
            .selectors(classes.stream().map(DiscoverySelectors::selectClass).toList()).filters(filter).build();
        var launcher = LauncherFactory.create();
        if (lists) {
            var plan = launcher.discover(request);
            for (var root : plan.getRoots()) {
                plan.getDescendants(root).stream().map(t -> name(t.getSource())).filter(n -> n != null).distinct().forEach(n -> System.out.println("@@ " + n));
            }
            System.exit(0);
        }
        launcher.execute(request, new TestExecutionListener() {
            @Override
            public void executionSkipped(TestIdentifier test, String reason) {
                tell(test, "skip", reason);
            }

            @Override
            public void executionFinished(TestIdentifier test, TestExecutionResult result) {
                String thrown = result.getThrowable().map(Run::trace).orElse("");
                switch (result.getStatus()) {
                    case SUCCESSFUL -> {
                        if (test.isTest()) {
                            tell(test, "pass", "");
                        }
                    }
                    case ABORTED -> tell(test, "skip", result.getThrowable().map(Throwable::getMessage).orElse(""));
                    default -> tell(test, "fail", thrown);
                }
            }
        });
        System.exit(0); // the SDK's threads would go on
    }

    static String name(Optional<? extends org.junit.platform.engine.TestSource> source) {
        return source.filter(s -> s instanceof MethodSource).map(s -> ((MethodSource) s).getClassName() + "/" + ((MethodSource) s).getMethodName()).orElse(null);
    }

    static String trace(Throwable thrown) {
        var out = new StringWriter();
        thrown.printStackTrace(new PrintWriter(out, true));
        return out.toString();
    }

    static synchronized void tell(TestIdentifier test, String outcome, String text) {
        System.out.println("@@ " + name(test.getSource()) + " " + outcome + " " + base64(test.getDisplayName()) + " " + base64(text));
    }

    static String base64(String text) {
        return Base64.getEncoder().encodeToString(String.valueOf(text).getBytes(StandardCharsets.UTF_8));
    }
}
