import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { clearInterval, setInterval } from "node:timers"; // those of jest's fake timers and of jsdom are others
import { runInThisContext } from "node:vm";
import { findBinary } from "./binary.js";
import { Chain } from "./chain.js";
import { SandboxError } from "./errors.js";
import { type Account, keyPairFromSeed } from "./keys.js";

export interface StartOptions {
  /** The port of JSON-RPC. Default 0: a free one. */
  port?: number;
  /** Default: 127.0.0.1. */
  host?: string;
  /** How many funded accounts dev0.near, dev1.near, ... to make. Default: 0. */
  accounts?: number;
  /** The balance of each, in NEAR. Default: 10000. */
  balance?: string | number;
  /** Default: 1. */
  shards?: number;
  /** Continue another chain: URL[@height|@hash|@tx:HASH] of a node's JSON-RPC. */
  fork?: string;
  /** Make no blocks while nothing waits. Default: true. */
  quiet?: boolean;
  /** The binary of troupe. Default: what findBinary returns. */
  binary?: string;
  /** Variables for the node, beside those of this process. */
  env?: NodeJS.ProcessEnv;
  /** Called with each line that the node writes, among them one for each transaction. */
  onLine?: (line: string) => void;
  /** How long to wait for the node, in milliseconds. Default: 60,000. */
  startTimeout?: number;
}

const keptLines = 50;
const longestLine = 64 << 10; // characters; a longer line is taken as several
const stopTimeout = 10_000;
const runnerPoll = 500;

// jest gives its tests a copy of process, in which these values never change
const { process: real } = runInThisContext("globalThis") as { process: NodeJS.Process };
const { ppid } = real;

/**
 * Returns whether the test runner that started this process has ended; undefined if none did. A file of `node --test`,
 * a worker of vitest and one of jest go on when their runner is killed, and vitest's never ends then.
 */
function runnerHasEnded(): (() => boolean) | undefined {
  const { env, connected } = real;
  if (env["NODE_TEST_CONTEXT"]?.startsWith("child")) return () => real.ppid !== ppid;
  // false: the runner has ended already; undefined: the runner's own process, or a thread of it
  if (connected === undefined || !(env["VITEST_WORKER_ID"] ?? env["JEST_WORKER_ID"])) return undefined;
  return () => !real.connected;
}

/** The process of a node, and what is known about its end. */
class NodeProcess {
  readonly child: ChildProcess;
  readonly lines: string[] = [];
  readonly ended: Promise<void>;
  status: string | undefined; // once it has ended

  constructor(binary: string, args: string[], options: StartOptions, ready: (line: string) => void) {
    // The node stops when its stdin ends: the kernel closes the pipe however this process ends. It has a session of
    // its own, so that Ctrl-C in the terminal lets tests finish first.
    this.child = spawn(binary, args, {
      stdio: ["pipe", "pipe", "pipe"],
      detached: true,
      env: { ...process.env, ...options.env },
    });
    this.child.stdin!.on("error", () => {}); // the node has ended
    const read = (stream: Readable): void => {
      let rest = "";
      stream.setEncoding("utf8");
      stream.on("data", (text: string) => {
        const lines = (rest + text).split("\n");
        rest = lines.pop()!;
        if (rest.length > longestLine) {
          lines.push(rest);
          rest = "";
        }
        for (const line of lines) {
          this.lines.push(line);
          if (this.lines.length > keptLines) this.lines.shift();
          ready(line);
          options.onLine?.(line);
        }
      });
    };
    read(this.child.stdout!);
    read(this.child.stderr!);
    this.ended = new Promise((resolve) => {
      this.child.on("error", (err) => {
        this.status = err.message;
        resolve();
      });
      this.child.on("close", (code, signal) => {
        this.status ??= signal ? `ended by ${signal}` : `ended with exit code ${code}`;
        resolve();
      });
    });
  }

  /** Lets this process end while the node runs. */
  unref(): void {
    this.child.unref();
    for (const s of [this.child.stdin, this.child.stdout, this.child.stderr]) (s as unknown as { unref(): void }).unref();
  }

  /** Stops the node when the test runner that started this process has ended. */
  stopWithRunner(): void {
    const ended = runnerHasEnded();
    if (!ended) return;
    const timer = setInterval(() => {
      if (ended()) this.child.stdin!.destroy();
      else if (this.status === undefined) return;
      clearInterval(timer);
    }, runnerPoll).unref();
  }

  private ref(): void {
    this.child.ref();
    for (const s of [this.child.stdout, this.child.stderr]) (s as unknown as { ref(): void }).ref();
  }

  /** Closes stdin, and kills the process if it has not ended in time. */
  async stop(): Promise<void> {
    if (this.status !== undefined) return;
    this.ref();
    this.child.stdin!.end();
    const timer = setTimeout(() => this.child.kill("SIGKILL"), stopTimeout);
    await this.ended;
    clearTimeout(timer);
  }

  /** Waits for the end, at most for some milliseconds: a connection fails before the process is known to have ended. */
  async endedWithin(limit: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await Promise.race([this.ended, new Promise((resolve) => (timer = setTimeout(resolve, limit)))]);
    clearTimeout(timer);
  }

  get text(): string {
    return this.lines.map((line) => `\n  ${line}`).join("");
  }
}

/** A node with a chain of its own in a temporary folder, which is removed at the end. */
export class Sandbox extends Chain {
  /** The validator test.near, with a billion NEAR; in a fork it does not exist. */
  readonly root: Account = { accountId: "test.near", ...keyPairFromSeed("test.near") };
  /** The accounts that `accounts` asked for: dev0.near, dev1.near, ... */
  readonly accounts: readonly Account[];
  private readonly node: NodeProcess | undefined;

  private constructor(url: string, networkId: string, accounts: number, node?: NodeProcess) {
    super(url, networkId);
    this.accounts = Array.from({ length: accounts }, (_, i) => ({ accountId: `dev${i}.near`, ...keyPairFromSeed(`dev${i}.near`) }));
    this.node = node;
  }

  /** Starts a node. Throws SandboxError NoBinary, PortTaken or StartFailed. */
  static async start(options: StartOptions = {}): Promise<Sandbox> {
    const { port = 0, host = "127.0.0.1", accounts = 0, balance, shards, fork, quiet = true, startTimeout = 60_000 } = options;
    const binary = options.binary ?? findBinary({ ...process.env, ...options.env });
    const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
    const args = ["dev", "--exit-with-stdin", "--rpc-addr", address, "--accounts", String(accounts)];
    if (balance !== undefined) args.push("--balance", String(balance));
    if (shards !== undefined) args.push("--shards", String(shards));
    if (fork !== undefined) args.push("--fork", fork);
    if (!options.onLine) args.push("--log-transactions=failed");

    let node!: NodeProcess;
    const url = new Promise<string>((resolve) => {
      node = new NodeProcess(binary, args, options, (line) => {
        const m = /^JSON-RPC  (http:\S+)$/.exec(line);
        if (m) resolve(m[1]!);
      });
    });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(resolve, startTimeout, undefined);
    });
    const found = await Promise.race([url, node.ended, late]);
    clearTimeout(timer);
    if (typeof found !== "string") {
      const { status } = node;
      await node.stop();
      throw startError(binary, address, status, startTimeout, node);
    }
    node.unref();
    node.stopWithRunner();
    const sandbox = new Sandbox(found, await networkOf(found), accounts, node);
    try {
      if (quiet) await sandbox.production({ quiet });
    } catch (err) {
      await sandbox.stop();
      throw err;
    }
    return sandbox;
  }

  /** Uses a node that another process has started, for instance a global setup. `stop` does not end it. */
  static async connect(url: string, options: { accounts?: number } = {}): Promise<Sandbox> {
    return new Sandbox(url.replace(/\/$/, ""), await networkOf(url), options.accounts ?? 0);
  }

  /** The id of the node's process; undefined if it was not started here. */
  get pid(): number | undefined {
    return this.node?.child.pid;
  }
  /** The last lines that the node wrote. */
  get lines(): readonly string[] {
    return this.node?.lines ?? [];
  }

  protected override async failure(err: unknown): Promise<unknown> {
    if (!(err instanceof SandboxError) || err.kind !== "NodeEnded" || !this.node) return err;
    await this.node.endedWithin(200);
    const message = `${err.message}: the process ${this.node.status ?? "runs"}; its last lines:${this.node.text}`;
    return new SandboxError("NodeEnded", message, { lines: [...this.node.lines], cause: err.cause });
  }

  /** Ends the node and removes its chain. */
  async stop(): Promise<void> {
    await this.node?.stop();
  }
}

async function networkOf(url: string): Promise<string> {
  return (await new Chain(url, "").call<{ chain_id: string }>("status")).chain_id;
}

function startError(binary: string, address: string, status: string | undefined, limit: number, node: NodeProcess): SandboxError {
  const lines = [...node.lines];
  if (lines.some((line) => /--rpc-addr: .* is in use/.test(line))) {
    return new SandboxError("PortTaken", `${address} is in use: choose another port, or 0 for a free one`, { lines });
  }
  // all flags are this package's
  const old = lines.some((line) => /^troupe: unknown (flag: --|command "dev")/.test(line));
  const outdated = old ? `; ${binary} is older than this package` : "";
  const why = status === undefined ? `was not ready after ${limit} ms` : status;
  return new SandboxError("StartFailed", `${binary} ${why}${outdated}; its last lines:${node.text}`, { lines });
}
