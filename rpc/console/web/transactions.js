// Lists of transactions: the page of the latest, the last ten of the overview, the history and the tokens of an account. They come from
// troupe_transactions, which reads the chain backwards: the node keeps nothing for them, and asks nothing while no block has anything new.
import { el, fill, keeping, link, party, row, say, table } from './dom.js';
import { count, cut, gas, near, short, toBase64 } from './format.js';
import { busy } from './blocks.js';
import { copy } from './copy.js';
import { call } from './rpc.js';
import { heads, when } from './when.js';

const PAGE = 50;
const MOST = 1000; // rows of a list
const FURTHER = 5; // requests in a row that find fewer than are wanted

const columns = [['Transaction', 'hash'], ['Block', 'num place'], ['Age', 'keep age'], ['From', 'keep from'], ['To', 'keep to'], ['Actions', 'what'], ['Deposit', 'num deposit'], ['Gas', 'num gas'], ['Result', 'result']];

/** actionsOf are the actions of a listed transaction in a few words. */
export function actionsOf(t) {
  const names = t.actions.map((a) => (a.kind === 'FunctionCall' ? cut(a.method_name, 64) + '()' : a.kind) +
    (a.deposit && a.deposit !== '0' ? ' ' + near(a.deposit) : ''));
  return names.join(', ') + (t.actions_omitted ? ` and ${count(t.actions_omitted)} more` : '');
}

const NAMED = 2; // actions of a row that have a label

/** labels are the actions of a listed transaction: methods and kinds, all of them on request. */
function labels(t) {
  const more = t.actions.length + t.actions_omitted - NAMED;
  return el('span', { title: cut(actionsOf(t), 1000) }, t.actions.slice(0, NAMED).map((a) => [a.kind === 'FunctionCall' ? el('span', { class: 'tag call mono' }, cut(a.method_name, 64), '()') : el('span', { class: 'tag' }, a.kind), ' ']),
    more > 0 ? el('span', { class: 'muted' }, '+', count(more)) : null);
}

/** deposits is what the actions of a listed transaction attach or transfer, in yoctoNEAR. */
export const deposits = (t) => t.actions.reduce((sum, a) => sum + BigInt(a.deposit ?? 0), 0n);

/** result is how a listed transaction ended, with the reason if it failed. */
export function result(t) {
  const label = (cls, s, why, short = why) => el('span', { class: 'outcome', title: why || null }, el('span', { class: 'tag ' + cls }, s), why ? el('span', { class: cls }, ' ', short) : null);
  if (t.status === 'failed') {
    const why = cut(t.failure ?? '', 160);
    return label('bad', '✕ failed', why, why.replace(/^Smart contract panicked: /, 'panicked: '));
  }
  if (t.receipts_failed) return label('warn', '⚠ ok', `${count(t.receipts_failed)} of ${count(t.receipts)} receipts failed`);
  if (t.status === 'pending') return label('', '… runs', '');
  return label('good', '✓ ok', '');
}

/** direction is how a transaction concerns an account: that sent it, received it, or is named by a receipt or an event of it. */
export const direction = (t, id) => (t.signer_id === id ? (t.receiver_id === id ? 'self' : 'out') : t.receiver_id === id ? 'in' : 'via');

const directions = { self: 'to itself', out: 'signed by the account', in: 'sent to the account', via: 'a receipt or an event names the account' };

const directed = (t, id) => {
  const d = direction(t, id);
  return [el('span', { class: 'tag way ' + d, title: directions[d] }, d), ' '];
};

const hash = (t) => [link('tx', [t.transaction_hash, t.signer_id], short(t.transaction_hash)), copy(t.transaction_hash, 'hash', { class: 'copy hover', tabindex: -1 })];

/** cells are those of a row; of: the account whose list it is. */
const cells = (t, of = null) => {
  const deposit = deposits(t);
  return [hash(t), link('block', t.block_hash, count(t.block_height)), when(t.timestamp_nanosec), party(t.signer_id), [of && directed(t, of), party(t.receiver_id)], labels(t), deposit ? near(deposit) : el('span', { class: 'muted' }, '–'),
    gas(t.gas_burnt), result(t)];
};

/** settled tells whether nothing of a transaction changes any more, unless its block is reverted. */
const settled = (t) => t.receipts_pending === 0 && t.status !== 'pending';

/** merge puts newer rows in front of known ones; those that are in both are taken from the newer. The newest block comes first. */
export function merge(newer, known, most = MOST) {
  const seen = new Set(newer.map((t) => t.transaction_hash));
  return newer.concat(known.filter((t) => !seen.has(t.transaction_hash))).sort((a, b) => b.block_height - a.block_height).slice(0, most);
}

/** since is the height above which rows have to be read again: below it all are settled and known. */
export const since = (rows, head) => Math.min(head, ...rows.filter((t) => !settled(t)).map((t) => t.block_height - 1));

/** TxTable is a list that grows at its top while blocks come, and at its end on request. */
export class TxTable {
  /** filter: account_id, method_prefix, failed_only. each is called with every reply. of: the account whose list it is. */
  constructor(caption, life, { filter = {}, limit = PAGE, older = true, each = () => {}, feed = null, empty = 'No transaction', of = null } = {}) {
    Object.assign(this, { life, filter, limit, each, empty, of, rows: [], head: 0, next: null, turn: 0 });
    this.body = el('tbody');
    this.note = el('p', { class: 'muted', role: 'status' });
    this.more = el('button', { type: 'button', hidden: true, on: { click: () => this.older() } }, 'Older');
    this.element = el('section', { class: 'txs' }, el('div', { class: 'scroll' }, el('table', null, el('caption', null, caption),
      heads(columns), this.body)), this.note, older ? this.more : null);
    this.draw();
    this.fresh();
    if (feed) {
      feed.listen((b) => {
        if (b === null) this.reset();
        else if (b && busy(b)) this.soon();
      }, life);
    }
    life.ends.push(() => {
      clearTimeout(this.asked);
      clearTimeout(this.late);
    });
  }

  ask(params) {
    return call('troupe_transactions', { limit: this.limit, ...this.filter, ...params }, this.life.over.signal);
  }

  /** set changes the filter. */
  set(filter) {
    this.filter = filter;
    this.reset();
  }

  reset() {
    this.rows = [];
    this.next = null;
    this.head = 0;
    this.fresh();
  }

  /** soon asks for what is new, at most once in a second. */
  soon() {
    this.asked ||= setTimeout(() => {
      this.asked = 0;
      if (document.hidden) this.soon();
      else this.fresh();
    }, 1000);
  }

  /** fresh reads the list anew, or what is new if it is known. */
  async fresh() {
    const turn = ++this.turn;
    const first = !this.head;
    try {
      if (first) fill(this.note, 'asking …');
      const r = await this.ask(first ? {} : { after_height: since(this.rows, this.head) });
      if (turn !== this.turn) return;
      this.each(r);
      if (first || r.next) { // with more than a page of news, what was known is further down
        this.rows = r.transactions;
        this.next = r.next;
        this.from = r.from_height;
      } else this.rows = merge(r.transactions, this.rows);
      this.head = r.head_height;
      if (first) await this.further(turn);
      this.draw();
      // What runs goes on in blocks to come, and a chain that makes them on request may have made the last one.
      clearTimeout(this.late);
      if (this.rows.some((t) => !settled(t))) this.late = setTimeout(() => this.fresh(), 5000);
    } catch (e) {
      if (turn === this.turn && !this.life.over.signal.aborted) fill(this.note, el('span', { class: 'bad' }, 'The node does not list transactions: ', e.message));
    }
  }

  /** further asks on while a reply has read its bound of blocks and found fewer than are wanted. */
  async further(turn) {
    for (let n = 0; n < FURTHER && this.next && this.rows.length < this.limit && turn === this.turn; n++) {
      fill(this.note, `looked back to block ${count(this.from)} …`);
      const r = await this.ask({ before: this.next });
      if (turn !== this.turn) return;
      this.each(r);
      this.rows = merge(this.rows, r.transactions);
      this.next = r.next;
      this.from = r.from_height;
    }
  }

  async older() {
    const turn = ++this.turn;
    this.more.disabled = true;
    try {
      const r = await this.ask({ before: this.next });
      if (turn !== this.turn) return;
      this.each(r);
      const before = this.rows.length;
      this.rows = merge(this.rows, r.transactions);
      this.next = this.rows.length < MOST ? r.next : null;
      this.from = r.from_height;
      say(`${this.rows.length - before} more transactions`);
      this.draw();
    } catch (e) {
      fill(this.note, el('span', { class: 'bad' }, e.message));
    }
    this.more.disabled = false;
  }

  draw() {
    keeping(this.body, () => this.body.replaceChildren(...this.rows.map((t) => row(columns, cells(t, this.of)))));
    this.more.hidden = !this.next;
    if (!this.head) return;
    fill(this.note, this.rows.length ? null : this.empty + (this.next ? ` in blocks ${count(this.from)} to ${count(this.head)}.` : '.'));
  }
}

/** blockTransactions shows the transactions of a block with their results; null: the chain has another block at its height. of: how many it has. */
export async function blockTransactions(h, of, life) {
  const t = el('tbody');
  const more = el('button', { type: 'button', hidden: true }, 'More');
  let before = { height: h.height };
  const ask = async () => {
    const r = await call('troupe_transactions', { before, after_height: h.height - 1, limit: 200 }, life.over.signal);
    if (r.transactions.some((x) => x.block_hash !== h.hash)) return false;
    t.append(...r.transactions.map((x) => row(inBlock, [cells(x)[0], x.shard_id, ...cells(x).slice(3)])));
    before = r.next;
    more.hidden = !before;
    return true;
  };
  more.addEventListener('click', () => ask().catch((e) => say(e.message)));
  if (!(await ask())) return null;
  return el('section', { class: 'txs' }, el('div', { class: 'scroll' }, el('table', null, el('caption', null, `Transactions (${count(of)})`),
    heads(inBlock), t)), more);
}

const inBlock = [columns[0], ['Shard', 'num place'], ...columns.slice(3)];

/** latest shows the last transactions, without filters. */
export function latest(feed, life, limit) {
  const t = new TxTable('Latest transactions', life, { limit, feed, older: false, empty: 'No transaction yet' });
  return el('div', null, t.element, el('p', null, el('a', { href: '#/transactions' }, 'All transactions')));
}

/** transactionsPage: the latest ones, by account, method, and failed ones. The filters are in the address: #/transactions/ACCOUNT/METHOD/failed. */
export function transactionsPage(main, [account = '', method = '', failed = ''], feed, life) {
  const input = { account: el('input', { name: 'account', value: account, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'none' }),
    method: el('input', { name: 'method', value: method, list: 'seen-methods', spellcheck: 'false', autocomplete: 'off', autocapitalize: 'none' }),
    failed: el('input', { name: 'failed', type: 'checkbox', checked: failed === 'failed' }) };
  const seen = new Set();
  const options = el('datalist', { id: 'seen-methods' });
  const each = (r) => {
    for (const t of r.transactions) for (const a of t.actions) if (a.method_name && seen.size < 100) seen.add(a.method_name);
    options.replaceChildren(...[...seen].sort().map((m) => el('option', { value: m })));
  };
  const filter = () => ({ ...(input.account.value.trim() && { account_id: input.account.value.trim() }), ...(input.method.value.trim() && { method_prefix: input.method.value.trim() }),
    ...(input.failed.checked && { failed_only: true }) });
  const t = new TxTable('Latest transactions', life, { filter: filter(), feed, each, empty: 'No transaction that fits' });
  const apply = (e) => {
    e?.preventDefault();
    const f = [input.account.value.trim(), input.method.value.trim(), input.failed.checked ? 'failed' : ''].map(encodeURIComponent).join('/').replace(/\/+$/, '');
    history.replaceState(null, '', '#/transactions' + (f ? '/' + f : ''));
    t.set(filter());
  };
  input.failed.addEventListener('change', apply);
  fill(main, el('h1', null, 'Transactions'), el('form', { class: 'row', id: 'filters', on: { submit: apply } }, el('label', null, 'Account', input.account), el('label', null, 'Method begins with', input.method), options,
    el('label', { class: 'check' }, input.failed, 'Failed only'), el('button', null, 'Filter')),
  el('p', { class: 'muted' }, 'An account fits as signer, receiver, executor of a receipt, or where an event of a token names it.'), t.element);
}

/**
 * accountHistory shows the transactions of an account in container, live: those that it signed, received, or ran a receipt of, and those whose
 * token events name it. life is the page's; feed, if given, is the stream of blocks that tells when to ask again (main.js passes both to pages).
 */
export function accountHistory(id, container, life, feed = null) {
  const t = new TxTable('Transactions of the account', life, { filter: { account_id: id }, limit: 25, feed, empty: 'No transaction', of: id });
  fill(container, t.element);
  return t;
}

const TOKENS = 30; // contracts that are asked for a balance

/**
 * tokens shows in container what tokens an account has: contracts with events of NEP-141, NEP-171 and NEP-245 that name the account in the blocks that
 * are read, each asked for the balance that it has for the account now. Events alone are not summed: a contract may say one thing and have another.
 */
export async function tokens(id, container, life) {
  const found = new Map();
  let at = null;
  let from = 0;
  fill(container, el('p', { class: 'muted', role: 'status' }, 'looking for tokens …'));
  const more = el('button', { type: 'button' }, 'Look further back');
  const look = async (rounds) => {
    for (let n = 0; n < rounds; n++) {
      const r = await call('troupe_transactions', { account_id: id, limit: 200, ...(at && { before: at }) }, life.over.signal);
      for (const t of r.tokens) if (!found.has(t.contract_id + t.standard)) found.set(t.contract_id + t.standard, t);
      at = r.next;
      from = r.from_height;
      if (!at || found.size >= TOKENS) break;
    }
    const rows = await Promise.all([...found.values()].slice(0, TOKENS).map((t) => balance(id, t, life.over.signal)));
    fill(container, rows.length || at ? [table('Tokens', [['Contract'], ['Token'], ['Balance', 'num'], ['Standard', 'wide'], ['Last event in block', 'num']], rows, 'No token event names the account' + (at ? ` in blocks from ${count(from)} on.` : '.'), { stack: true }),
      at ? more : null] : null);
  };
  more.addEventListener('click', () => look(5).catch((e) => fill(container, el('p', { class: 'bad' }, e.message))));
  try {
    await look(2);
  } catch (e) {
    if (!life.over.signal.aborted) fill(container, el('p', { class: 'bad' }, 'tokens: ', e.message));
  }
}

/** view calls a method of a token contract and returns what its reply means as JSON. */
export async function view(contract, method, args, signal) {
  const r = await call('query', { request_type: 'call_function', finality: 'optimistic', account_id: contract, method_name: method, args_base64: toBase64(JSON.stringify(args)) }, signal);
  return JSON.parse(new TextDecoder().decode(Uint8Array.from(r.result)));
}

/** units shows an amount of a token with so many decimals. */
export function units(amount, decimals) {
  if (!/^\d{1,60}$/.test(amount)) return cut(amount, 60);
  if (!Number.isInteger(decimals) || decimals <= 0 || decimals > 60) return count(BigInt(amount));
  const digits = amount.padStart(decimals + 1, '0');
  const rest = digits.slice(-decimals).replace(/0+$/, '');
  return count(BigInt(digits.slice(0, -decimals))) + (rest ? '.' + rest : '');
}

async function balance(id, t, signal) {
  const ask = (method, args) => view(t.contract_id, method, args, signal).catch((e) => {
    if (signal.aborted) throw e;
    return null;
  });
  const first = [link('account', t.contract_id)];
  const last = [t.standard.toUpperCase().replace('NEP', 'NEP-'), link('block', t.block_height, count(t.block_height))];
  if (t.standard === 'nep141') {
    const [amount, m] = await Promise.all([ask('ft_balance_of', { account_id: id }), ask('ft_metadata', {})]);
    return [...first, cut(String(m?.symbol ?? ''), 24), amount == null ? el('span', { class: 'muted' }, 'no answer') : units(String(amount), m?.decimals), ...last];
  }
  if (t.standard === 'nep171') {
    const [amount, m] = await Promise.all([ask('nft_supply_for_owner', { account_id: id }), ask('nft_metadata', {})]);
    return [...first, cut(String(m?.symbol ?? m?.name ?? ''), 24), amount == null ? el('span', { class: 'muted' }, 'no answer') : cut(String(amount), 24), ...last];
  }
  return [...first, 'multi token', '–', ...last];
}
