// What a client with the WebSocket of its language sees: calls, a subscription to a transaction's milestones, and one that goes on at its cursor.
// Node 22 has WebSocket built in; before that it needs --experimental-websocket.
import assert from "node:assert";

const url = process.env.NEAR_RPC_URL.replace("http", "ws") + "/ws";
assert(typeof WebSocket === "function", "this node has no WebSocket");

class Client {
  constructor() {
    this.calls = new Map();
    this.heard = [];
    this.ears = [];
    this.next = 1;
  }
  open() {
    this.socket = new WebSocket(url);
    this.closed = new Promise((done) => this.socket.addEventListener("close", done));
    this.socket.addEventListener("message", (e) => {
      const m = JSON.parse(e.data);
      if (m.method === "subscription") {
        this.heard.push(m.params);
        this.ears.splice(0).forEach((f) => f());
      } else {
        this.calls.get(m.id)(m);
      }
    });
    return new Promise((done, fail) => {
      this.socket.addEventListener("open", () => done(this));
      this.socket.addEventListener("error", fail);
    });
  }
  async call(method, params) {
    const id = this.next++;
    const reply = new Promise((done) => this.calls.set(id, done));
    this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    const m = await reply;
    assert(!m.error, JSON.stringify(m.error));
    return m.result;
  }
  // until waits for a message of which f is true.
  async until(f) {
    while (!this.heard.some(f)) await new Promise((done) => this.ears.push(done));
    return this.heard.find(f);
  }
}

const c = await new Client().open();
const status = await c.call("status", []);
assert.equal(status.chain_id.length > 0, true);
const [head, gas] = await Promise.all([c.call("block", { finality: "optimistic" }), c.call("gas_price", [null])]);
assert(head.header.height >= 0 && BigInt(gas.gas_price) > 0n);

const { subscription } = await c.call("subscribe", { topic: "blocks", finality: "optimistic" });
await c.call("sandbox_fast_forward", { delta_height: 5 });
await c.until((p) => p.subscription === subscription && p.block.header.height > head.header.height);
const heights = c.heard.filter((p) => p.block).map((p) => p.block.header.height);
assert.deepEqual(heights, [...new Set(heights)].sort((a, b) => a - b), "each block once and in order");

// Goes on where it was, on another connection.
const last = c.heard[0].cursor;
c.socket.close();
const { code } = await c.closed;
assert([1000, 1005].includes(code), `closed with ${code}`);
const again = await new Client().open();
const next = await again.call("subscribe", { topic: "blocks", finality: "optimistic", after: last });
const first = await again.until((p) => p.subscription === next.subscription);
assert(first.block.header.prev_hash === last.block_hash, "the block behind the cursor");
assert.equal(await again.call("unsubscribe", [next.subscription]), true);
again.socket.close();
console.log(`blocks ${heights.join(", ")}; went on behind ${last.height}`);
process.exit(0);
