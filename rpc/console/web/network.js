// Peers and validators; mempools and congestion.
import { cards, el, fill, link, table } from './dom.js';
import { bytes, count, gas, near } from './format.js';
import { Chart } from './charts.js';
import { call, metrics, sum } from './rpc.js';

const perSecond = (n) => bytes(n) + '/s';

/** networkPage: the peers. */
export function networkPage(main, args, life) {
  const figures = cards(['Peers', 'Received', 'Sent', 'Known producers']);
  const received = new Chart('Received per second', { show: perSecond, every: ' samples', whole: true });
  const sent = new Chart('Sent per second', { show: perSecond, every: ' samples', whole: true });
  const out = el('div');
  fill(main, el('h1', null, 'Network'), figures.element, el('div', { class: 'charts' }, received.element, sent.element), out);
  life.repeat(async () => {
    const n = await call('network_info', []);
    figures.set('Peers', count(n.num_active_peers), 'at most ' + count(n.peer_max_count));
    figures.set('Received', perSecond(n.received_bytes_per_sec));
    figures.set('Sent', perSecond(n.sent_bytes_per_sec));
    figures.set('Known producers', count(n.known_producers.length));
    received.add(n.received_bytes_per_sec);
    sent.add(n.sent_bytes_per_sec);
    fill(out, table('Peers', [['Id', 'mono'], ['Address', 'keep'], ['Account']], n.active_peers.map((p) => [p.id, p.addr ?? '–', p.account_id ? link('account', p.account_id) : '–']), 'This node has no peers.', { stack: true }),
      table('Known producers', [['Account'], ['Peer', 'mono'], ['Address', 'keep']], n.known_producers.map((p) => [link('account', p.account_id), p.peer_id, p.addr ?? '–']), 'No block producer has announced its address.', { stack: true }));
  }, () => 5000);
}

/** made shows how many of the expected ones were produced, with a warning where some are missing. */
function made(n, of) {
  if (!of) return '–';
  return n < of ? [el('span', { class: 'warn' }, (100 * n / of).toFixed(1) + ' %'), ` ${count(n)} of ${count(of)}`] : `${count(n)} of ${count(of)}`;
}

/** inOrder shows shards in the order of their numbers. */
const inOrder = (shards) => [...shards].sort((a, b) => a - b).join(', ');

/** validatorsPage: those of this epoch and the next, and which were removed. */
export function validatorsPage(main, args, life) {
  const figures = cards(['Epoch', 'Validators', 'Total stake', 'First block', 'Blocks produced']);
  const out = el('div');
  fill(main, el('h1', null, 'Validators'), figures.element, out);
  life.repeat(async () => {
    const v = await call('validators', [null]);
    const all = v.current_validators;
    const total = all.reduce((s, x) => s + BigInt(x.stake), 0n);
    const blocks = all.reduce((s, x) => s + x.num_produced_blocks, 0);
    const expected = all.reduce((s, x) => s + x.num_expected_blocks, 0);
    figures.set('Epoch', count(v.epoch_height));
    figures.set('Validators', count(all.length), count(v.next_validators.length) + ' in the next epoch');
    figures.set('Total stake', near(total - total % 10n ** 24n));
    figures.set('First block', count(v.epoch_start_height));
    figures.set('Blocks produced', expected ? (100 * blocks / expected).toFixed(1) + ' %' : '–', `${count(blocks)} of ${count(expected)}`);
    fill(out, table('In this epoch', [['Account'], ['Stake', 'num'], ['Share', 'num wide'], ['Blocks', 'num'], ['Chunks', 'num'], ['Endorsements', 'num'], ['Shards', 'keep']],
      all.map((x) => [[link('account', x.account_id), x.is_slashed ? [' ', el('span', { class: 'tag bad' }, 'slashed')] : null], near(x.stake), total ? (Number(BigInt(x.stake) * 10000n / total) / 100).toFixed(1) + ' %' : '–',
        made(x.num_produced_blocks, x.num_expected_blocks), made(x.num_produced_chunks, x.num_expected_chunks), made(x.num_produced_endorsements, x.num_expected_endorsements), inOrder(x.shards)]), 'none', { stack: true }),
    table('In the next epoch', [['Account'], ['Stake', 'num'], ['Shards', 'keep']], v.next_validators.map((x) => [link('account', x.account_id), near(x.stake), inOrder(x.shards)]), 'none', { stack: true }),
    table('Removed at the end of the last epoch', [['Account'], ['Reason']], v.prev_epoch_kickout.map((k) => [link('account', k.account_id), JSON.stringify(k.reason)]), 'No validator was removed.'));
  }, () => 5000);
}

const POOL = 'near_transaction_pool_entries';
const SIZE = 'near_transaction_pool_size';
const QUEUED = 'troupe_transactions_queued';
const HELD = 'troupe_transactions_held';
const COMPILING = 'troupe_transactions_compiling';
const SUBMITTED = 'troupe_transactions_submitted_total';
const REFUSED = 'troupe_transactions_refused_total';
const OVERRUN = 'troupe_transactions_overrun_total';
const PARKED = 'troupe_waits_parked';
const SESSIONS = 'troupe_sessions_open';

/** mempoolPage: what waits in each shard, and how congested it is. */
export function mempoolPage(main, args, life) {
  const figures = cards(['In the pools', 'Submitted', 'Refused', 'Dropped unchecked', 'Waiting requests', 'Clients']);
  const waiting = new Chart('Transactions in the pools', { show: count, every: ' samples', whole: true });
  const submitted = new Chart('Submitted per second', { show: (v) => (v >= 100 ? count(Math.round(v)) : v.toFixed(1)), every: ' samples' });
  const out = el('div');
  fill(main, el('h1', null, 'Mempool and congestion'), figures.element, el('div', { class: 'charts' }, waiting.element, submitted.element), out);
  let before = null;
  life.repeat(async () => {
    const [m, b] = await Promise.all([metrics([POOL, SIZE, QUEUED, HELD, COMPILING, SUBMITTED, REFUSED, OVERRUN, PARKED, SESSIONS]), call('block', { finality: 'optimistic' })]);
    const chunks = [...b.chunks].sort((x, y) => x.shard_id - y.shard_id);
    const levels = await Promise.all(chunks.map((c) => call('EXPERIMENTAL_congestion_level', { block_id: b.header.hash, shard_id: c.shard_id }).then((r) => r.congestion_level, () => null)));
    const of = (name, shard) => m.get(name).find(([l]) => l.shard_id === 's' + shard)?.[1];
    const all = (name) => sum(m.get(name)) ?? 0;
    figures.set('In the pools', count(all(POOL)), all(QUEUED) ? count(all(QUEUED)) + ' not yet checked' : '');
    figures.set('Submitted', count(all(SUBMITTED)));
    figures.set('Refused', count(all(REFUSED)));
    figures.set('Dropped unchecked', count(all(OVERRUN)));
    figures.set('Waiting requests', count(all(PARKED)));
    figures.set('Clients', count(all(SESSIONS)));
    const now = { at: performance.now(), n: all(SUBMITTED) };
    waiting.add(all(POOL));
    if (before && now.n >= before.n) submitted.add((1000 * (now.n - before.n)) / (now.at - before.at));
    before = now;
    fill(out, table('Shards', [['Shard', 'num'], ['Transactions', 'num'], ['Size', 'num'], ['Unchecked', 'num'], ['Wait for code', 'num'], ['Compiling', 'num'], ['Congestion', 'keep'], ['Delayed gas', 'num'], ['Buffered gas', 'num'], ['Receipts', 'num']],
      chunks.map((c, i) => {
        const g = c.congestion_info ?? {};
        const s = c.shard_id;
        return [s, count(of(POOL, s)), bytes(of(SIZE, s)), count(of(QUEUED, s)), count(of(HELD, s)), count(of(COMPILING, s)),
          levels[i] == null ? '–' : [el('meter', { min: 0, max: 1, value: levels[i], 'aria-label': 'congestion of shard ' + s }), ' ', (100 * levels[i]).toFixed(0) + ' %'],
          gas(g.delayed_receipts_gas), gas(g.buffered_receipts_gas), bytes(g.receipt_bytes)];
      }), 'none', { stack: true }));
  }, () => 2000);
}
