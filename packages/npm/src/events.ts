import { SandboxError, type RpcErrorObject } from "./errors.js";
import { asError, encode } from "./rpc.js";
import type { Block, ExecutionStatus, Finality, WaitUntil } from "./types.js";

/** A position in the chain. A subscription with `after` continues behind it. */
export interface Cursor {
  block_hash: string;
  height: number;
  [more: string]: unknown;
}
interface From {
  /** Continue after the message with this cursor. */
  after?: Cursor;
  /** Begin at a stored height. */
  from_height?: number;
}
/** What to subscribe to. */
export type Topic = From &
  (
    | { topic: "blocks"; finality?: Finality }
    | { topic: "transactions"; account_id: string }
    | { topic: "transactions"; tx_hashes: string[] }
    | { topic: "outcomes"; account_id: string; finality?: Finality }
    | { topic: "events"; account_id: string; standard?: string; event?: string; finality?: Finality }
    | { topic: "messages"; finality?: Finality; shards?: { shard_id: number; version: number }[]; accounts?: string[] }
  );

/** A message of a subscription. Which fields it has depends on the topic. */
export interface Message {
  cursor: Cursor;
  /** Topic blocks: the block as the method `block` returns it. */
  block?: { header: { height: number; hash: string; [more: string]: unknown }; [more: string]: unknown };
  /** Topic transactions: a status that the transaction has reached. */
  transaction?: { tx_hash: string; final_execution_status: WaitUntil; status?: ExecutionStatus; [more: string]: unknown };
  /** Topic events: a NEP-297 event. */
  event?: { standard: string; version: string; event: string; data?: unknown; [more: string]: unknown };
  /** A reorganisation has dropped this block: everything that was sent about it is void. */
  reverted?: Block & Record<string, unknown>;
  [more: string]: unknown;
}

/** The part of a WebSocket client that subscriptions use. The global of Node 22 and the package `ws` have it. */
export interface WebSocketLike {
  send(text: string): void;
  close(): void;
  addEventListener(type: "open" | "message" | "close" | "error", listener: (event: any) => void): void;
}
export type WebSocketConstructor = new (url: string) => WebSocketLike;

/** A subscription: iterate over it with `for await`, and close it. */
export interface Subscription extends AsyncIterableIterator<Message> {
  /** Where the subscription began. */
  readonly cursor: Cursor;
  /** Ends the subscription. An iteration that waits ends without an error. */
  close(): void;
}

/**
 * How much text of messages waits for a reader that does not ask for it. The subscription then ends: a WebSocket cannot
 * tell the node to wait. Each message counts as messageSize characters more, for the objects that it takes.
 */
const maxQueued = 64 << 20;
const messageSize = 256;

/** Opens a WebSocket and subscribes. Throws an RpcError if the node refuses. */
export async function subscribe(url: string, topic: Topic, constructor?: WebSocketConstructor): Promise<Subscription> {
  const WebSocket = constructor ?? (globalThis as { WebSocket?: WebSocketConstructor }).WebSocket;
  if (!WebSocket) {
    throw new SandboxError(
      "NoWebSocket",
      `Node ${process.versions.node} has no WebSocket: use Node 22 or newer, or pass an implementation, ` +
        'for instance that of the package ws: { webSocket: require("ws") }',
    );
  }
  const socket = new WebSocket(url);
  let queue: ({ message: Message; size: number } | undefined)[] = [];
  let read = 0; // how many messages at the begin of queue have been read: shift() would move all others
  let queued = 0;
  const waiting: { resolve: (r: IteratorResult<Message>) => void; reject: (err: unknown) => void }[] = [];
  let end: { error?: unknown } | undefined;

  const finish = (error?: unknown): void => {
    if (end) return;
    end = error === undefined ? {} : { error };
    for (const w of waiting.splice(0)) {
      if (error === undefined) w.resolve({ done: true, value: undefined });
      else w.reject(error);
    }
    socket.close();
  };
  const push = (message: Message, size: number): void => {
    if (end) return;
    const w = waiting.shift();
    if (w) {
      w.resolve({ done: false, value: message });
      return;
    }
    queue.push({ message, size });
    queued += size;
    if (queued <= maxQueued) return;
    const text = `the subscription at ${url} ended: ${queue.length - read} messages wait to be read; continue with \`after\`, the last message's cursor`;
    finish(new SandboxError("SubscriptionClosed", text, { reason: "SLOW_READER" }));
  };

  const cursor = await new Promise<Cursor>((resolve, reject) => {
    socket.addEventListener("open", () => {
      socket.send(encode({ jsonrpc: "2.0", id: 1, method: "subscribe", params: topic }));
    });
    type Received = { id?: number; result?: { cursor: Cursor }; error?: RpcErrorObject; params?: Message & { closed?: { reason?: string } | string } };
    const fail = (err: unknown): void => {
      reject(err);
      finish(err);
    };
    socket.addEventListener("message", (event: { data: unknown }) => {
      if (end) return; // the node has not closed its side yet
      const text = String(event.data);
      let m: Received | null;
      try {
        m = JSON.parse(text) as Received | null;
      } catch (err) {
        fail(new SandboxError("BadReply", `subscribe: a message of ${url} is not JSON: ${text.slice(0, 200)}`, { cause: err }));
        return;
      }
      if (m?.error) {
        fail(asError("subscribe", url, m.error));
      } else if (m?.id === 1) {
        const cursor = m.result?.cursor;
        if (typeof cursor === "object" && cursor !== null) resolve(cursor);
        else fail(new SandboxError("BadReply", `subscribe: a reply of ${url} has no cursor: ${text.slice(0, 200)}`));
      } else if (m?.params?.closed !== undefined && m.params.closed !== null) {
        const { closed } = m.params;
        const given = typeof closed === "string" ? closed : closed.reason;
        const reason = typeof given === "string" ? given : "unknown";
        const error = new SandboxError("SubscriptionClosed", `the node closed the subscription: ${reason}`, { reason });
        reject(error); // has no effect after the reply to subscribe
        finish(reason === "DONE" ? undefined : error);
      } else if (m?.params) {
        push(m.params, text.length + messageSize);
      }
    });
    const lost = (event: { message?: string; reason?: string }): void => {
      const reason = event.message || event.reason || "the connection was closed";
      fail(new SandboxError("SubscriptionClosed", `the subscription at ${url} ended: ${reason}`, { reason }));
    };
    socket.addEventListener("error", lost);
    socket.addEventListener("close", lost);
  });

  const subscription: Subscription = {
    cursor,
    close: () => finish(),
    next() {
      const first = queue[read];
      if (first) {
        queue[read++] = undefined;
        if (read > 1024 && read > queue.length / 2) {
          queue = queue.slice(read);
          read = 0;
        }
        queued -= first.size;
        return Promise.resolve({ done: false, value: first.message });
      }
      if (end) return "error" in end ? Promise.reject(end.error) : Promise.resolve({ done: true, value: undefined });
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    return() {
      queue.length = read = queued = 0;
      finish();
      return Promise.resolve({ done: true, value: undefined });
    },
    [Symbol.asyncIterator]: () => subscription,
  };
  return subscription;
}
