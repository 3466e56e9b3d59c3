// What a plugin in JavaScript needs for a Crosstown gateway: plain gRPC, by the contract in
// plugin.proto (crosstown plugin proto > plugin.proto).
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';
import health from 'grpc-health-check';

const here = path.dirname(fileURLToPath(import.meta.url));
const contract = [path.join(here, 'plugin.proto'), path.join(here, '../../../plugins/proto/v1/plugin.proto')].find(existsSync);
const maxFrame = 128 << 20; // bytes

/** serve serves a router until the gateway ends the program. */
export function serve(plugin) {
  if (!process.env.CROSSTOWN_PLUGIN) {
    console.error(`This is the Crosstown plugin ${plugin.name}. A gateway runs the plugin. To try it: crosstown plugin check`);
    process.exit(2);
  }
  const definition = loader.loadSync(contract, { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true });
  const { Plugin } = grpc.loadPackageDefinition(definition).crosstown.plugin.v1;

  const server = new grpc.Server({ 'grpc.max_receive_message_length': maxFrame, 'grpc.max_send_message_length': maxFrame });
  server.addService(Plugin.service, {
    describe: (call, answer) => answer(null, {
      name: plugin.name,
      version: plugin.version,
      contracts: [1],
      router: { needs_body: plugin.needsBody ?? false },
    }),
    work(stream) {
      let responses = [];
      const flush = () => {
        stream.write({ responses });
        responses = [];
      };
      let open = 0;
      let ended = false;
      stream.on('data', ({ requests }) => {
        open += requests.length;
        for (const request of requests) {
          respond(plugin, request).then((response) => {
            open--;
            // Send together what is ready at the same time, so that slow requests do not delay
            // others.
            if (responses.push(response) === 1) setImmediate(flush);
            if (ended && open === 0) setImmediate(() => stream.end());
          });
        }
      });
      stream.on('end', () => {
        ended = true;
        if (open === 0) setImmediate(() => stream.end());
      });
    },
  });
  new health.HealthImplementation({ plugin: 'SERVING' }).addToServer(server);

  const socket = path.join(process.env.PLUGIN_UNIX_SOCKET_DIR, 'plugin.sock');
  server.bindAsync(`unix:${socket}`, grpc.ServerCredentials.createInsecure(), (problem) => {
    if (problem) throw problem;
    console.log(`1|1|unix|${socket}|grpc`); // tells the gateway where to connect
  });
  process.on('SIGTERM', () => process.exit(0));
}

/** respond answers one request: with a verdict per message, or why there is none. */
async function respond(plugin, { id, question, route }) {
  if (!question) return { id }; // the gateway tests the stream
  if (question !== 'route') return { id, failure: { kind: 'UNSUPPORTED', text: `${plugin.name} only routes` } };
  try {
    const verdicts = [];
    const parameters = toObject(route.parameters);
    for (const message of route.messages) {
      const verdict = await plugin.onSend({
        ...message,
        stage: route.stage,
        entity: route.entity,
        parameters,
        properties: toObject(message.properties),
        annotations: toObject(message.annotations),
      });
      const set = Object.entries(verdict.set ?? {}).map(([key, value]) => ({ key, value: fromJS(value) }));
      verdicts.push({ ...verdict, set });
    }
    return { id, routed: { verdicts } };
  } catch (problem) {
    console.error(problem);
    return { id, failure: { kind: 'UNAVAILABLE', text: String(problem) } };
  }
}

const toObject = (properties) => Object.fromEntries(properties.map(({ key, value }) => [key, toJS(value)]));

/** toJS makes of a typed value what JavaScript has for it; what it has nothing for stays as it is. */
function toJS(value) {
  switch (value?.kind) {
    case undefined:
      return null;
    case 'ulong_value':
    case 'long_value': {
      const n = Number(value[value.kind]);
      return Number.isSafeInteger(n) ? n : BigInt(value[value.kind]);
    }
    case 'timestamp_value':
      return new Date(Number(value.timestamp_value));
    case 'char_value':
      return String.fromCodePoint(value.char_value);
    case 'list_value':
      return value.list_value.values.map(toJS);
    case 'array_value':
      return value.array_value.values.map(toJS);
    case 'map_value':
      return new Map(value.map_value.entries.map(({ key, value: v }) => [toJS(key), toJS(v)]));
    case 'decimal32_value':
    case 'decimal64_value':
    case 'decimal128_value':
    case 'described_value':
      return value;
    default:
      return value[value.kind];
  }
}

/** fromJS gives a value the type that is natural for it. A value of the contract, such as {int_value: 3}, keeps its own. */
function fromJS(value) {
  switch (typeof value) {
    case 'boolean':
      return { bool_value: value };
    case 'string':
      return { string_value: value };
    case 'bigint':
      return { long_value: String(value) };
    case 'number':
      return Number.isSafeInteger(value) ? { long_value: String(value) } : { double_value: value };
    default:
  }
  if (value === null || value === undefined) return {};
  if (value instanceof Date) return { timestamp_value: String(value.getTime()) };
  if (value instanceof Uint8Array) return { binary_value: value };
  if (Array.isArray(value)) return { list_value: { values: value.map(fromJS) } };
  if (value instanceof Map) return { map_value: { entries: [...value].map(([key, v]) => ({ key: fromJS(key), value: fromJS(v) })) } };
  return value;
}
