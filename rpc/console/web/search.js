// What somebody may mean who writes a height, a hash or a name.
import { el, fill, link } from './dom.js';
import { call } from './rpc.js';

/** SYSTEM is who sends refunds and other receipts of the protocol: no account of the state. */
export const SYSTEM = 'system';

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

/** lookUp asks for all that a text may be, and goes there if it is one thing. */
export async function lookUp(main, s = '') {
  s = s.trim();
  s = height(s) ?? s;
  const all = kinds(s);
  if (!all.length) {
    fill(main, el('h1', null, 'Search'), el('p', null, 'No height, hash or account looks like ', el('code', null, s), '. A hash is 43 or 44 characters of base58, an account 2 to 64 of a–z, 0–9 and -_.'));
    return;
  }
  fill(main, el('h1', null, 'Search: ', el('code', null, s)), el('p', { role: 'status' }, 'asking …'));
  const found = (await Promise.all(all.map(([page, ask]) => ask().then(() => page, () => null)))).filter(Boolean);
  if (found.length === 1) {
    location.replace('#/' + found[0] + '/' + encodeURIComponent(s));
    return;
  }
  fill(main, el('h1', null, 'Search: ', el('code', null, s)), found.length ? el('ul', null, found.map((p) => el('li', null, p, ' ', link(p, s)))) :
    el('p', null, 'This node knows no ', all.map(([p]) => ({ tx: 'transaction' })[p] ?? p).join(', no '), ' ', el('code', null, s), '.'));
}
