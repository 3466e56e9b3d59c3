// What packages written for Node.js expect of a bundler: esbuild puts these
// where they are used.
export { Buffer } from "buffer";
export { default as process } from "process";
