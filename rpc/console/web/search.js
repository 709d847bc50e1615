// What somebody may mean who writes a height, a hash or a name.
import { SYSTEM, el, fill, link, party } from './dom.js';
import { cut } from './format.js';
import { call } from './rpc.js';

export { SYSTEM };

const HASH = /^[1-9A-HJ-NP-Za-km-z]{40,44}$/;
const ACCOUNT = /^(?=.{2,64}$)(([a-z\d]+[-_])*[a-z\d]+\.)*([a-z\d]+[-_])*[a-z\d]+$/;

/** height is the number that a text is, with or without its thousands apart, as digits; null: it is none. */
export function height(s) {
  if (/^\d{1,19}$/.test(s)) return s;
  return /^\d{1,3}([,. '’_\u00a0\u202f])\d{3}(\1\d{3})*$/.test(s) ? s.replace(/\D/g, '') : null;
}

/** kinds are what a text may be, the likeliest first: [page, what it asks]. */
export function kinds(s) {
  const out = [];
  if (s === SYSTEM) return [['account', async () => null]];
  if (/^\d{1,19}$/.test(s)) out.push(['block', () => call('block', { block_id: Number(s) })]);
  if (HASH.test(s)) {
    out.push(['block', () => call('block', { block_id: s })], ['chunk', () => call('chunk', { chunk_id: s })], ['receipt', () => call('EXPERIMENTAL_receipt', { receipt_id: s })],
      ['tx', () => call('tx', { tx_hash: s, sender_account_id: 'near', wait_until: 'NONE' })]);
  }
  if (ACCOUNT.test(s)) out.push(['account', () => call('query', { request_type: 'view_account', account_id: s, finality: 'optimistic' })]);
  return out;
}

const PREFIX = /^[a-z\d][a-z\d._-]{0,63}$/;
const CUT = /^([1-9A-HJ-NP-Za-km-z]{8})…([1-9A-HJ-NP-Za-km-z]{5})$/;
const ACCOUNTS = 50; // that are listed

/** meant takes away what the page writes around heights and ids, and what a copy of it may have: "#1,065", "block 1,065", spaces around. */
export function meant(s) {
  s = s.trim().replace(/^(?:#|block\s|shard\s)\s*/i, '').trim();
  return height(s) ?? s;
}

/** shortened finds what a hash that is cut in its middle may be, among the last blocks and transactions. */
async function shortened(s, feed) {
  const [, begin, end] = CUT.exec(s) ?? [];
  if (!begin) return [];
  const fits = (h) => h.startsWith(begin) && h.endsWith(end);
  const txs = await call('troupe_transactions', { limit: 200 }).then((r) => r.transactions, () => []);
  return [...feed.blocks.filter((b) => fits(b.hash)).map((b) => ['block', b.hash]), ...txs.filter((t) => fits(t.transaction_hash)).map((t) => ['tx', t.transaction_hash, t.signer_id])];
}

/** lookUp asks for all that a text may be, and goes there if it is one thing. */
export async function lookUp(main, s, feed) {
  s = meant(s ?? '');
  const name = s.toLowerCase();
  const all = kinds(s === name || HASH.test(s) ? s : ACCOUNT.test(name) ? name : s);
  const listed = s !== SYSTEM && PREFIX.test(name);
  if (!all.length && !listed && !CUT.test(s)) {
    fill(main, el('h1', null, 'Search'), el('p', null, 'No height, hash or account looks like ', el('code', null, cut(s, 100)), '. A hash is 43 or 44 characters of base58, an account 2 to 64 of a–z, 0–9 and -_.; its beginning is enough.'));
    return;
  }
  const title = el('h1', null, 'Search: ', el('code', null, cut(s, 100)));
  fill(main, title, el('p', { role: 'status' }, 'asking …'));
  const found = [...(await Promise.all(all.map(([page, ask]) => ask().then(() => [page, page === 'account' ? name : s], () => null)))).filter(Boolean), ...await shortened(s, feed)];
  if (found.length === 1) {
    location.replace('#/' + found[0].map(encodeURIComponent).join('/'));
    return;
  }
  const begin = listed ? await call('troupe_accounts', { prefix: name, limit: ACCOUNTS }).catch(() => null) : null;
  const accounts = begin?.account_ids.filter((a) => !found.some(([page, id]) => page === 'account' && id === a)) ?? [];
  if (!found.length && accounts.length === 1 && !begin.more) {
    location.replace('#/account/' + encodeURIComponent(accounts[0]));
    return;
  }
  fill(main, title, found.length ? el('ul', null, found.map(([page, ...id]) => el('li', null, page, ' ', link(page, id)))) : null,
    accounts.length ? [el('h2', null, `Accounts that begin with it${begin.more ? `, the first ${ACCOUNTS}` : ''}`), el('ul', null, accounts.map((a) => el('li', null, party(a))))] : null,
    found.length || accounts.length ? null : el('p', null, 'This node knows no ', (all.length ? all.map(([p]) => ({ tx: 'transaction' })[p] ?? p) : [CUT.test(s) ? 'recent block or transaction' : 'account']).join(', no '), ' ', el('code', null, cut(s, 100)), '.'));
}
