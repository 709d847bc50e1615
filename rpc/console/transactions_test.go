package console

import "testing"

// transactions is a script that tests lists of transactions, the timeline and the flame graph. Each
// line that it prints is an error.
const transactions = `
globalThis.location = { href: 'http://127.0.0.1:1/console/', host: '127.0.0.1:1', hash: '' };
globalThis.matchMedia = () => ({ addEventListener() {} });
const { merge, since, units, actionsOf, deposits, direction } = await import('./transactions.js');
const { place, shardOf, words } = await import('./timeline.js');
const { merged, hottest, boxes } = await import('./flame.js');
const { steps, actionNames, reason } = await import('./tx.js');
const { show } = await import('./account.js');
const { parsed, transfers } = await import('./events.js');
const { encode58, decode58 } = await import('./unsigned.js');
const { Feed, busy } = await import('./blocks.js');
const { meant } = await import('./search.js');
const { ago, cut, clock, number } = await import('./format.js');
const { plain } = await import('./dom.js');
const is = (what, got, want) => { if (JSON.stringify(got) !== JSON.stringify(want)) console.log(what + ': ' + JSON.stringify(got) + ', want ' + JSON.stringify(want)); };

const t = (hash, height, pending = 0, status = 'succeeded') => ({ transaction_hash: hash, block_height: height, receipts_pending: pending, status });
const old = [t('b', 5, 1), t('a', 3)];
is('a row that is read again is replaced', merge([t('c', 7), t('b', 5)], old).map((x) => x.transaction_hash + x.receipts_pending), ['c0', 'b0', 'a0']);
is('older rows come last', merge(old, [t('z', 1)]).map((x) => x.transaction_hash), ['b', 'a', 'z']);
is('the list is bounded', merge(old, [t('z', 1)], 2).length, 2);
is('all are settled', since([t('a', 3)], 9), 9);
is('one has receipts to run', since(old, 9), 4);
is('one has no result', since([t('x', 8, 0, 'pending')], 9), 7);
for (const [a, d, want] of [['0', 24, '0'], ['1', 6, '0.000001'], ['1000000', 6, '1'], ['1234500000', 6, '1,234.5'], ['12', 0, '12'], ['12', null, '12'], ['12', 1e9, '12'], ['x', 6, 'x'],
  ['9'.repeat(61), 6, '9'.repeat(60) + '… (61 characters)']]) is('units of ' + a, units(a, d), want);
is('actions', actionsOf({ actions: [{ kind: 'FunctionCall', method_name: 'm', deposit: '0' }, { kind: 'Transfer', deposit: '1' + '0'.repeat(24) }], actions_omitted: 3 }), 'm(), Transfer 1 NEAR and 3 more');
is('many actions', actionNames(new Array(100).fill('CreateAccount')), 'CreateAccount, CreateAccount, CreateAccount, CreateAccount and 96 more');

const nodes = [{ id: 'tx', parents: [], height: 10, shard: 1 }, { id: 'a', parents: ['tx'], height: 10, shard: 1 }, { id: 'b', parents: ['a'], height: 12, shard: 0 }, { id: 'c', parents: ['a'], height: null, shard: null }];
const p = place(nodes);
is('columns are blocks, lanes shards, and what is not known comes last', [p.heights, p.shards, p.rows], [[10, 12, null], [0, 1, null], [1, 2, 1]]);
is('two of a block and shard are below each other', [p.at.get('tx').row, p.at.get('a').row, p.at.get('b')], [0, 1, { column: 1, lane: 0, row: 0 }]);
is('the drawing in words', words(nodes.map((n) => ({ ...n, kind: n.height ? 'ok' : 'pending' })), p.heights, p.shards, new Map([[10, 0n], [12, 1500000000n]])),
  '4 steps in 2 blocks and 3 shards, 1.50 s from the first to the last: 3 succeeded, 1 has not run');
const v1 = { V1: { boundary_accounts: ['aurora', 'kkuuue2akv_1630967379.near'] } };
for (const [a, l, want] of [['alice.near', v1, 0], ['aurora', v1, 1], ['zoe', v1, 2], ['a', { V2: { boundary_accounts: ['m'], shard_ids: [7, 3] } }, 7], ['z', { V2: { boundary_accounts: ['m'], shard_ids: [7, 3] } }, 3],
  ['a', { V0: { num_shards: 1 } }, 0], ['a', { V0: { num_shards: 4 } }, null], ['a', null, null], ['a', {}, null]]) is('the shard of ' + a, shardOf(a, l), want);

const outcome = (id, receipt_ids, block_hash, status = { SuccessValue: '' }) => ({ id, block_hash, outcome: { receipt_ids, status, gas_burnt: 1, executor_id: 'x.' + id } });
const reply = { transaction: { hash: 'T', signer_id: 's' }, transaction_outcome: outcome('T', ['1'], 'B1'), receipts_outcome: [outcome('1', ['2', '3', 'r'], 'B2'), outcome('2', ['4'], 'B3', { Failure: {} }), outcome('3', ['4'], 'B3'), outcome('r', [], 'B3')] };
const known = new Map([['r', { receipt_id: 'r', predecessor_id: 'system', receiver_id: 's', receipt: { Action: { actions: [] } } }]]);
is('steps in the order of the tree', steps(reply, known, new Map([['B1', { height: 1 }], ['B2', { height: 2 }]]), null).map((n) => [n.id, n.parents.join(), n.kind, n.height]),
  [['T', '', 'ok', 1], ['1', 'T', 'ok', 2], ['2', '1', 'failed', null], ['3', '1', 'ok', null], ['r', '1', 'refund', null], ['4', '2,3', 'pending', null]]);
const wide = { ...reply, receipts_outcome: [outcome('1', Array.from({ length: 5000 }, (_, i) => 'n' + i), 'B2')] };
is('of very many receipts some are left out', steps(wide, new Map(), new Map(), null).length < 6000 && steps(wide, new Map(), new Map(), null).length > 80, true);

const local = { transaction: { hash: 'T', signer_id: 's', receiver_id: 's', actions: ['CreateAccount'] }, transaction_outcome: outcome('T', ['1'], 'B1'), receipts_outcome: [outcome('1', [], 'B1')] };
is('a receipt to the signer has the actions of the transaction', steps(local, new Map(), new Map(), null)[1].sub, 'CreateAccount');

const panic = { ActionError: { index: 0, kind: { FunctionCallError: { ExecutionError: 'Smart contract panicked: no' } } } };
for (const [f, want] of [[panic, 'Smart contract panicked: no'], [{ ActionError: { index: 1, kind: { AccountDoesNotExist: { account_id: 'a.b' } } } }, 'action 2: AccountDoesNotExist: account_id a.b'],
  [{ ActionError: { index: null, kind: { FunctionCallError: { MethodResolveError: 'MethodNotFound' } } } }, 'MethodNotFound'],
  [{ InvalidTxError: { InvalidNonce: { tx_nonce: 1, ak_nonce: 2 } } }, 'InvalidNonce: tx_nonce 1, ak_nonce 2'], [{ InvalidTxError: 'Expired' }, 'Expired'], [{}, '{}'], [null, 'null']]) is('the reason', reason(f), want);
is('a reason is bounded', reason({ ActionError: { index: 0, kind: { FunctionCallError: { ExecutionError: 'x'.repeat(1e6) } } } }).length < 1100, true);

const event = (e) => 'EVENT_JSON:' + JSON.stringify(e);
is('transfers of tokens', transfers([['t', event({ standard: 'nep141', event: 'ft_transfer', data: [{ old_owner_id: 'a', new_owner_id: 'b', amount: '5' }] })], ['t', event({ standard: 'nep141', event: 'ft_mint', data: { owner_id: 'c', amount: '1' } })],
  ['n', event({ standard: 'nep171', event: 'nft_burn', data: [{ owner_id: 'd', token_ids: ['1', '2'] }] })], ['m', event({ standard: 'nep245', event: 'mt_transfer', data: [{ old_owner_id: 'a', new_owner_id: 'b', token_ids: ['x'], amounts: ['9'] }] })]])
  .map((t) => [t.contract, t.from, t.to, t.amount, t.token].join()), ['t,a,b,5,', 't,,c,1,', 'n,d,,1,1', 'n,d,,1,2', 'm,a,b,9,x']);
is('logs that are no events', [null, '1', '[]', '{', '{"event":1}', '{"event":"__proto__"}', '{"event":"ft_transfer"}', '{"event":"ft_transfer","data":[null,1,"x",[]]}', '{"event":"nft_mint","data":{"token_ids":7}}']
  .map((l) => transfers([['c', l === null ? 'ft_transfer' : 'EVENT_JSON:' + l]]).filter((t) => t.from !== null || t.to !== null || t.amount.length > 1).length), [0, 0, 0, 0, 0, 0, 0, 0, 0]);
is('very many transfers', transfers(new Array(1000).fill(['c', event({ standard: 'nep171', event: 'nft_mint', data: new Array(60).fill({ owner_id: 'a', token_ids: new Array(60).fill('1') }) })])).length, 51);
is('a log of a megabyte is no event', parsed(event({ event: 'ft_mint', x: 'y'.repeat(1e6) })), null);

const listed = (signer_id, receiver_id, actions = []) => ({ signer_id, receiver_id, actions });
is('directions', [listed('a', 'b'), listed('b', 'a'), listed('a', 'a'), listed('b', 'c')].map((x) => direction(x, 'a')), ['out', 'in', 'self', 'via']);
is('deposits', String(deposits(listed('a', 'b', [{ kind: 'CreateAccount' }, { kind: 'Transfer', deposit: '9'.repeat(30) }, { kind: 'FunctionCall', deposit: '1' }]))), '1' + '0'.repeat(30));
const bytes32 = Uint8Array.from({ length: 32 }, (_, i) => (i < 2 ? 0 : 7 * i));
is('base58', [encode58(bytes32).slice(0, 2), [...decode58(encode58(bytes32), 32)]], ['11', [...bytes32]]);

is('bytes as text', [show(Uint8Array.from([0x61, 0, 0xc3, 0xa9]), 'text', 9), show(Uint8Array.from([0x61, 0xff, 0x0a]), 'text', 9), show(Uint8Array.from([0x61, 0xc3, 0xa9]), 'text', 2)], ['a\\x00é', 'a\\xff\\x0a', 'a… 3 B in all']);
is('bytes as a number', [number(Uint8Array.from([1, 1, 0, 0])), number(Uint8Array.from([97, 98, 99, 100])), number(Uint8Array.from([1, 0, 0])), number(new Uint8Array(16).fill(255))], ['u32 257', null, null, 'u128 340,282,366,920,938,463,463,374,607,431,768,211,455']);

const file = { shared: { frames: [{ name: 'f' }, { name: 'g' }] }, profiles: [{ name: 'c.m', startValue: 0, endValue: 100, events: [
  { type: 'O', frame: 0, at: 10 }, { type: 'O', frame: 1, at: 20 }, { type: 'C', frame: 1, at: 50 }, { type: 'O', frame: 1, at: 50 }, { type: 'C', frame: 1, at: 60 }, { type: 'C', frame: 0, at: 90 }] }] };
const root = merged(file);
is('gas of all', root.gas, 100);
is('what burns most by itself', hottest(root), [{ name: 'f', own: 40, calls: 1 }, { name: 'g', own: 40, calls: 2 }, { name: 'c.m', own: 20, calls: 1 }]);
is('boxes', boxes(root).map(([n, level, x, w]) => [n.name, level, x, w]), [['all', 0, 0, 1000], ['c.m', 1, 0, 1000], ['f', 2, 0, 800], ['g', 3, 0, 400]]);
const deep = { shared: { frames: [{ name: 'r' }] }, profiles: [{ name: 'c', startValue: 0, endValue: 9, events: new Array(500).fill({ type: 'O', frame: 0, at: 1 }).concat(new Array(500).fill({ type: 'C', frame: 0, at: 9 })) }] };
is('depth is bounded', boxes(merged(deep)).length, 60);
is('frames that are none', merged({ shared: { frames: [] }, profiles: [{ name: 'c', startValue: 0, endValue: 1, events: [{ type: 'C', at: 1 }, { type: 'O', frame: 7, at: 0 }] }] }).gas, 1);
is('no profile', merged(undefined).gas, 0);

const none = '11111111111111111111111111111111';
const chunk = (tx_root, outcome_root, height_included = 7) => ({ height_included, tx_root, outcome_root, gas_used: 1, shard_id: 0 });
for (const [c, want] of [[chunk(none, none), false], [chunk('x', none), true], [chunk(none, 'x'), true], [chunk('x', 'x', 6), false]]) is('news of transactions', busy({ height: 7, chunks: [c] }), want);
const feed = new Feed();
const block = (h, root) => ({ author: 'a', chunks: [chunk(root, none, h), { ...chunk(none, none, h), shard_id: 2 }, { ...chunk(none, none, h), shard_id: 1 }],
  header: { height: h, hash: 'h' + h, prev_hash: 'h' + (h - 1), last_final_block: 'h', timestamp_nanosec: '1', gas_price: '1', chunks_included: 3 } });
feed.add(block(1, none));
feed.add(block(2, 'x'));
is('a block without transactions is not asked about', feed.blocks.map((b) => b.txs), [0, null]);
feed.count([{ block_hash: 'h2', transactions: 12 }]);
is('and one with some has their count', feed.blocks.map((b) => b.txs), [0, 12]);
is('shards are in order', feed.blocks[0].chunks.map((c) => c.shard_id), [0, 1, 2]);

for (const [s, want] of [['#1,065', '1065'], ['block 1,065', '1065'], [' 1,065 ', '1065'], ['alice', 'alice'], ['Block', 'Block'], ['#', '']]) is('what is meant by ' + s, meant(s), want);
is('ago', [[5e9, 0], [65e9, 0], [7300e9, 0], [-1e9, 0]].map(([d]) => ago(String(1e15 - d), 1e9)), ['5 s ago', '1 min ago', '2 h ago', '0 s ago']);
is('in the future, or long ago', [ago(String(BigInt(2e18)), 1e9), ago('0', 1e12)], [clock(String(BigInt(2e18))).slice(0, 16), '1970-01-01 00:00']);
is('a text that is cut', [cut('abc', 3), cut('abcd', 3), cut('ab\ud83d\ude00', 3)], ['abc', 'abc… (4 characters)', 'ab… (4 characters)']);
const hidden = 'a\u0000b\u001b[31mc\rd\u0085e\u00adf\u202eg\u2066h\u200bi\u180ej\u3164k\udb40\udc41l\tm\nn';
is('what is hidden is shown', plain(hidden), 'a\\u0000b\\u001b[31mc\\u000dd\\u0085e\\u00adf\\u202eg\\u2066h\\u200bi\\u180ej\\u3164k\\ue0041l\tm\nn');
is('marks on one character are bounded', plain('z' + '\u0301'.repeat(500) + 'o').length, 6);
is('ordinary text is as it was', plain('naïve 日本語 नमस्ते العربية 👍🏽'), 'naïve 日本語 नमस्ते العربية 👍🏽');
`

// TestTransactionViewsAreBounded: what lists of transactions keep and ask for, where the timeline
// puts receipts, what the flame graph sums up, and which characters of untrusted text are shown by
// their numbers. It needs Node.js.
func TestTransactionViewsAreBounded(t *testing.T) { runScript(t, transactions) }
