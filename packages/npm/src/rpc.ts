import * as http from "node:http";
import { RpcError, type RpcErrorObject, SandboxError } from "./errors.js";

// Requests go through node:http and not through fetch: test environments such as jsdom replace or remove fetch.
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });

/** A bigint is written as a decimal text, which the node reads for amounts and times. */
export function encode(value: unknown): string {
  return JSON.stringify(value, (_, v: unknown) => (typeof v === "bigint" ? v.toString() : v));
}

/** In bytes. A JavaScript string cannot be much larger. */
const maxReply = 256 << 20;

interface Reply {
  status: number;
  body: string;
}

function post(url: string, body: string): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const attempt = (last: boolean): void => {
      const req = http.request(url, {
        method: "POST",
        agent,
        headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
      });
      req.on("response", (res) => {
        const parts: Buffer[] = [];
        let size = 0;
        res.on("data", (part: Buffer) => {
          parts.push(part);
          size += part.length;
          if (size > maxReply) {
            req.destroy();
            parts.length = 0;
            reject(new SandboxError("BadReply", `the reply of ${url} is larger than ${maxReply >> 20} MiB`));
          }
        });
        res.on("end", () => resolve({ status: res.statusCode ?? 0, body: Buffer.concat(parts).toString("utf8") }));
        res.on("error", reject);
      });
      req.on("error", (err: NodeJS.ErrnoException) => {
        // The node closed an idle connection while this request was on its way, and has not read it.
        if (!last && req.reusedSocket && err.code === "ECONNRESET") attempt(true);
        else reject(err);
      });
      req.end(body);
    };
    attempt(false);
  });
}

let nextId = 1;

/** Calls a method at a URL. Throws an RpcError for an error reply; SandboxError WorldEnded, NodeEnded or BadReply. */
export async function call(url: string, method: string, params: unknown): Promise<unknown> {
  let reply: Reply;
  try {
    reply = await post(url, encode({ jsonrpc: "2.0", id: nextId++, method, params: params ?? null }));
  } catch (err) {
    if (err instanceof SandboxError) throw err;
    throw new SandboxError("NodeEnded", `${method}: no node answers at ${url}: ${(err as Error).message}`, { cause: err });
  }
  return unwrap(method, url, reply);
}

function unwrap(method: string, url: string, { status, body }: Reply): unknown {
  let envelope: { result?: unknown; error?: RpcErrorObject } | null;
  try {
    envelope = JSON.parse(body) as typeof envelope;
  } catch (err) {
    const text = `${method}: the reply of ${url} is not JSON (HTTP ${status}): ${body.slice(0, 200)}`;
    throw new SandboxError("BadReply", text, { cause: err });
  }
  if (typeof envelope !== "object" || envelope === null) {
    throw new SandboxError("BadReply", `${method}: the reply of ${url} is no JSON-RPC reply: ${body.slice(0, 200)}`);
  }
  if (envelope.error) throw asError(method, url, envelope.error);
  if (!("result" in envelope)) throw new SandboxError("BadReply", `${method}: the reply of ${url} has no result`);
  return envelope.result;
}

/** Turns the error of a reply into an RpcError, or a SandboxError if the world has ended. */
export function asError(method: string, url: string, error: RpcErrorObject): RpcError | SandboxError {
  const rpc = new RpcError(method, error);
  if (rpc.cause.name !== "UNKNOWN_WORLD") return rpc;
  return new SandboxError("WorldEnded", `${method}: the world at ${url} has ended`, { cause: rpc });
}
