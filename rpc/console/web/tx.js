// Transactions and receipts: who called whom, for how much gas, and what was logged.
import { el, fill, link, list } from './dom.js';
import { clock, count, fromBase64, gas, near, readable } from './format.js';
import { call } from './rpc.js';

/** actionNames are the kinds of actions in a few words. */
export function actionNames(actions) {
  return (actions ?? []).map((a) => {
    if (typeof a === 'string') return a;
    const [kind, body] = Object.entries(a)[0];
    return kind === 'FunctionCall' ? `${body.method_name}()` : kind === 'Transfer' ? 'Transfer ' + near(body.deposit) : kind;
  }).join(', ');
}

/** action shows one with all that it has. */
function action(a) {
  if (typeof a === 'string') return el('li', null, a);
  const [kind, body] = Object.entries(a)[0];
  if (kind === 'FunctionCall') {
    return el('li', null, 'call ', el('strong', { class: 'mono' }, body.method_name), ' with ', gas(body.gas), body.deposit !== '0' ? [' and ', near(body.deposit)] : null,
      body.args ? el('pre', null, readable(fromBase64(body.args))) : null);
  }
  if (kind === 'Transfer') return el('li', null, 'transfer ', near(body.deposit));
  if (kind === 'UniversalStateInit') {
    const s = stateInit(fromBase64(body.state_init));
    return el('li', null, 'initial state of a universal account: ', s ? `${count(s.keys)} keys, ${count(s.entries)} entries of storage, ${s.code ? 'with' : 'no'} code` : 'malformed',
      body.deposit !== '0' ? [' with ', near(body.deposit)] : null);
  }
  const short = JSON.stringify(body, (k, v) => (typeof v === 'string' && v.length > 400 ? v.slice(0, 400) + `… (${count(v.length)} characters)` : v), 1);
  return el('li', null, kind, Object.keys(body ?? {}).length ? el('pre', null, short) : null);
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
    return s.SuccessValue ? [el('span', { class: 'good' }, 'succeeded with '), el('pre', null, readable(fromBase64(s.SuccessValue)))] : el('span', { class: 'good' }, 'succeeded');
  }
  if ('SuccessReceiptId' in s) return [el('span', { class: 'good' }, 'went on as '), link('receipt', s.SuccessReceiptId)];
  return [el('span', { class: 'bad' }, 'failed: '), el('pre', null, JSON.stringify(s.Failure ?? s, null, 1))];
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
  const trace = () => traced ??= call('EXPERIMENTAL_trace_tx', [hash, sender ?? 'near'], life.over.signal);

  const node = (id) => {
    const o = outcomes.get(id);
    const x = receipts.get(id);
    if (seen.has(id)) return el('li', null, link('receipt', id), ' (above)');
    seen.add(id);
    if (!o) return el('li', null, link('receipt', id), x ? [' to ', link('account', x.receiver_id)] : null, el('span', { class: 'muted' }, ' has not run'));
    return branch(id, x?.receipt.Action?.actions, x?.predecessor_id, o);
  };
  const branch = (id, actions, from, o) => {
    const out = o.outcome;
    const bar = el('span', { class: 'bar', 'aria-hidden': 'true' });
    bar.style.width = (10 * out.gas_burnt) / most + 'em';
    return el('li', null, el('details', { open: true },
      el('summary', null, el('strong', null, out.executor_id), ' ', actionNames(actions), bar, gas(out.gas_burnt), ' ', failed(out.status) ? el('span', { class: 'bad' }, 'failed') : el('span', { class: 'good' }, 'ok')),
      list([
        ['Receipt', link('receipt', id)],
        from && ['From', link('account', from)],
        ['In block', link('block', o.block_hash)],
        ['Burnt', near(out.tokens_burnt)],
        ['Result', status(out.status)],
        unlinked(out.status) && ['Missing imports', missingImports(trace, id)],
      ]),
      actions?.length ? el('ul', null, actions.map(action)) : null,
      out.logs.length ? [el('p', { class: 'muted' }, count(out.logs.length), ' logs'), el('pre', { class: 'logs' }, out.logs.join('\n'))] : null,
      profile(out.metadata?.gas_profile),
      out.receipt_ids.length ? el('ul', null, out.receipt_ids.map(node)) : null));
  };

  const at = r.transaction_outcome.block_hash;
  const inBlock = el('span', null, link('block', at));
  const made = el('span', null, '…');
  call('block', { block_id: at }, life.over.signal).then((b) => {
    fill(inBlock, link('block', at, count(b.header.height)), ' ', el('code', { class: 'muted' }, at));
    fill(made, clock(b.header.timestamp_nanosec));
  }, () => fill(made, '–')); // its body is collected
  fill(main, el('h1', null, 'Transaction'), list([
    ['Hash', el('code', null, t.hash)],
    ['From', link('account', t.signer_id)],
    ['To', link('account', t.receiver_id)],
    ['Actions', el('ul', null, t.actions.map(action))],
    ['State', r.final_execution_status],
    ['Result', status(r.status)],
    ['Gas burnt', gas(burnt)],
    ['Paid', near(tokens)],
    ['In block', inBlock],
    ['Made at', made],
    ['Nonce', count(t.nonce)],
    ['Key', el('code', null, t.public_key)],
  ]), el('h2', { id: 'receipts' }, 'Receipts'),
  el('ul', { class: 'tree', 'aria-labelledby': 'receipts' },
    el('li', null, el('p', null, el('strong', null, t.signer_id), ' turned it into receipts for ', gas(r.transaction_outcome.outcome.gas_burnt)),
      el('ul', null, r.transaction_outcome.outcome.receipt_ids.map(node)))));
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
    [['Id', el('code', null, r.receipt_id)], ['From', link('account', r.predecessor_id)], ['To', link('account', r.receiver_id)], a && ['Signed by', link('account', a.signer_id)]]
      .filter(Boolean).map(([k, v]) => [el('dt', null, k), el('dd', null, v)]), el('dt', null, 'Transaction'), origin),
  a ? [el('h2', null, 'Actions'), el('ul', null, a.actions.map(action)),
    a.input_data_ids.length ? el('p', null, 'waits for data ', el('code', null, a.input_data_ids.join(', '))) : null] : el('pre', null, JSON.stringify(r.receipt, null, 1)));
  try {
    const t = await call('EXPERIMENTAL_receipt_to_tx', { receipt_id: id }, life.over.signal);
    fill(origin, link('tx', [t.transaction_hash, t.sender_account_id]));
  } catch (e) {
    fill(origin, e.message);
  }
}
