// Who else there is: peers, validators; and what waits: mempools, congestion.
import { el, fill, link, list, table } from './dom.js';
import { bytes, count, gas, near } from './format.js';
import { call, metrics, sum } from './rpc.js';

/** networkPage: the peers. */
export function networkPage(main, args, life) {
  const out = el('div');
  fill(main, el('h1', null, 'Network'), out);
  life.repeat(async () => {
    const n = await call('network_info', []);
    fill(out, list([['Peers', `${count(n.num_active_peers)} of at most ${count(n.peer_max_count)}`], ['Received', bytes(n.received_bytes_per_sec) + '/s'], ['Sent', bytes(n.sent_bytes_per_sec) + '/s']]),
      table('Peers', [['Id', 'hash'], ['Address'], ['Account']], n.active_peers.map((p) => [p.id, p.addr ?? '–', p.account_id ? link('account', p.account_id) : '–']), 'This node has no peers.'),
      table('Known producers', [['Account'], ['Peer', 'hash'], ['Address']], n.known_producers.map((p) => [link('account', p.account_id), p.peer_id, p.addr ?? '–'])));
  }, () => 5000);
}

const share = (made, of) => (of ? `${count(made)} of ${count(of)}` : '–');

/** validatorsPage: those of this epoch, the next, and who was put out. */
export function validatorsPage(main, args, life) {
  const out = el('div');
  fill(main, el('h1', null, 'Validators'), out);
  life.repeat(async () => {
    const v = await call('validators', [null]);
    fill(out, list([['Epoch', count(v.epoch_height)], ['Began at', el('a', { href: '#/block/' + v.epoch_start_height }, count(v.epoch_start_height))]]),
      table(`In this epoch (${count(v.current_validators.length)})`, [['Account'], ['Stake', 'num'], ['Blocks', 'num'], ['Chunks', 'num'], ['Endorsements', 'num'], ['Shards']],
        v.current_validators.map((x) => [link('account', x.account_id), near(x.stake), share(x.num_produced_blocks, x.num_expected_blocks), share(x.num_produced_chunks, x.num_expected_chunks),
          share(x.num_produced_endorsements, x.num_expected_endorsements), x.shards.join(', ')])),
      table(`In the next (${count(v.next_validators.length)})`, [['Account'], ['Stake', 'num'], ['Shards']], v.next_validators.map((x) => [link('account', x.account_id), near(x.stake), x.shards.join(', ')])),
      table('Put out of the last', [['Account'], ['Why']], v.prev_epoch_kickout.map((k) => [link('account', k.account_id), JSON.stringify(k.reason)])));
  }, () => 5000);
}

const pools = ['near_transaction_pool_entries', 'near_transaction_pool_size', 'troupe_transactions_queued', 'troupe_transactions_held', 'troupe_transactions_compiling',
  'troupe_transactions_submitted_total', 'troupe_transactions_refused_total', 'troupe_transactions_overrun_total', 'troupe_waits_parked', 'troupe_sessions_open'];

/** mempoolPage: what waits in each shard, and how congested it is. */
export function mempoolPage(main, args, life) {
  const out = el('div');
  fill(main, el('h1', null, 'Mempool and congestion'), out);
  life.repeat(async () => {
    const [m, b] = await Promise.all([metrics(pools), call('block', { finality: 'optimistic' })]);
    const levels = await Promise.all(b.chunks.map((c) => call('EXPERIMENTAL_congestion_level', { block_id: b.header.hash, shard_id: c.shard_id }).then((r) => r.congestion_level, () => null)));
    const of = (name, shard) => m.get(name).find(([l]) => l.shard_id === 's' + shard)?.[1];
    fill(out, table('Pools', [['Shard', 'num'], ['Transactions', 'num'], ['Size', 'num'], ['Not looked at', 'num'], ['Wait for code', 'num'], ['Compiling', 'num'], ['Congestion'], ['Delayed receipts', 'num'], ['Buffered', 'num'], ['Memory of receipts', 'num']],
      b.chunks.map((c, i) => {
        const g = c.congestion_info ?? {};
        return [c.shard_id, count(of(pools[0], c.shard_id)), bytes(of(pools[1], c.shard_id)), count(of(pools[2], c.shard_id)), count(of(pools[3], c.shard_id)), count(of(pools[4], c.shard_id)),
          levels[i] == null ? '–' : [el('meter', { min: 0, max: 1, value: levels[i], 'aria-label': 'congestion of shard ' + c.shard_id }), ' ', (100 * levels[i]).toFixed(0) + ' %'],
          gas(g.delayed_receipts_gas), gas(g.buffered_receipts_gas), bytes(g.receipt_bytes)];
      })),
    list([['Submitted', count(sum(m.get(pools[5])))], ['Refused', count(sum(m.get(pools[6])))], ['Dropped unseen', count(sum(m.get(pools[7])))], ['Requests that wait', count(sum(m.get(pools[8])))], ['Clients', count(sum(m.get(pools[9])))]]));
  }, () => 2000);
}
