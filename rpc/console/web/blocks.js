// Blocks and shards: as they come, and each by itself.
import { el, fill, keeping, link, list, row, say, table, text } from './dom.js';
import { clock, count, gas, near, rate, short, time } from './format.js';
import { Chart, quantile } from './charts.js';
import { call, metrics, sum } from './rpc.js';
import { actionNames } from './tx.js';

const KEPT = 300;

/** Feed keeps the last blocks that the node has told of. */
export class Feed {
  constructor() {
    this.blocks = [];
    this.known = new Map(); // heights of final blocks that came before the page, by hash
    this.listeners = new Set();
  }

  add(b) {
    const h = b.header;
    const used = b.chunks.reduce((s, c) => s + (c.height_included === h.height ? c.gas_used : 0), 0);
    const last = this.blocks.at(-1);
    const at = Number(h.timestamp_nanosec);
    const x = { height: h.height, hash: h.hash, author: b.author, at, nanos: h.timestamp_nanosec, came: performance.now(), used, price: h.gas_price, included: h.chunks_included,
      of: b.chunks.length, chunks: b.chunks, prev: h.prev_hash, final: h.last_final_block, took: last && last.hash === h.prev_hash ? at - last.at : null };
    this.blocks.push(x);
    if (this.blocks.length > KEPT) this.blocks.shift();
    for (const f of this.listeners) f(x);
  }

  /** reverted forgets blocks that the chain has dropped. */
  reverted(gone) {
    const hashes = new Set(gone.map((g) => g.block_hash));
    this.blocks = this.blocks.filter((b) => !hashes.has(b.hash));
    for (const f of this.listeners) f(null);
  }

  /** finalHeight is that of the last block that is final as a block has it; null: it came before the page, and is not known. */
  finalHeight(b) {
    return this.blocks.findLast((x) => x.hash === b.final)?.height ?? this.known.get(b.final) ?? null;
  }

  /** learn tells the height of a block that came before the page. */
  learn(hash, height) {
    if (this.known.size > 8) this.known.clear();
    this.known.set(hash, height);
  }

  listen(f, life) {
    this.listeners.add(f);
    life.ends.push(() => this.listeners.delete(f));
  }
}

const columns = [['Height'], ['Hash', 'hash'], ['Made at'], ['Block time', 'num'], ['Chunks', 'num'], ['Gas', 'num'], ['By']];

const cells = (b) => [link('block', b.hash, count(b.height)), short(b.hash), clock(b.nanos), b.took == null ? '–' : time(b.took), `${b.included}/${b.of}`, gas(b.used), link('account', b.author)];

/**
 * liveTable is one whose rows come at the top, a few times a second at the most. Those that are not final are shaded. drawn is called with the last block
 * whenever the table shows another one, so that all else on a page is of the same moment.
 */
function liveTable(feed, most, life, caption, drawn = () => {}) {
  const body = el('tbody');
  let asked = 0;
  const draw = () => {
    asked = 0;
    const last = feed.blocks.slice(-most);
    const newest = last.at(-1);
    const final = newest ? feed.finalHeight(newest) : null;
    keeping(body, () => body.replaceChildren(...last.map((b) => row(columns, cells(b), final != null && b.height > final ? 'open' : null)).reverse()));
    if (newest) drawn(newest, final);
    if (!last.length) body.append(el('tr', null, el('td', { colspan: columns.length, class: 'muted' }, 'No block has come since this page was opened.')));
  };
  feed.listen(() => { asked ||= setTimeout(draw, 250); }, life);
  life.ends.push(() => clearTimeout(asked));
  draw();
  return el('div', { class: 'scroll' }, el('table', null, el('caption', null, caption, el('span', { class: 'legend' }, el('span', { class: 'swatch open', 'aria-hidden': 'true' }), ' shaded: not final yet')),
    el('thead', null, el('tr', null, columns.map(([t, c]) => el('th', { scope: 'col', class: c }, t)))), body));
}

const figures = ['troupe_transactions_included_total', 'near_transaction_pool_entries', 'near_memory_usage_bytes',
  'near_rpc_processing_time_bucket', 'troupe_waits_parked', 'near_peer_connections_total'];

/** overviewPage: figures, charts, shards, blocks. */
export function overviewPage(main, feed, life) {
  const cards = new Map();
  const ul = el('ul', { class: 'cards' });
  for (const k of ['Head', 'Final', 'Transactions/s', 'Block time', 'Waiting transactions', 'Waiting requests', 'Memory', 'Peers']) {
    const v = el('span', { class: 'v' }, '–');
    cards.set(k, v);
    ul.append(el('li', null, el('span', { class: 'k' }, k), v));
  }
  const put = (k, v) => text(cards.get(k), v);
  const tps = new Chart('Transactions a second', { show: rate, every: ' looks' });
  const blockTime = new Chart('Block time', { show: time, every: ' blocks' });
  const gasUsed = new Chart('Gas of a block', { show: gas, every: ' blocks' });
  const latency = new Chart('RPC latency', { show: time, names: ['p50', 'p99'], every: ' looks' });
  const shards = el('div');
  // Head, final and shards are those of one block.
  const moment = (height, final, took, chunks) => {
    put('Head', count(height));
    put('Final', count(final));
    put('Block time', took == null ? '–' : time(took));
    fill(shards, table('Shards', shardColumns, chunks.map((c) => shardCells(c, height))));
  };
  let newest = null;
  const drawn = async (b, final) => {
    newest = b;
    final ??= await finalOf(feed, b.final, life);
    if (newest === b) moment(b.height, final, b.took, b.chunks);
  };
  fill(main, el('h1', null, 'Overview'), ul, el('div', { class: 'charts' }, tps.element, blockTime.element, gasUsed.element, latency.element), shards,
    liveTable(feed, 12, life, 'Blocks as they come', drawn));
  for (const b of feed.blocks.slice(-120)) {
    blockTime.add(b.took);
    gasUsed.add(b.used);
  }
  let news = 0;
  feed.listen((b) => {
    if (!b) return;
    blockTime.add(b.took);
    gasUsed.add(b.used);
    if (performance.now() - news > 15000) { // who listens is not told of each block
      news = performance.now();
      say('Head is block ' + b.height);
    }
  }, life);
  if (!newest) { // nothing may come for long
    call('block', { finality: 'optimistic' }, life.over.signal).then(async (b) => {
      const final = await finalOf(feed, b.header.last_final_block, life);
      if (!newest) moment(b.header.height, final, null, b.chunks);
    }).catch(() => {});
  }
  let before = null;
  life.repeat(async () => {
    const m = await metrics(figures);
    const at = performance.now();
    const now = { at, txs: sum(m.get('troupe_transactions_included_total')), rpc: histogram(m.get('near_rpc_processing_time_bucket')) };
    put('Waiting transactions', count(sum(m.get('near_transaction_pool_entries'))));
    put('Waiting requests', count(sum(m.get('troupe_waits_parked'))));
    const memory = sum(m.get('near_memory_usage_bytes'));
    put('Memory', memory == null ? '–' : Math.round(memory / (1 << 20)) + ' MiB');
    put('Peers', count(sum(m.get('near_peer_connections_total')) ?? 0));
    if (before && now.txs >= before.txs) {
      const perSecond = ((now.txs - before.txs) * 1000) / (at - before.at);
      put('Transactions/s', rate(perSecond));
      tps.add(perSecond);
      const counts = now.rpc.counts.map((n, i) => n - (before.rpc.counts[i] ?? 0));
      latency.add(quantile(counts, now.rpc.bounds, 0.5), quantile(counts, now.rpc.bounds, 0.99));
    }
    before = now;
  });
}

const NONE = '11111111111111111111111111111111';

/** finalOf is the height of a final block that came before the page; null: there is none yet. */
async function finalOf(feed, hash, life) {
  if (hash === NONE) return null;
  if (!feed.known.has(hash)) feed.learn(hash, (await call('block', { block_id: hash }, life.over.signal).catch(() => null))?.header.height ?? null);
  return feed.known.get(hash) ?? null;
}

/** histogram adds up those of all methods: counts by bucket, and the bounds in ns. */
export function histogram(rows) {
  const by = new Map();
  for (const [{ le }, v] of rows) by.set(le, (by.get(le) ?? 0) + v);
  const bounds = [...by.keys()].filter((b) => b !== '+Inf').map(Number).sort((a, b) => a - b);
  let under = 0;
  const counts = [...bounds.map((b) => by.get(String(b)) ?? 0), by.get('+Inf') ?? 0].map((v) => {
    const n = v - under;
    under = v;
    return n;
  });
  return { counts, bounds: bounds.map((b) => b * 1e9) };
}

const shardColumns = [['Shard', 'num'], ['Chunk', 'hash'], ['New at', 'num'], ['Gas used'], ['Delayed', 'num'], ['Buffered', 'num'], ['Receipts', 'num']];

function shardCells(c, height) {
  const g = c.congestion_info ?? {};
  const fresh = c.height_included === height;
  return [c.shard_id, link('chunk', c.chunk_hash, short(c.chunk_hash)), fresh ? count(c.height_included) : el('span', { class: 'warn' }, count(c.height_included), ' missed'),
    fresh ? [el('meter', { min: 0, max: c.gas_limit, value: c.gas_used, 'aria-label': 'gas used' }), ' ', gas(c.gas_used)] : '–',
    gas(g.delayed_receipts_gas), gas(g.buffered_receipts_gas), count(g.receipt_bytes) + ' B'];
}

/** blocksPage: the last blocks, live. */
export function blocksPage(main, feed, life) {
  const live = liveTable(feed, 100, life, 'The last 100 since this page was opened');
  fill(main, el('h1', null, 'Blocks'), live);
}

/** blockPage: one block with its chunks and their transactions. */
export async function blockPage(main, [id], life) {
  const b = await call('block', { block_id: /^\d+$/.test(id) ? Number(id) : id }, life.over.signal);
  const h = b.header;
  const chunks = el('div');
  fill(main, el('h1', null, 'Block ', count(h.height)), list([
    ['Hash', el('code', null, h.hash)],
    ['Made', clock(h.timestamp_nanosec)],
    ['By', link('account', b.author)],
    ['Parent', link('block', h.prev_hash)],
    ['Final before it', link('block', h.last_final_block)],
    ['Epoch', el('code', null, h.epoch_id)],
    ['Gas price', count(Number(h.gas_price)) + ' yocto'],
    ['Supply', near(h.total_supply)],
    ['Votes', count(h.approvals.filter(Boolean).length) + ' of ' + count(h.approvals.length)],
    ['Next', h.height != null && el('a', { href: '#/block/' + (h.height + 1) }, count(h.height + 1))],
  ]), table('Shards', shardColumns, b.chunks.map((c) => shardCells(c, h.height))), chunks);
  for (const c of b.chunks.filter((x) => x.height_included === h.height)) {
    const whole = await call('chunk', { chunk_id: c.chunk_hash }, life.over.signal).catch(() => null);
    if (whole) chunks.append(contents(whole, `Shard ${c.shard_id}`));
  }
}

/** chunkPage: one chunk. */
export async function chunkPage(main, [hash], life) {
  const c = await call('chunk', { chunk_id: hash }, life.over.signal);
  const h = c.header;
  fill(main, el('h1', null, 'Chunk of shard ', h.shard_id), list([
    ['Hash', el('code', null, h.chunk_hash)],
    ['By', link('account', c.author)],
    ['Made for height', el('a', { href: '#/block/' + h.height_included }, count(h.height_included))],
    ['Gas', gas(h.gas_used) + ' of ' + gas(h.gas_limit)],
    ['State before it', el('code', null, h.prev_state_root)],
  ]), contents(c, 'Contents'));
}

const MOST = 500; // rows of a chunk's lists

function contents(c, title) {
  const txs = c.transactions.slice(0, MOST);
  const receipts = c.receipts.slice(0, MOST);
  const more = (all) => (all.length > MOST ? ` (the first ${MOST} of ${count(all.length)})` : ` (${count(all.length)})`);
  return el('section', { class: 'panel' }, el('h2', null, title),
    table('Transactions' + more(c.transactions), [['Hash', 'hash'], ['From'], ['To'], ['Actions']],
      txs.map((t) => [link('tx', [t.hash, t.signer_id], short(t.hash)), link('account', t.signer_id), link('account', t.receiver_id), actionNames(t.actions)])),
    table('Receipts that it brings' + more(c.receipts), [['Id', 'hash'], ['From'], ['To'], ['What']],
      receipts.map((r) => [link('receipt', r.receipt_id, short(r.receipt_id)), link('account', r.predecessor_id), link('account', r.receiver_id), actionNames(r.receipt.Action?.actions) || Object.keys(r.receipt)[0]])));
}
