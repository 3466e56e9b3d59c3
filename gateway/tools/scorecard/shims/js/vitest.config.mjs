// What the package's own configuration and the one it shares with others say,
// with the tools of their repository that are not published replaced.
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

// Newer tests inject the variables that older ones read from the environment.
const injected = ["SERVICEBUS_FQDN", "SERVICEBUS_FQDN_PREMIUM", "SERVICEBUS_CONNECTION_STRING", "SERVICEBUS_CONNECTION_STRING_PREMIUM"];

export default defineConfig({
  resolve: {
    alias: {
      "@azure-tools/test-credential": here("credential.mjs"),
      "@azure-tools/test-recorder": here("recorder.mjs"),
      "@azure-tools/test-utils-vitest": here("test-utils-vitest/src/index.ts"),
    },
  },
  test: {
    setupFiles: [here("setup.mjs")],
    provide: { TEST_MODE: "live", ...Object.fromEntries(injected.map((name) => [name, process.env[name]])) },
    testTimeout: 600_000,
    hookTimeout: 60_000,
    fileParallelism: false,
    include: ["test/**/*.spec.ts"],
    exclude: ["test/**/browser/*.spec.ts", "test/snippets.spec.ts", "test/internal/connectionManagement.spec.ts"],
    fakeTimers: { toFake: ["setTimeout", "clearTimeout", "setImmediate", "clearImmediate", "setInterval", "clearInterval", "Date"] },
    watch: false,
  },
});
