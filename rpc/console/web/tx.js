// Transactions and receipts: who called whom, for how much gas, and what was logged.
import { SYSTEM, el, fill, link, list, party, say, table } from './dom.js';
import { ago, bytes, clock, count, cut, fromBase64, gas, near, readable } from './format.js';
import { copied } from './copy.js';
import { flame } from './flame.js';
import { consoleOf } from './place.js';
import { call, callAt } from './rpc.js';
import { isSandbox } from './sandbox.js';
import { MOST, shardOf, timeline } from './timeline.js';

const NAMED = 4; // actions that a line names

/** actionNames are the kinds of actions in a few words. */
export function actionNames(actions) {
  const all = actions ?? [];
  const names = all.slice(0, NAMED).map((a) => {
    if (typeof a === 'string') return a;
    const [kind, body] = Object.entries(a)[0];
    return kind === 'FunctionCall' ? `${cut(body.method_name, 64)}()` : kind === 'Transfer' ? 'Transfer ' + near(body.deposit) : kind;
  });
  return names.join(', ') + (all.length > NAMED ? ` and ${count(all.length - NAMED)} more` : '');
}

const SHOWN = 30; // actions, logs and receipts below one that are shown at once

/** some shows the first items of a list, and the others on request. */
function some(items, show, what) {
  const ul = el('ul', null, items.slice(0, SHOWN).map(show));
  if (items.length <= SHOWN) return ul;
  const more = el('button', { type: 'button', on: { click: () => {
    more.remove();
    ul.append(...items.slice(SHOWN).map(show));
  } } }, `${count(items.length - SHOWN)} more ${what}`);
  return [ul, more];
}

/** action shows one with all that it has. */
function action(a) {
  if (typeof a === 'string') return el('li', null, a);
  const [kind, body] = Object.entries(a)[0];
  if (kind === 'FunctionCall') {
    return el('li', null, 'call ', el('strong', { class: 'mono' }, cut(body.method_name, 256)), ' with ', gas(body.gas), body.deposit !== '0' ? [' and ', near(body.deposit)] : null,
      body.args ? el('pre', null, readable(fromBase64(body.args))) : null);
  }
  if (kind === 'Transfer') return el('li', null, 'transfer ', near(body.deposit));
  if (kind === 'UniversalStateInit') {
    const s = stateInit(fromBase64(body.state_init));
    return el('li', null, 'initial state of a universal account: ', s ? `${count(s.keys)} keys, ${count(s.entries)} entries of storage, ${s.code ? 'with' : 'no'} code` : 'malformed',
      body.deposit !== '0' ? [' with ', near(body.deposit)] : null);
  }
  const short = JSON.stringify(body, (k, v) => (typeof v === 'string' ? cut(v, 400) : v), 1);
  return el('li', null, kind, Object.keys(body ?? {}).length ? el('pre', null, cut(short, 4000)) : null);
}

/** stateInit reads what a universal state init (V1) holds; null: the bytes are none. */
export function stateInit(b) {
  let at = 0;
  const take = (n) => {
    if (at + n > b.length) throw new RangeError('short');
    at += n;
    return b[at - n];
  };
  const u32 = () => (take(4), new DataView(b.buffer, b.byteOffset + at - 4, 4).getUint32(0, true));
  const tag = (...known) => {
    const t = take(1);
    if (!known.includes(t)) throw new RangeError('tag');
    return t;
  };
  try {
    tag(0);
    const code = tag(0, 1) === 1;
    if (code) take(tag(0, 1) === 0 ? 32 : u32());
    const entries = u32();
    for (let i = 0; i < 2 * entries; i++) take(u32());
    const keys = u32();
    for (let i = 0; i < keys; i++) take(tag(0, 1, 3) === 1 ? 64 : 32);
    return at === b.length ? { code, entries, keys } : null;
  } catch (e) {
    if (e instanceof RangeError) return null;
    throw e;
  }
}

/** status shows how something ended. */
export function status(s) {
  if (s == null || typeof s === 'string') return el('span', { class: 'muted' }, s ?? 'not yet');
  if ('SuccessValue' in s) {
    return s.SuccessValue ? [el('span', { class: 'good' }, '✓ succeeded with '), el('pre', null, readable(fromBase64(s.SuccessValue)))] : el('span', { class: 'good' }, '✓ succeeded');
  }
  if ('SuccessReceiptId' in s) return [el('span', { class: 'good' }, '✓ continues in receipt '), link('receipt', s.SuccessReceiptId)];
  return [el('span', { class: 'bad' }, '✕ failed: '), el('pre', null, cut(JSON.stringify(s.Failure ?? s, null, 1), 4000))];
}

const failed = (s) => s != null && typeof s === 'object' && 'Failure' in s;

/** unlinked returns whether a contract imports what the protocol version does not have. The outcome does not say what. */
const unlinked = (s) => failed(s) && JSON.stringify(s.Failure).includes('"Link Error: ');

/** importName shows a missing import. */
const importName = (m) => `${m.module}.${m.name} (${m.types ?? (m.since_protocol_version == null ? 'no known protocol version has it' : `since protocol version ${m.since_protocol_version}`)})`;

/** missingImports fills a place with the imports that a receipt's contract lacks, from a trace of the transaction. */
function missingImports(trace, id) {
  const place = el('span', { class: 'muted' }, 'asking …');
  trace().then((r) => {
    const calls = r.outcomes.find((o) => o.id === id)?.calls ?? [];
    const names = calls.flatMap((c) => c.missing_imports ?? []).map(importName);
    fill(place, names.length ? names.join(', ') : '–');
  }, (e) => fill(place, e.message));
  return place;
}

/** logs shows each log by itself: one with a new line in it is not to look like two. */
const logs = (all) => (all.length ? [el('p', { class: 'muted' }, all.length === 1 ? '1 log' : count(all.length) + ' logs'), some(all, (l) => el('li', null, el('pre', { class: 'logs' }, cut(l, 4096))), 'logs')] : null);

/** txPage: a transaction with the tree of its receipts. */
export async function txPage(main, [hash, sender], life) {
  const r = await call('EXPERIMENTAL_tx_status', { tx_hash: hash, sender_account_id: sender ?? 'near', wait_until: 'NONE' }, life.over.signal);
  const t = r.transaction;
  if (!t) {
    fill(main, el('h1', null, 'Transaction'), el('p', null, el('code', null, hash), ' has come, and is in no block yet.'));
    return;
  }
  const outcomes = new Map(r.receipts_outcome.map((o) => [o.id, o]));
  const receipts = new Map((r.receipts ?? []).map((x) => [x.receipt_id, x]));
  const all = [r.transaction_outcome, ...r.receipts_outcome];
  const burnt = all.reduce((s, o) => s + o.outcome.gas_burnt, 0);
  const tokens = all.reduce((s, o) => s + BigInt(o.outcome.tokens_burnt), 0n);
  const most = Math.max(1, ...all.map((o) => o.outcome.gas_burnt));
  const seen = new Set();
  let traced; // one trace for all receipts
  const trace = () => traced ??= call('EXPERIMENTAL_trace_tx', { tx_hash: hash, sender_account_id: sender ?? 'near', profile: true }, life.over.signal);

  const node = (id) => {
    const o = outcomes.get(id);
    const x = receipts.get(id);
    if (seen.has(id)) return el('li', null, link('receipt', id), ' (above)');
    seen.add(id);
    if (!o) return el('li', null, link('receipt', id), x ? [' to ', party(x.receiver_id)] : null, el('span', { class: 'muted' }, ' has not run'));
    return branch(id, x?.receipt.Action?.actions, x?.predecessor_id, o);
  };
  const branch = (id, actions, from, o) => {
    const out = o.outcome;
    const bar = el('span', { class: 'bar', 'aria-hidden': 'true' });
    bar.style.width = (10 * out.gas_burnt) / most + 'em';
    return el('li', null, el('details', { open: true },
      el('summary', null, el('strong', null, out.executor_id), ' ', actionNames(actions), bar, gas(out.gas_burnt), ' ', failed(out.status) ? el('span', { class: 'bad' }, '✕ failed') :
        from === SYSTEM ? el('span', { class: 'muted' }, '↩ refund') : el('span', { class: 'good' }, '✓ ok')),
      list([
        ['Receipt', copied(id, 'receipt id', link('receipt', id))],
        from && ['From', party(from)],
        ['In block', place(o.block_hash)],
        ['Fee', near(out.tokens_burnt)],
        ['Result', status(out.status)],
        unlinked(out.status) && ['Missing imports', missingImports(trace, id)],
      ]),
      actions?.length ? some(actions, action, 'actions') : null,
      logs(out.logs),
      profile(out.metadata?.gas_profile),
      out.receipt_ids.length ? some(out.receipt_ids, node, 'receipts') : null));
  };

  const at = r.transaction_outcome.block_hash;
  const places = new Map(); // elements by block, until its height is known
  const place = (block) => {
    const e = el('span', null, link('block', block));
    if (!places.has(block)) places.set(block, []);
    places.get(block).push(e);
    return e;
  };
  const made = el('span', null, '…');
  const inBlock = el('span', null, link('block', at));
  const drawing = el('div', { id: 'timeline' }, el('p', { class: 'muted' }, 'reading the blocks …'));
  const tree = el('ul', { class: 'tree', 'aria-labelledby': 'receipts' },
    el('li', null, el('p', null, el('strong', null, t.signer_id), ' signed it; its conversion to receipts burnt ', gas(r.transaction_outcome.outcome.gas_burnt)),
      el('ul', null, r.transaction_outcome.outcome.receipt_ids.map(node))));
  fill(main, el('h1', null, 'Transaction'), list([
    ['Hash', copied(t.hash, 'hash')],
    ['From', copied(t.signer_id, 'account', party(t.signer_id))],
    ['To', copied(t.receiver_id, 'account', party(t.receiver_id))],
    ['Actions', some(t.actions, action, 'actions')],
    ['Execution status', r.final_execution_status],
    ['Result', status(r.status)],
    ['Gas burnt', gas(burnt)],
    ['Fee', near(tokens)],
    ['In block', inBlock],
    ['Timestamp', made],
    ['Nonce', count(t.nonce)],
    ['Public key', copied(t.public_key, 'key')],
  ]), el('h2', null, 'Timeline'), drawing, inside(trace), again(hash, t), el('h2', { id: 'receipts' }, 'Receipts'), el('div', { class: 'panel' }, tree));

  const blocks = await blocksOf([at, ...r.receipts_outcome.map((o) => o.block_hash)], life.over.signal);
  const first = blocks.get(at);
  if (first) {
    fill(inBlock, link('block', at, count(first.height)), ' ', el('span', { class: 'muted' }, copied(at, 'block hash')));
    fill(made, clock(first.time), ` (${ago(first.time)})`);
  } else fill(made, '–'); // its body is collected
  for (const [block, elements] of places) if (blocks.has(block)) for (const e of elements) fill(e, link('block', block, count(blocks.get(block).height)));
  const layout = await call('EXPERIMENTAL_protocol_config', { block_id: at }, life.over.signal).then((c) => c.shard_layout, () => null);
  fill(drawing, timeline(steps(r, receipts, blocks, layout), new Map([...blocks.values()].map((b) => [b.height, BigInt(b.time)])), drawing.clientWidth - 34));
}

const BLOCKS = 60; // that are asked for their heights

/** blocksOf are height and time of blocks by hash. Those that the node does not have any more are left out. */
async function blocksOf(hashes, signal) {
  const out = new Map();
  await Promise.all([...new Set(hashes)].slice(0, BLOCKS).map(async (hash) => {
    const b = await call('block', { block_id: hash }, signal).catch(() => null);
    if (b) out.set(hash, { height: b.header.height, time: b.header.timestamp_nanosec });
  }));
  return out;
}

/** steps are the transaction and its receipts as the timeline takes them, in the order of the tree. */
export function steps(r, receipts, blocks, layout) {
  const outcomes = new Map(r.receipts_outcome.map((o) => [o.id, o]));
  const t = r.transaction;
  const node = (id, o, parents, title, sub, kind, href) => ({ id, parents, title, sub, kind, href, gas: o?.outcome.gas_burnt ?? 0,
    height: o ? blocks.get(o.block_hash)?.height ?? null : null, shard: shardOf(title, layout) });
  const out = [node(t.hash, r.transaction_outcome, [], t.signer_id, 'signs', failed(r.transaction_outcome.outcome.status) ? 'failed' : 'ok', `#/tx/${encodeURIComponent(t.hash)}/${encodeURIComponent(t.signer_id)}`)];
  const known = new Map([[t.hash, out[0]]]);
  const queue = [[t.hash, r.transaction_outcome]];
  for (let i = 0; i < queue.length && out.length <= 4 * MOST; i++) {
    const [parent, of] = queue[i];
    for (const id of of?.outcome.receipt_ids ?? []) {
      if (known.has(id)) {
        known.get(id).parents.push(parent);
        continue;
      }
      const o = outcomes.get(id);
      const x = receipts.get(id);
      const refund = x?.predecessor_id === SYSTEM;
      const kind = !o ? 'pending' : failed(o.outcome.status) ? 'failed' : refund ? 'refund' : 'ok';
      const n = node(id, o, [parent], o?.outcome.executor_id ?? x?.receiver_id ?? '?', refund ? 'refund' : actionNames(x?.receipt.Action?.actions) || Object.keys(x?.receipt ?? { receipt: 0 })[0], kind, '#/receipt/' + encodeURIComponent(id));
      known.set(id, n);
      out.push(n);
      queue.push([id, o]);
    }
  }
  return out;
}

const HOST = 200; // rows of a trace's tables

/** inside is what contracts did, opened on request: calls with host functions and entries of storage, and the gas by function. */
function inside(trace) {
  const part = (title, id, show) => {
    const place = el('div', null, el('p', { class: 'muted', role: 'status' }, 'the node runs it again …'));
    let asked = false;
    return el('details', { class: 'panel', id, on: { toggle: (e) => {
      if (!e.target.open || e.target !== e.currentTarget || asked) return;
      asked = true;
      trace().then((t) => fill(place, show(t)), (x) => fill(place, el('p', { class: 'bad' }, 'The node has no trace: ', x.message)));
    } } }, el('summary', null, title), place);
  };
  return el('div', null, part('Trace: calls, host functions and storage', 'trace', (t) => {
    const calls = t.outcomes.flatMap((o) => o.calls.map((c) => [o, c]));
    return calls.length ? calls.slice(0, 50).map(([o, c]) => traceCall(o, c)) : el('p', { class: 'muted' }, 'No contract ran.');
  }), part('Flame graph: gas by function', 'flame', (t) => flame(t.profile)));
}

function traceCall(o, c) {
  const by = new Map();
  for (const h of c.host_calls) {
    const x = by.get(h.name) ?? { n: 0, gas: 0 };
    x.n++;
    x.gas += h.gas;
    by.set(h.name, x);
  }
  const entries = c.host_calls.filter((h) => h.entry);
  const show = (b64, most) => (b64 ? readable(fromBase64(b64), most) : '');
  return el('section', null, el('h3', null, el('span', { class: 'mono' }, c.account_id, '.', cut(c.method_name, 64), '()'), ' ', link('receipt', o.id, 'receipt')), list([
    ['Gas', `${gas(c.gas_burnt)} burnt of ${gas(c.gas_prepaid)}, ${gas(c.gas_wasm)} by instructions`],
    c.error && ['Error', el('pre', null, cut(JSON.stringify(c.error, null, 1), 2000))],
    c.missing_imports?.length && ['Missing imports', c.missing_imports.map(importName).join(', ')],
  ]), table('Host functions' + (c.host_calls_omitted ? ` (${count(c.host_calls_omitted)} calls more are not counted)` : ''), [['Function', 'mono'], ['Calls', 'num'], ['Gas', 'num']],
    [...by].sort((a, b) => b[1].gas - a[1].gas).map(([name, x]) => [name, count(x.n), gas(x.gas)])),
  entries.length ? table(`Storage, in order${entries.length > HOST ? ` (the first ${HOST} of ${count(entries.length)})` : ''}`, [['Function', 'mono keep'], ['Key', 'mono entry'], ['Value', 'mono'], ['Size', 'num'], ['Gas', 'num']],
    entries.slice(0, HOST).map((h) => [h.name, show(h.entry.key, 200), show(h.entry.value, 300), bytes(h.entry.value_length), gas(h.gas)])) : null);
}

/** again runs a transaction in a world of its own, from the state that it had: what it does there changes nothing here. */
function again(hash, t) {
  const out = el('div', { role: 'status', id: 'again' });
  const button = el('button', { type: 'button' }, 'Run again in a world');
  button.addEventListener('click', async () => {
    button.disabled = true;
    try {
      fill(out, 'reading what it used …');
      const dump = await call('sandbox_dump_transaction', { tx_hash: hash });
      fill(out, 'making a world …');
      const world = await call('sandbox_new_world', { quiet: true });
      const here = consoleOf(world.id);
      const done = await callAt(new URL('../', here), 'sandbox_replay_transaction', { ...dump, replace: true });
      const a = el('a', null, 'its console');
      here.hash = `#/tx/${encodeURIComponent(done.tx_hash)}/${encodeURIComponent(t.signer_id)}`;
      a.href = here.href;
      fill(out, done.same ? el('span', { class: 'good' }, '✓ It did the same in world ') : [el('span', { class: 'warn' }, '⚠ It did something else: '), cut(String(done.differs ?? ''), 400), ', in world '], world.id, ': ', a);
      say(done.same ? 'It did the same' : 'It did something else');
    } catch (e) {
      fill(out, el('span', { class: 'bad' }, 'It was not run: ', e.message));
    }
    button.disabled = false;
  });
  const section = el('div', { hidden: true }, button, ' ', out);
  isSandbox().then((is) => { section.hidden = !is; }, () => {});
  return section;
}

/** profile is what a receipt burnt gas for, most first. */
function profile(p) {
  if (!p?.length) return null;
  const rows = p.map((x) => [x.cost, Number(x.gas_used)]).sort((a, b) => b[1] - a[1]).slice(0, 12);
  return el('details', null, el('summary', { class: 'muted' }, 'Gas by cost'), list(rows.map(([k, v]) => [k, gas(v)])));
}

/** receiptPage: a receipt, and the transaction that it comes from. */
export async function receiptPage(main, [id], life) {
  const r = await call('EXPERIMENTAL_receipt', { receipt_id: id }, life.over.signal);
  const a = r.receipt.Action;
  const origin = el('dd', null, 'asking …');
  fill(main, el('h1', null, 'Receipt'), el('dl', null,
    [['Id', copied(r.receipt_id, 'receipt id')], ['From', party(r.predecessor_id)], ['To', party(r.receiver_id)], a && ['Signed by', party(a.signer_id)]]
      .filter(Boolean).map(([k, v]) => [el('dt', null, k), el('dd', null, v)]), el('dt', null, 'Transaction'), origin),
  a ? [el('h2', null, 'Actions'), some(a.actions, action, 'actions'),
    a.input_data_ids.length ? el('p', null, 'waits for data ', el('code', null, cut(a.input_data_ids.join(', '), 2000))) : null] : el('pre', null, cut(JSON.stringify(r.receipt, null, 1), 4000)));
  try {
    const t = await call('EXPERIMENTAL_receipt_to_tx', { receipt_id: id }, life.over.signal);
    fill(origin, copied(t.transaction_hash, 'hash', link('tx', [t.transaction_hash, t.sender_account_id])));
  } catch (e) {
    fill(origin, e.message);
  }
}
