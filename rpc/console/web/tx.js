// Transactions and receipts: who called whom, for how much gas, and what was logged.
import { SYSTEM, el, fill, link, list, party, say, table } from './dom.js';
import { bytes, count, cut, deep, fromBase64, gas, near, number, readable } from './format.js';
import { copied } from './copy.js';
import { parsed, transferTable, transfers } from './events.js';
import { flame } from './flame.js';
import { consoleOf } from './place.js';
import { Refused, call, callAt } from './rpc.js';
import { isSandbox } from './sandbox.js';
import { MOST, shardOf, timeline } from './timeline.js';
import { encode58 } from './unsigned.js';
import { at as timeOf } from './when.js';

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

/** hashOf shows a hash that a view has as base64 in the form of all others. */
function hashOf(base64) {
  const b = fromBase64(base64);
  return b.length === 32 ? copied(encode58(b), 'hash') : el('code', null, cut(base64, 100));
}

/** permission is what an access key may do, in a few words. */
export function permission(p) {
  if (typeof p === 'string') return p;
  const [kind, f] = Object.entries(p)[0];
  if (kind !== 'FunctionCall') return kind;
  return `call ${f.method_names.length ? cut(f.method_names.join(', '), 1000) : 'anything'} of ${f.receiver_id}, ${f.allowance == null ? 'any amount' : 'for ' + near(f.allowance)} of gas`;
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
  if (kind === 'DeployContract') return el('li', null, 'deploy code with the hash ', hashOf(body.code));
  if (kind === 'AddKey') return el('li', null, 'add key ', copied(body.public_key, 'key'), ': ', permission(body.access_key.permission));
  if (kind === 'DeleteKey') return el('li', null, 'delete key ', copied(body.public_key, 'key'));
  if (kind === 'Stake') return el('li', null, 'stake ', near(body.stake), ' with key ', copied(body.public_key, 'key'));
  if (kind === 'DeleteAccount') return el('li', null, 'delete the account, and send what it has to ', party(body.beneficiary_id));
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
  const f = s.Failure ?? s;
  return [el('p', { class: 'bad reason' }, '✕ failed: ', reason(f)), el('details', null, el('summary', { class: 'muted' }, 'As JSON'), el('pre', null, cut(JSON.stringify(f, null, 1), 4000)))];
}

const IMPLIED = new Set(['ActionError', 'FunctionCallError', 'ExecutionError', 'MethodResolveError', 'InvalidTxError', 'TxExecutionError']); // say nothing that what is in them does not

/** reason is a failure in a few words: the names of its error, and what that says. */
export function reason(failure) {
  const out = [];
  let x = failure;
  for (let i = 0; i < 8 && x !== null && typeof x === 'object'; i++) {
    const fields = Object.entries(x);
    if ('kind' in x && 'index' in x) {
      if (x.index > 0) out.push(`action ${count(x.index + 1)}`);
      x = x.kind;
    } else if (fields.length === 1 && /^[A-Z]/.test(fields[0][0])) {
      if (!IMPLIED.has(fields[0][0])) out.push(fields[0][0]);
      x = fields[0][1];
    } else {
      x = fields.map(([k, v]) => `${k} ${typeof v === 'string' ? v : JSON.stringify(v)}`).join(', ');
    }
  }
  if (typeof x === 'string' && x) out.push(x);
  return cut(out.join(': ') || JSON.stringify(failure), 1000);
}

const failed = (s) => s != null && typeof s === 'object' && 'Failure' in s;

/** outcomeTag is how something ended, in a word. */
function outcomeTag(s) {
  if (s == null || typeof s === 'string') return el('span', { class: 'tag' }, '… ' + (s ?? 'not yet'));
  return failed(s) ? el('span', { class: 'tag bad' }, '✕ failed') : el('span', { class: 'tag good' }, '✓ succeeded');
}

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

/** allLogs are the logs of all receipts, opened on request: events with their fields apart. */
function allLogs(outcomes) {
  const every = outcomes.flatMap((o) => o.outcome.logs.map((l) => [o, l]));
  if (!every.length) return null;
  const place = el('div');
  const show = ([o, l]) => {
    const e = parsed(l);
    return el('li', null, el('p', null, party(o.outcome.executor_id), e ? [' ', el('span', { class: 'tag call mono' }, cut(e.event, 64)), el('span', { class: 'muted' }, ' ', cut(e.standard ?? '', 32))] : null),
      el('pre', { class: 'logs' }, e && !deep(l) ? cut(JSON.stringify(e.data ?? e, null, 1), 4096) : cut(l, 4096)));
  };
  return el('details', { class: 'panel', id: 'logs', on: { toggle: (x) => x.target === x.currentTarget && !place.firstChild && fill(place, some(every, show, 'logs')) } }, el('summary', null, `Logs (${count(every.length)})`), place);
}

/** noTransaction says that there is no transaction of a hash, and what else to do. */
function noTransaction(main, hash) {
  fill(main, el('h1', null, 'Transaction'), list([['Hash', copied(hash, 'hash')]]), el('p', { class: 'bad panel' }, 'This node knows no transaction with this hash: it never came, was refused, or belongs to a block that the node has removed.'),
    el('p', null, el('a', { href: '#/search/' + encodeURIComponent(hash) }, 'Search for a block, chunk or receipt with this hash')));
}

/** txPage: a transaction with the tree of its receipts. */
export async function txPage(main, [hash, sender], life) {
  const r = await call('EXPERIMENTAL_tx_status', { tx_hash: hash, sender_account_id: sender ?? 'near', wait_until: 'NONE' }, life.over.signal).catch((e) => {
    if (e instanceof Refused && e.cause === 'UNKNOWN_TRANSACTION') return null;
    throw e;
  });
  if (!r) {
    noTransaction(main, hash);
    return;
  }
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
    const local = !x && isLocal(r, id); // the protocol stores no receipt of it
    return branch(id, local ? t.actions : x?.receipt.Action?.actions, local ? t.signer_id : x?.predecessor_id, o);
  };
  const branch = (id, actions, from, o) => {
    const out = o.outcome;
    const bar = el('span', { class: 'bar', 'aria-hidden': 'true' });
    bar.style.width = (10 * out.gas_burnt) / most + 'em';
    return el('li', null, el('details', { open: from !== SYSTEM },
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
  const attached = t.actions.reduce((n, a) => n + (a.FunctionCall?.gas ?? 0), 0);
  const deposit = t.actions.reduce((n, a) => n + BigInt((a.FunctionCall ?? a.Transfer)?.deposit ?? 0), 0n);
  const moved = transfers(all.flatMap((o) => o.outcome.logs.map((l) => [o.outcome.executor_id, l])));
  const fold = el('button', { type: 'button', class: 'small', on: { click: () => {
    const open = fold.textContent === EXPAND;
    for (const d of tree.querySelectorAll('details:has(> summary > strong)')) d.open = open;
    fold.textContent = open ? COLLAPSE : EXPAND;
  } } }, EXPAND);
  fill(main, el('div', { class: 'title' }, el('h1', null, 'Transaction'), outcomeTag(r.status)), list([
    ['Hash', copied(t.hash, 'hash')],
    ['Result', status(r.status)],
    ['Execution status', [r.final_execution_status, PHASES[r.final_execution_status] ? el('span', { class: 'muted' }, ': ', PHASES[r.final_execution_status]) : null]],
    ['In block', inBlock],
    ['Timestamp', made],
    ['From', copied(t.signer_id, 'account', party(t.signer_id))],
    ['To', copied(t.receiver_id, 'account', party(t.receiver_id))],
    ['Actions', some(t.actions, action, 'actions')],
    deposit > 0n && ['Deposit', near(deposit)],
    ['Gas burnt', gas(burnt) + (attached ? ` (${gas(attached)} attached)` : '')],
    ['Fee', near(tokens)],
    ['Nonce', count(t.nonce)],
    ['Public key', copied(t.public_key, 'key')],
  ]), moved.length ? transferTable(moved, life.over.signal) : null, el('h2', null, 'Timeline'), drawing, allLogs(all), inside(trace), again(hash, t),
  el('div', { class: 'title below' }, el('h2', { id: 'receipts' }, 'Receipts'), fold), el('div', { class: 'panel' }, tree));

  const blocks = await blocksOf([at, ...r.receipts_outcome.map((o) => o.block_hash)], life.over.signal);
  const first = blocks.get(at);
  if (first) {
    fill(inBlock, link('block', at, count(first.height)), ' ', el('span', { class: 'muted' }, copied(at, 'block hash')));
    fill(made, timeOf(first.time));
  } else fill(made, '–'); // its body is collected
  for (const [block, elements] of places) if (blocks.has(block)) for (const e of elements) fill(e, link('block', block, count(blocks.get(block).height)));
  const layout = await call('EXPERIMENTAL_protocol_config', { block_id: at }, life.over.signal).then((c) => c.shard_layout, () => null);
  fill(drawing, timeline(steps(r, receipts, blocks, layout), new Map([...blocks.values()].map((b) => [b.height, BigInt(b.time)])), drawing.clientWidth - 34));
}

const [EXPAND, COLLAPSE] = ['Expand all', 'Collapse all'];

// What is true of a transaction, by its execution status.
const PHASES = { INCLUDED: 'its block may still be reverted', INCLUDED_FINAL: 'its block is final, and receipts run', EXECUTED_OPTIMISTIC: 'all receipts ran, and their blocks may still be reverted', EXECUTED: 'all receipts ran, and the blocks of some are not final', FINAL: 'all receipts ran, and all blocks are final' };

/** isLocal returns whether a receipt is that of a transaction which an account sends to itself: it runs at once, and there is no record of it but its outcome. */
const isLocal = (r, id) => r.transaction.signer_id === r.transaction.receiver_id && r.transaction_outcome.outcome.receipt_ids.includes(id);

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
      const n = node(id, o, [parent], o?.outcome.executor_id ?? x?.receiver_id ?? '?', refund ? 'refund' : actionNames(!x && isLocal(r, id) ? t.actions : x?.receipt.Action?.actions) || Object.keys(x?.receipt ?? { receipt: 0 })[0], kind, '#/receipt/' + encodeURIComponent(id));
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
  const value = (b64) => [show(b64, 300), b64 && number(fromBase64(b64)) ? el('div', { class: 'muted' }, number(fromBase64(b64))) : null];
  return el('section', null, el('h3', null, el('span', { class: 'mono' }, c.account_id, '.', cut(c.method_name, 64), '()'), ' ', link('receipt', o.id, 'receipt')), list([
    ['Gas', `${gas(c.gas_burnt)} burnt of ${gas(c.gas_prepaid)}, ${gas(c.gas_wasm)} by instructions`],
    c.error && ['Error', el('pre', null, cut(JSON.stringify(c.error, null, 1), 2000))],
    c.missing_imports?.length && ['Missing imports', c.missing_imports.map(importName).join(', ')],
  ]), table('Host functions' + (c.host_calls_omitted ? ` (${count(c.host_calls_omitted)} calls more are not counted)` : ''), [['Function', 'mono'], ['Calls', 'num'], ['Gas', 'num']],
    [...by].sort((a, b) => b[1].gas - a[1].gas).map(([name, x]) => [name, count(x.n), gas(x.gas)])),
  entries.length ? table(`Storage, in order${entries.length > HOST ? ` (the first ${HOST} of ${count(entries.length)})` : ''}`, [['Function', 'mono keep'], ['Key', 'mono entry'], ['Value', 'mono'], ['Size', 'num'], ['Gas', 'num']],
    entries.slice(0, HOST).map((h) => [h.name, show(h.entry.key, 200), value(h.entry.value), bytes(h.entry.value_length), gas(h.gas)])) : null);
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

/** receiptPage: a receipt, what became of it, and the transaction that it comes from. */
export async function receiptPage(main, [id], life) {
  const r = await call('EXPERIMENTAL_receipt', { receipt_id: id }, life.over.signal).catch((e) => {
    if (e instanceof Refused && e.cause === 'UNKNOWN_RECEIPT') return null;
    throw e;
  });
  const a = r?.receipt.Action;
  const origin = el('span', null, 'asking …');
  const tag = el('span', { class: 'tag' }, '…');
  const ran = el('div', { class: 'facts' });
  fill(main, el('div', { class: 'title' }, el('h1', null, 'Receipt'), tag), list([['Id', copied(id, 'receipt id')], r && ['From', party(r.predecessor_id)], r && ['To', party(r.receiver_id)], a && ['Signed by', party(a.signer_id)],
    ['Transaction', origin]]), ran,
  a ? [el('h2', null, 'Actions'), el('div', { class: 'panel' }, some(a.actions, action, 'actions'),
    a.input_data_ids.length ? el('p', null, 'waits for data ', el('code', null, cut(a.input_data_ids.join(', '), 2000))) : null)] : r ? el('pre', null, cut(JSON.stringify(r.receipt, null, 1), 4000)) : null);
  try {
    const t = await call('EXPERIMENTAL_receipt_to_tx', { receipt_id: id }, life.over.signal);
    fill(origin, copied(t.transaction_hash, 'hash', link('tx', [t.transaction_hash, t.sender_account_id])));
    const all = await call('EXPERIMENTAL_tx_status', { tx_hash: t.transaction_hash, sender_account_id: t.sender_account_id, wait_until: 'NONE' }, life.over.signal);
    const o = all.receipts_outcome.find((x) => x.id === id);
    tag.replaceWith(outcomeTag(o?.outcome.status ?? null));
    if (!o) return;
    const block = el('span', null, link('block', o.block_hash));
    fill(ran, list([['Result', status(o.outcome.status)], ['In block', block], ['Gas burnt', gas(o.outcome.gas_burnt)], ['Fee', near(o.outcome.tokens_burnt)],
      o.outcome.receipt_ids.length && ['Receipts of it', some(o.outcome.receipt_ids, (x) => el('li', null, link('receipt', x)), 'receipts')]]), logs(o.outcome.logs));
    const b = (await blocksOf([o.block_hash], life.over.signal)).get(o.block_hash);
    if (b) fill(block, link('block', o.block_hash, count(b.height)), ' ', el('span', { class: 'muted' }, timeOf(b.time)));
  } catch (e) {
    if (life.over.signal.aborted) return;
    tag.remove();
    if (!r) throw e;
    fill(origin, e.message);
  }
}
