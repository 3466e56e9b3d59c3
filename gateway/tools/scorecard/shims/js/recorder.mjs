// Stands for @azure-tools/test-recorder, of which live tests use no more.
export function assertEnvironmentVariable(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}
