// Blocks and shards: as they come, and each by itself.
import { cards, el, fill, keeping, link, list, party, row, say, table, text } from './dom.js';
import { bytes, count, cut, gas, near, rate, short, time } from './format.js';
import { Chart, quantile } from './charts.js';
import { copied } from './copy.js';
import { Refused, call, get, metrics, sum } from './rpc.js';
import { blockTransactions, latest } from './transactions.js';
import { actionNames } from './tx.js';
import { at, heads, when } from './when.js';

const KEPT = 300;
const HISTORY = 120; // blocks from before the page was opened
const MEAN = 60; // blocks in the mean of the block time

const NONE = '11111111111111111111111111111111';

const fresh = (c, height) => c.height_included === height;

/** busy tells whether a block has transactions, or outcomes of the block before it. What a page knows of transactions changes with such blocks only. */
export const busy = (b) => b.chunks.some((c) => fresh(c, b.height) && (c.tx_root !== NONE || c.outcome_root !== NONE));

/** Feed keeps the last blocks that the node has told of. */
export class Feed {
  constructor() {
    this.blocks = [];
    this.known = new Map(); // heights of final blocks that came before the page, by hash
    this.listeners = new Set();
    this.counted = []; // of each table that shows how many transactions blocks have: its rows
  }

  /** load reads the last blocks: those from before the page was opened, and those that came while there was no connection. */
  load() {
    return this.loading ??= call('troupe_transactions', { limit: 0, blocks: HISTORY }).then((r) => {
      const known = new Set(this.blocks.map((b) => b.hash));
      this.blocks = this.blocks.concat(r.blocks.filter((b) => !known.has(b.block_hash)).map((b) => ({ height: b.block_height, hash: b.block_hash, author: b.author, at: Number(b.timestamp_nanosec),
        nanos: b.timestamp_nanosec, used: b.gas_used, included: b.chunks, of: b.shards, txs: b.transactions, chunks: null, prev: null, final: null, took: null })))
        .sort((a, b) => a.height - b.height).slice(-KEPT);
      for (let i = 1; i < this.blocks.length; i++) this.blocks[i].took ??= this.blocks[i].at - this.blocks[i - 1].at;
      this.count(r.blocks);
      for (const f of this.listeners) f(undefined);
    }, () => {}).finally(() => { this.loading = null; });
  }

  /** count notes how many transactions blocks have. */
  count(blocks) {
    const by = new Map(blocks.map((b) => [b.block_hash, b.transactions]));
    for (const b of this.blocks) b.txs = by.get(b.hash) ?? b.txs;
  }

  /** counts has the transactions of the last rows blocks counted while a table is there: at most twice in a second, and only for blocks that have some. */
  counts(rows, life) {
    this.counted.push(rows);
    life.ends.push(() => {
      this.counted.splice(this.counted.indexOf(rows), 1);
      if (!this.counted.length) {
        clearTimeout(this.asked);
        this.asked = 0;
      }
    });
    this.ask();
  }

  /** uncounted are the blocks that a table shows without their transactions. */
  uncounted() {
    return this.blocks.slice(-Math.max(...this.counted)).filter((b) => b.txs === null);
  }

  ask() {
    if (!this.counted.length || !this.uncounted().length) return;
    this.asked ||= setTimeout(async () => {
      const [first] = this.uncounted();
      if (first && !document.hidden) {
        const r = await call('troupe_transactions', { limit: 0, blocks: this.blocks.length - this.blocks.indexOf(first) + 2 }).catch(() => null);
        if (r) {
          this.count(r.blocks);
          for (const b of this.uncounted()) if (b.height <= r.head_height) b.txs = undefined; // older than what is described, or reverted
          for (const f of this.listeners) f(undefined);
        }
      }
      this.asked = 0;
      this.ask();
    }, 500);
  }

  add(b) {
    const h = b.header;
    b.chunks.sort((x, y) => x.shard_id - y.shard_id);
    const used = b.chunks.reduce((s, c) => s + (fresh(c, h.height) ? c.gas_used : 0), 0);
    const last = this.blocks.at(-1);
    const at = Number(h.timestamp_nanosec);
    const x = { height: h.height, hash: h.hash, author: b.author, at, nanos: h.timestamp_nanosec, came: performance.now(), used, price: h.gas_price, included: h.chunks_included,
      of: b.chunks.length, chunks: b.chunks, prev: h.prev_hash, final: h.last_final_block,
      txs: b.chunks.some((c) => fresh(c, h.height) && c.tx_root !== NONE) ? null : 0, took: last && last.hash === h.prev_hash ? at - last.at : null };
    const i = this.blocks.findLastIndex((k) => k.hash === x.hash);
    if (i >= 0) { // it was read with those before
      this.blocks[i] = { ...x, txs: this.blocks[i].txs, took: this.blocks[i].took };
      for (const f of this.listeners) f(undefined);
      return;
    }
    this.blocks.push(x);
    if (this.blocks.length > KEPT) this.blocks.shift();
    for (const f of this.listeners) f(x);
    if (x.txs === null) this.ask();
    if (last && last.hash !== x.prev && this.counted.length) this.load();
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

  /** listen calls f with each block; with null when blocks were reverted, and with undefined when more is known of those that came. */
  listen(f, life) {
    this.listeners.add(f);
    life.ends.push(() => this.listeners.delete(f));
  }

  /** learn tells the height of a block that came before the page. */
  learn(hash, height) {
    if (this.known.size > 8) this.known.clear();
    this.known.set(hash, height);
  }
}

const columns = [['Height'], ['Hash', 'hash wide'], ['Age', 'keep'], ['Block time', 'num wide'], ['Transactions', 'num'], ['Gas used', 'num'], ['Author', 'wide'], ['Chunks', 'num wide']];

const cells = (b) => [link('block', b.hash, count(b.height)), short(b.hash), when(b.nanos), b.took == null ? '–' : time(b.took), b.txs === null ? '…' : b.txs === undefined ? '–' : count(b.txs), gas(b.used),
  party(b.author), `${b.included}/${b.of}`];

/**
 * liveTable is one whose rows come at the top, a few times a second at the most. Those that are not final are shaded. drawn is called with the last block
 * whenever the table shows another one, so that all else on a page is of the same moment.
 */
function liveTable(feed, most, life, caption, drawn = () => {}, shown = () => true) {
  const body = el('tbody');
  let asked = 0;
  const draw = () => {
    asked = 0;
    const last = feed.blocks.filter(shown).slice(-most);
    const newest = feed.blocks.at(-1);
    const final = newest?.final ? feed.finalHeight(newest) : null;
    keeping(body, () => body.replaceChildren(...last.map((b) => row(columns, cells(b), final != null && b.height > final ? 'open' : null)).reverse()));
    if (newest?.chunks) drawn(newest, final);
    if (!last.length) body.append(el('tr', null, el('td', { colspan: columns.length, class: 'muted' }, feed.blocks.length ? `No block of the last ${count(feed.blocks.length)} has transactions.` : 'No block has come yet.')));
  };
  feed.listen(() => { asked ||= setTimeout(draw, 250); }, life);
  feed.counts(most, life);
  feed.load();
  life.ends.push(() => clearTimeout(asked));
  draw();
  return el('div', { class: 'scroll' }, el('table', null, el('caption', null, caption, el('span', { class: 'legend' }, el('span', { class: 'swatch open', 'aria-hidden': 'true' }), ' shaded: not final yet')),
    heads(columns), body));
}

const names = ['troupe_transactions_included_total', 'near_transaction_pool_entries', 'near_memory_usage_bytes',
  'near_rpc_processing_time_bucket', 'troupe_waits_parked', 'near_peer_connections_total'];

/** overviewPage: figures, charts, shards, blocks. */
export function overviewPage(main, feed, life) {
  const figures = cards(['Head', 'Final', 'Transactions/s', 'Block time', 'Waiting transactions', 'Waiting requests', 'Memory', 'Peers']);
  const put = figures.set;
  const tps = new Chart('Transactions per second', { show: rate, every: ' samples' });
  const blockTime = new Chart('Block time', { show: time, every: ' blocks', axis: 'block', bars: true });
  const gasUsed = new Chart('Gas used per block', { show: gas, every: ' blocks', axis: 'block', bars: true });
  const latency = new Chart('RPC latency', { show: time, names: ['p50', 'p99'], every: ' samples' });
  const shards = el('div');
  // Head, final and shards are those of one block.
  const moment = (height, final, chunks) => {
    put('Head', count(height));
    put('Final', count(final));
    const last = feed.blocks.slice(-MEAN).filter((b) => b.took != null);
    put('Block time', last.length ? time(last.reduce((s, b) => s + b.took, 0) / last.length) : '–', last.length > 1 ? `mean of ${last.length} blocks` : '');
    fill(shards, table('Shards', shardColumns, chunks.map((c) => shardCells(c, height))));
  };
  let newest = null;
  const drawn = async (b, final) => {
    newest = b;
    final ??= await finalOf(feed, b.final, life);
    if (newest === b) moment(b.height, final, b.chunks);
  };
  fill(main, el('h1', null, 'Overview'), figures.element, el('div', { class: 'charts' }, tps.element, blockTime.element, gasUsed.element, latency.element), latest(feed, life, 10),
    liveTable(feed, 12, life, 'Latest blocks', drawn), shards);
  const charted = new Set(); // heights
  const history = () => { // blocks from before the page, or from before it was gone to
    for (const b of feed.blocks.slice(-120)) if (!charted.has(b.height)) chart(b);
  };
  const chart = (b) => {
    charted.add(b.height);
    if (charted.size > 1000) charted.delete(charted.values().next().value);
    blockTime.addAt(b.height, b.took);
    gasUsed.addAt(b.height, b.used);
  };
  history();
  let news = 0;
  feed.listen((b) => {
    if (b === undefined) history();
    if (!b) return;
    chart(b);
    if (performance.now() - news > 15000) { // who listens is not told of each block
      news = performance.now();
      say('Head is block ' + b.height);
    }
  }, life);
  if (!newest) { // nothing may come for long
    call('block', { finality: 'optimistic' }, life.over.signal).then(async (b) => {
      const final = await finalOf(feed, b.header.last_final_block, life);
      if (!newest) moment(b.header.height, final, inOrder(b.chunks));
    }).catch(() => {});
  }
  // What was before the page is the node's own record, without the look that comes next. A world's is empty.
  get('console/api/history').then((h) => {
    for (const [i, [at, txs, ...buckets]] of h.samples.entries()) {
      const [was, had, ...counts] = h.samples[i - 1] ?? [];
      if (was === undefined || at <= was || life.over.signal.aborted) continue;
      tps.addAt(at, ((txs - had) * 1000) / (at - was));
      const n = buckets.map((x, k) => x - counts[k]);
      latency.addAt(at, quantile(n, h.bounds_ns, 0.5), quantile(n, h.bounds_ns, 0.99));
    }
  }, () => {});
  let before = null;
  life.repeat(async () => {
    const m = await metrics(names);
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

const inOrder = (chunks) => [...chunks].sort((a, b) => a.shard_id - b.shard_id);

const shardColumns = [['Shard', 'num'], ['Chunk', 'hash wide'], ['New at', 'num'], ['Gas used', 'keep'], ['Delayed gas', 'num wide'], ['Buffered gas', 'num wide'], ['Receipts', 'num wide']];

function shardCells(c, height) {
  const g = c.congestion_info ?? {};
  const here = fresh(c, height);
  return [c.shard_id, link('chunk', c.chunk_hash, short(c.chunk_hash)), here ? count(c.height_included) : el('span', { class: 'warn' }, count(c.height_included), ' missed'),
    here ? [el('meter', { min: 0, max: c.gas_limit, value: c.gas_used, 'aria-label': 'gas used' }), ' ', gas(c.gas_used)] : '–',
    gas(g.delayed_receipts_gas), gas(g.buffered_receipts_gas), bytes(g.receipt_bytes)];
}

/** blocksPage: the last blocks, live; all of them, or those with transactions. */
export function blocksPage(main, feed, life) {
  const busyOnly = el('input', { type: 'checkbox', name: 'busy' });
  const place = el('div');
  let own = null; // the table's life
  const ended = () => own?.ends.forEach((f) => f());
  const draw = () => {
    ended();
    own = { over: life.over, ends: [] };
    const few = busyOnly.checked;
    fill(place, liveTable(feed, few ? KEPT : 100, own, few ? `Blocks with transactions among the latest ${KEPT}` : 'Latest 100 blocks', () => {}, (b) => !few || b.txs !== 0));
  };
  life.ends.push(ended);
  busyOnly.addEventListener('change', draw);
  fill(main, el('h1', null, 'Blocks'), el('form', { class: 'row filter' }, el('label', { class: 'check' }, busyOnly, 'Only blocks with transactions')), place);
  draw();
}

const NEAREST = 8; // heights that are tried on each side of one

/** neighbour is the height of the nearest block above a height (step 1) or below it (step -1), of those that the page knows. Before these some heights are tried. null: none is found. */
async function neighbour(height, step, feed, signal) {
  const known = feed.blocks.map((b) => b.height);
  const beyond = known.filter((h) => (h - height) * step > 0);
  if (known.length && (step > 0 ? height >= known[0] : beyond.length)) return beyond.length ? (step > 0 ? beyond[0] : beyond.at(-1)) : null;
  for (let i = 1, h = height + step; i <= NEAREST && h >= 0 && h !== known[0]; i++, h += step) {
    if (await call('block', { block_id: h }, signal).catch(() => null)) return h;
  }
  return step > 0 && known[0] - height <= NEAREST ? known[0] : null;
}

/** neighbours leads to the blocks before and after a height. */
function neighbours(height, feed, life) {
  const place = el('p', { class: 'neighbours' });
  const near = (step) => neighbour(height, step, feed, life.over.signal);
  feed.load().then(() => Promise.all([near(-1), near(1)])).then(([before, after]) => fill(place,
    before !== null && el('a', { href: '#/block/' + before, 'aria-label': `Previous block, ${count(before)}` }, '‹ ', count(before)), after !== null && el('a', { href: '#/block/' + after, 'aria-label': `Next block, ${count(after)}` }, count(after), ' ›')), () => {});
  return place;
}

/** noBlock says why there is no block of a height or hash. */
async function noBlock(main, id, feed, life) {
  const height = /^\d+$/.test(id) ? Number(id) : null;
  const head = await call('status', null, life.over.signal).then((s) => s.sync_info.latest_block_height, () => null);
  fill(main, el('div', { class: 'title' }, el('h1', null, 'Block ', height === null ? el('code', null, cut(id, 100)) : count(height)), height === null ? null : neighbours(height, feed, life)),
    el('p', { class: 'bad panel' }, height === null ? 'This node has no block with this hash.' : head !== null && height > head ? `This chain has no block ${count(height)} yet: its head is ${count(head)}.` :
      'This node has no block at this height: it was skipped (a chain that is asked to fast-forward skips heights), or the node has removed it.'));
}

/** blockPage: one block with its transactions, its chunks, and what these brought. */
export async function blockPage(main, [id], life, feed) {
  const b = await call('block', { block_id: /^\d+$/.test(id) ? Number(id) : id }, life.over.signal).catch((e) => {
    if (e instanceof Refused && e.cause === 'UNKNOWN_BLOCK') return null;
    throw e;
  });
  if (!b) {
    await noBlock(main, id, feed, life);
    return;
  }
  const h = b.header;
  const all = inOrder(b.chunks);
  const transactions = el('div');
  const receipts = el('div');
  const sums = { txs: el('span', null, '…'), receipts: el('span', null, '…') };
  const present = all.filter((c) => fresh(c, h.height));
  const used = present.reduce((s, c) => s + c.gas_used, 0);
  const limit = present.reduce((s, c) => s + c.gas_limit, 0);
  const final = el('span', null, link('block', h.last_final_block));
  fill(main, el('div', { class: 'title' }, el('h1', null, 'Block ', count(h.height)), neighbours(h.height, feed, life)), list([
    ['Hash', copied(h.hash, 'hash')],
    ['Timestamp', at(h.timestamp_nanosec)],
    ['Author', party(b.author)],
    ['Transactions', sums.txs],
    ['Receipts', sums.receipts],
    ['Gas used', `${gas(used)} of ${gas(limit)}` + (limit ? ` (${(100 * used / limit).toFixed(2)} %)` : '')],
    ['Gas price', `${count(Number(h.gas_price))} yoctoNEAR per gas (${near(BigInt(h.gas_price) * 10n ** 12n)} per Tgas)`],
    ['Total supply', near(h.total_supply)],
    ['Approvals', count(h.approvals.filter(Boolean).length) + ' of ' + count(h.approvals.length)],
    ['Last final block', final],
    ['Epoch id', copied(h.epoch_id, 'epoch id')],
    ['Parent', h.prev_hash === NONE ? '–' : copied(h.prev_hash, 'hash', link('block', h.prev_hash))],
  ]), transactions, table('Shards', shardColumns, all.map((c) => shardCells(c, h.height))),
  el('p', { class: 'muted' }, 'A chunk states the gas that its shard used in the block before. ',
    present.length < all.length ? [el('span', { class: 'warn' }, 'missed'), ': the shard has no new chunk in this block, and keeps the one of that height.'] : null), receipts);
  if (h.last_final_block === NONE) fill(final, '–');
  else {
    call('block', { block_id: h.last_final_block }, life.over.signal).then((f) => fill(final, link('block', f.header.hash, count(f.header.height)), ` (${count(h.height - f.header.height)} heights before: `,
      'two blocks have to follow one to make it final)'), () => {});
  }
  const chunks = await Promise.all(present.map((c) => call('chunk', { chunk_id: c.chunk_hash }, life.over.signal).catch(() => null)));
  const here = chunks.filter(Boolean);
  const of = here.reduce((n, c) => n + c.transactions.length, 0);
  const known = here.length === present.length; // the node may have collected some
  text(sums.txs, known ? count(of) : '–');
  text(sums.receipts, known ? count(here.reduce((n, c) => n + c.receipts.length, 0)) : '–');
  fill(transactions, of ? await blockTransactions(h, of, life).catch(() => null) ?? here.map((c) => transactionsOf(c, `Transactions of shard ${c.header.shard_id}`)) : el('p', { class: 'muted' }, 'No transactions.'));
  const empty = here.filter((c) => !c.receipts.length).map((c) => c.header.shard_id);
  fill(receipts, here.filter((c) => c.receipts.length).map((c) => receiptsOf(c, `Receipts that the chunk of shard ${c.header.shard_id} brings`)),
    empty.length ? el('p', { class: 'muted' }, `No receipts in the ${empty.length === 1 ? 'chunk of shard' : 'chunks of shards'} ${empty.join(', ')}.`) : null);
}

/** chunkPage: one chunk. */
export async function chunkPage(main, [hash], life) {
  const c = await call('chunk', { chunk_id: hash }, life.over.signal);
  const h = c.header;
  fill(main, el('h1', null, 'Chunk of shard ', h.shard_id), list([
    ['Hash', copied(h.chunk_hash, 'hash')],
    ['Author', party(c.author)],
    ['Height', el('a', { href: '#/block/' + h.height_included }, count(h.height_included))],
    ['Gas used', `${gas(h.gas_used)} of ${gas(h.gas_limit)}, in the block before`],
    ['Previous state root', copied(h.prev_state_root, 'state root')],
  ]), c.transactions.length ? transactionsOf(c, 'Transactions') : null, c.receipts.length ? receiptsOf(c, 'Receipts that it brings') : null,
  c.transactions.length + c.receipts.length ? null : el('p', { class: 'muted' }, 'It has no transactions and brings no receipts.'));
}

const MOST = 500; // rows of a chunk's lists

const numbered = (title, all) => title + (all.length > MOST ? ` (the first ${MOST} of ${count(all.length)})` : ` (${count(all.length)})`);

const transactionsOf = (c, title) => table(numbered(title, c.transactions), [['Transaction', 'hash'], ['From'], ['To'], ['Actions']],
  c.transactions.slice(0, MOST).map((t) => [link('tx', [t.hash, t.signer_id], short(t.hash)), party(t.signer_id), party(t.receiver_id), actionNames(t.actions)]), 'none', { stack: true });

const receiptsOf = (c, title) => table(numbered(title, c.receipts), [['Receipt', 'hash'], ['From'], ['To'], ['Actions']],
  c.receipts.slice(0, MOST).map((r) => [link('receipt', r.receipt_id, short(r.receipt_id)), party(r.predecessor_id), party(r.receiver_id), actionNames(r.receipt.Action?.actions) || cut(Object.keys(r.receipt)[0], 40)]), 'none', { stack: true });
