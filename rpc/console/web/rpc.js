// The node's JSON-RPC, its WebSocket and its metrics, at the place where this page is: behind a key, in a world, or neither.

/** root is the RPC's address. */
export const root = new URL('../', location.href.split('#')[0]);

/** Refused is an error that the node answered with. */
export class Refused extends Error {
  constructor(e) {
    const cause = e.cause?.name ?? e.name ?? 'error';
    const info = e.cause?.info ?? {};
    super(info.error_message ?? info.reason ?? (typeof e.data === 'string' ? e.data : null) ?? e.message ?? cause);
    this.cause = cause;
    this.info = info;
    this.code = e.code;
    this.full = e;
  }
}

/** Lost is thrown where the node does not answer at all. */
export class Lost extends Error {
  constructor() { super('The node does not answer; trying again.'); }
}

/** ask is fetch, with Lost in place of the browser's words. */
const ask = (...args) => fetch(...args).catch((e) => { throw e.name === 'AbortError' ? e : new Lost(); });

let id = 0;

/** took are the times of this page's last calls, ms. */
export const took = [];

/** call asks a method. */
export const call = (method, params = null, signal = null) => callAt(root, method, params, signal);

/** callAt asks a method of another chain of this node: a world, or what it began from. */
export async function callAt(to, method, params = null, signal = null) {
  const began = performance.now();
  const r = await ask(to, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }), signal });
  let reply;
  try {
    reply = await r.json();
  } catch {
    throw new Error(`HTTP ${r.status} ${r.statusText}`);
  }
  took.push(performance.now() - began);
  if (took.length > 200) took.shift();
  if (reply.error) throw new Refused(reply.error);
  if (reply.result?.error && reply.result.logs) throw new Error(reply.result.error); // the old form of query's failures
  return reply.result;
}

/** get reads a path beside the RPC. */
export async function get(path, kind = 'json') {
  const r = await ask(new URL(path, root), { cache: 'no-store' });
  if (!r.ok) throw new Error(`${path}: HTTP ${r.status}`);
  return kind === 'json' ? r.json() : r.text();
}

/** metrics reads figures of /metrics whose names are asked for: a map from name to a list of [labels, value]. */
export async function metrics(names) {
  const want = new Set(names);
  const out = new Map(names.map((n) => [n, []]));
  for (const line of (await get('metrics', 'text')).split('\n')) {
    if (line.startsWith('#')) continue;
    const brace = line.indexOf('{');
    const space = line.lastIndexOf(' ');
    const name = line.slice(0, brace < 0 ? space : brace);
    if (!want.has(name)) continue;
    const labels = {};
    if (brace >= 0) for (const m of line.slice(brace + 1, line.lastIndexOf('}')).matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) labels[m[1]] = m[2];
    out.get(name).push([labels, Number(line.slice(space + 1))]);
  }
  return out;
}

/** sum adds a metric's rows up; null: there is none. */
export const sum = (rows) => (rows?.length ? rows.reduce((a, [, v]) => a + v, 0) : null);

/**
 * Blocks tells of each block as it comes, by the WebSocket, and goes on behind the last one after a loss. state: live or lost.
 */
export class Blocks {
  constructor(block, reverted, state) {
    Object.assign(this, { block, reverted, state, wait: 250 });
    this.open();
  }

  open() {
    const url = new URL('ws', root);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    const ws = new WebSocket(url);
    ws.onopen = () => ws.send(JSON.stringify({ jsonrpc: '2.0', id: 'blocks', method: 'subscribe', params: { topic: 'blocks', finality: 'optimistic', ...(this.cursor && { after: this.cursor }) } }));
    ws.onmessage = (m) => this.heard(ws, JSON.parse(m.data));
    ws.onclose = () => {
      this.state('lost');
      setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(this.wait * 2, 8000);
    };
  }

  heard(ws, m) {
    if (m.id === 'blocks') {
      if (m.error) { // what it was behind is not kept any more: it goes on with what comes
        this.cursor = null;
        ws.close();
        return;
      }
      this.wait = 250;
      this.state('live');
      return;
    }
    const p = m.params;
    if (!p) return;
    if (p.cursor) this.cursor = p.cursor;
    if (p.block) this.block(p.block);
    if (p.reverted) this.reverted(p.reverted);
    if (p.closed) {
      if (p.closed.reason === 'CURSOR_LOST') this.cursor = null;
      ws.close();
    }
  }
}
