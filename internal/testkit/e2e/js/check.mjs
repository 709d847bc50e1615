// What the scripts share: steps that are named and counted, and checks that say what was wanted.
// A script gets NEAR_RPC_URL and NEAR_HOME (the node's folder) from the Go test and fails by its exit code.
import { readFileSync } from "node:fs";
import { isDeepStrictEqual, inspect } from "node:util";

export const url = need("NEAR_RPC_URL");
export const home = process.env.NEAR_HOME ?? "";

// need returns an environment variable that the Go test must have set.
export function need(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}

// validatorKey is the key file of the chain's one validator: account_id, public_key, secret_key.
export function validatorKey() {
  return JSON.parse(readFileSync(`${home}/validator_key.json`, "utf8"));
}

// failures counts steps that failed; done() makes it the exit code.
let failures = 0;
let passed = 0;

// step runs one named check; a failure is printed and the script goes on, so that one run shows all that is wrong.
export async function step(name, body) {
  const began = performance.now();
  try {
    await body();
    passed++;
    console.log(`ok   ${name} (${(performance.now() - began).toFixed(0)} ms)`);
  } catch (error) {
    failures++;
    console.log(`FAIL ${name}: ${error?.stack ?? error}`);
    if (error?.cause) console.log("     cause:", inspect(error.cause, { depth: 8 }));
  }
}

// equal compares deeply; got comes first.
export function equal(got, want, what = "value") {
  if (!isDeepStrictEqual(got, want)) throw new Error(`${what} = ${inspect(got, { depth: 8 })}, want ${inspect(want, { depth: 8 })}`);
}

// ok wants a condition to hold.
export function ok(condition, what) {
  if (!condition) throw new Error(`not so: ${what}`);
}

// throws wants body to fail with an error whose class has this name, and returns the error for more checks.
export async function throws(className, body) {
  let result;
  try {
    result = await body();
  } catch (error) {
    if (error?.constructor?.name !== className && error?.name !== className)
      throw new Error(`error is ${error?.constructor?.name} (${error?.message}), want ${className}`, { cause: error });
    return error;
  }
  throw new Error(`no error, want ${className}; result ${inspect(result, { depth: 4 })}`);
}

// call is a bare JSON-RPC request, for what a client cannot ask: it returns the HTTP status and the parsed body.
export async function call(method, params, base = url) {
  const reply = await fetch(base, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: "dontcare", method, params }),
  });
  return { status: reply.status, body: await reply.json() };
}

// done prints the count and ends the script.
export function done() {
  console.log(`${passed} passed, ${failures} failed`);
  process.exit(failures === 0 ? 0 : 1);
}
