// An account: what it has, its keys, its contract with a form to call it, its storage.
import { copied, copy } from './copy.js';
import { cards, el, fill, link, list, say, segments, table } from './dom.js';
import { bytes, count, fromBase64, gas, near, number, readable, toBase64 } from './format.js';
import { Refused, call } from './rpc.js';
import { isSandbox, units } from './sandbox.js';
import { SYSTEM } from './search.js';
import { accountHistory, tokens } from './transactions.js';
import { permission } from './tx.js';
import { isUsable, unsignedCall } from './unsigned.js';

const NO_CODE = '11111111111111111111111111111111';

/** accountPage shows one account at the head. */
export async function accountPage(main, [id], life, feed) {
  if (id === SYSTEM) {
    fill(main, el('h1', null, 'Account ', id), el('p', null, 'The protocol itself: it sends refunds, and receipts that nobody signed. It has no balance, keys or contract, and no block has its state.'));
    return;
  }
  const signal = life.over.signal;
  const at = { finality: 'optimistic', account_id: id };
  const a = await call('query', { request_type: 'view_account', ...at }, signal).catch((e) => {
    if (e instanceof Refused && e.cause === 'UNKNOWN_ACCOUNT') return null;
    throw e;
  });
  if (!a) {
    const past = el('div');
    fill(main, el('h1', null, 'Account ', id), el('p', { class: 'bad panel' }, 'This chain has no account of this name at its head.',
      await isSandbox() ? [' The page ', el('a', { href: '#/sandbox' }, 'Sandbox'), ' can create one: under Accounts, set its balance.'] : null), past);
    accountHistory(id, past, life, feed);
    return;
  }
  const hasCode = a.code_hash !== NO_CODE;
  const global = a.global_contract_hash ?? a.global_contract_account_id;
  const figures = cards(['Balance', 'Staked', 'Storage', 'Keys', 'Contract']);
  figures.set('Balance', near(a.amount), 'at block ' + count(a.block_height));
  figures.set('Staked', a.locked === '0' ? '0' : near(a.locked));
  figures.set('Storage', bytes(a.storage_usage));
  figures.set('Contract', hasCode ? 'its own' : global ? 'global' : 'none');
  const keys = el('div');
  const [has, past] = [el('div'), el('div')];
  const methods = el('div', { class: 'chips' });
  const form = hasCode || global ? await callForm(id, methods) : null;
  const facts = [
    a.state === 'uninitialized' && ['State', 'uninitialized: it was funded, and waits for its state init'],
    a.bootstrap_nonce != null && ['Nonce of the state init', `${count(a.bootstrap_nonce + 1)} (if one of its own keys signs it)`],
    hasCode && ['Code hash', copied(a.code_hash, 'hash')],
    global && ['Global contract', el('code', null, global)],
  ].filter(Boolean);
  fill(main, el('h1', null, 'Account ', id, ' ', copy(id, 'account')), figures.element, facts.length ? list(facts) : null, form && form.element, has, past, keys, form && stateForm(id, at));
  tokens(id, has, life);
  accountHistory(id, past, life, feed);
  call('query', { request_type: 'view_access_key_list', limit: 200, ...at }, signal).then((r) => {
    const more = r.last_key ? ', and more' : '';
    figures.set('Keys', count(r.keys.length) + (more && '+'));
    fill(keys, table(`Keys (${count(r.keys.length)}${more})`, [['Key', 'mono'], ['Nonce', 'num'], ['Permission']],
      r.keys.map((k) => [copied(k.public_key, 'key'), count(k.access_key.nonce), permission(k.access_key.permission)]), 'It has none: no transaction of it can be signed.', { stack: true }));
  }, (e) => fill(keys, el('p', { class: 'bad' }, 'keys: ', e.message)));
  if (hasCode) {
    call('query', { request_type: 'view_code', ...at }, signal).then((r) => {
      const code = fromBase64(r.code_base64);
      figures.set('Contract', bytes(code.length), 'its own');
      form.offer(exported(code));
    }, (e) => fill(methods, el('p', { class: 'bad' }, 'code: ', e.message)));
  }
}

/** exported are the functions that a module exports, read from its bytes; what is no module has none. */
export function exported(b) {
  const out = [];
  const decoder = new TextDecoder();
  let at = 8;
  const leb = () => {
    let v = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const x = b[at++];
      if (x === undefined) throw new Error('it ends');
      v += (x & 127) * 2 ** shift;
      if (x < 128) return v;
    }
    throw new Error('too long');
  };
  try {
    while (at < b.length) {
      const section = b[at++];
      const size = leb();
      const end = at + size;
      if (section === 7) {
        for (let n = Math.min(leb(), 10000); n > 0 && out.length < 1000; n--) {
          const length = leb();
          const name = decoder.decode(b.subarray(at, at + Math.min(length, 256))) + (length > 256 ? '…' : '');
          at += length;
          const kind = b[at++];
          leb();
          if (kind === 0) out.push(name);
        }
        break;
      }
      at = end;
    }
  } catch { /* it is no module, and what was found was none */ }
  return out.sort();
}

/** callForm calls a method of the contract: as a view on the state of a block, or, in a sandbox, by a transaction. methods is where it offers the methods. */
async function callForm(id, methods) {
  const sandbox = await isSandbox();
  const known = el('datalist', { id: 'methods' });
  const field = (title, x, cls) => el('label', { class: cls }, title, x);
  const method = el('input', { name: 'method', list: 'methods', required: true, spellcheck: 'false', autocomplete: 'off' });
  const args = el('textarea', { name: 'args', spellcheck: 'false', placeholder: '{"account_id": "a.near"}' });
  const kind = el('select', { name: 'kind' }, [['text', 'JSON or text'], ['base64', 'base64']].map(([v, t]) => el('option', { value: v }, t)));
  const block = el('input', { name: 'block', placeholder: 'head', size: 12 });
  const signer = el('input', { name: 'signer', value: id, spellcheck: 'false', autocomplete: 'off' });
  const deposit = el('input', { name: 'deposit', value: '0', inputmode: 'decimal', size: 10 });
  const limit = el('input', { name: 'gas', value: '100', inputmode: 'decimal', size: 6 });
  const reading = [field('At block', block)];
  const writing = [field('Signed by', signer), field('Deposit (NEAR)', deposit), field('Gas (Tgas)', limit)];
  const hint = el('p', { class: 'muted', hidden: true }, 'The sandbox takes the transaction without a signature: it impersonates the signer, and from then on no other account.');
  const out = el('div', { 'aria-live': 'polite', id: 'result' });
  const button = el('button', { class: 'main' }, 'View');
  let write = false;
  const choose = (v) => {
    write = v;
    button.textContent = write ? 'Send' : 'View';
    hint.hidden = !write;
    for (const x of reading) x.hidden = write;
    for (const x of writing) x.hidden = !write;
  };
  choose(false);
  const input = () => (kind.value === 'base64' ? fromBase64(args.value.trim()) : new TextEncoder().encode(args.value));
  const run = async (e) => {
    e.preventDefault();
    button.disabled = true;
    try {
      if (write) await send();
      else await view();
    } catch (x) {
      fill(out, el('p', { class: 'bad' }, 'It failed.'), el('pre', { tabindex: 0 }, (x.cause ? x.cause + ': ' : '') + x.message));
      say('The call failed.');
    }
    button.disabled = false;
  };
  const view = async () => {
    const b = block.value.trim().replace(/,/g, '');
    const where = b ? { block_id: /^\d+$/.test(b) ? Number(b) : b } : { finality: 'optimistic' };
    const r = await call('query', { request_type: 'call_function', account_id: id, method_name: method.value, args_base64: toBase64(input()), ...where });
    const result = Uint8Array.from(r.result);
    fill(out, el('p', null, `${bytes(result.length)} at block ${count(r.block_height)}`), el('pre', { tabindex: 0 }, result.length ? readable(result, 65536) : 'nothing'), logs(r.logs));
  };
  const send = async () => {
    const from = signer.value.trim();
    const keys = await call('query', { request_type: 'view_access_key_list', account_id: from, finality: 'optimistic' });
    const key = keys.keys.find((k) => k.access_key.permission === 'FullAccess' && isUsable(k.public_key));
    if (!key) throw new Error(`${from} has no key with full access, which a transaction names: add one on the page Sandbox, under Accounts`);
    const signed = unsignedCall({ signer: from, key: key.public_key, nonce: BigInt(key.access_key.nonce) + 1n, receiver: id, block: keys.block_hash, method: method.value, args: input(),
      gas: BigInt(units(limit.value.trim(), 12)), deposit: units(deposit.value.trim(), 24) });
    await call('sandbox_impersonate', { account_ids: [from] });
    const r = await call('send_tx', { signed_tx_base64: toBase64(signed), wait_until: 'EXECUTED_OPTIMISTIC' });
    const all = [r.transaction_outcome, ...r.receipts_outcome];
    const failed = all.map((o) => o.outcome.status.Failure).find(Boolean);
    const value = r.status.SuccessValue && fromBase64(r.status.SuccessValue);
    fill(out, el('p', { class: failed ? 'bad' : 'good' }, failed ? 'It failed, in transaction ' : 'Done, in transaction ', link('tx', [r.transaction.hash, from])),
      el('p', { class: 'muted' }, gas(all.reduce((s, o) => s + o.outcome.gas_burnt, 0)), ' burnt by ', count(r.receipts_outcome.length), r.receipts_outcome.length === 1 ? ' receipt' : ' receipts'),
      failed || value?.length ? el('pre', { tabindex: 0 }, failed ? JSON.stringify(failed, null, 1) : readable(value, 65536)) : null, logs(all.flatMap((o) => o.outcome.logs)));
    say(failed ? 'The call failed.' : 'The call is done.');
  };
  const element = el('section', { class: 'panel', id: 'contract' }, el('h2', null, 'Contract'), methods, known,
    el('form', { id: 'call', class: 'stacked', on: { submit: run } },
      sandbox ? segments('How to call', [[false, 'View'], [true, 'Transaction']], false, choose) : null,
      el('div', { class: 'bar-of' }, field('Method', method, 'field'), [...reading, ...writing, field('Arguments as', kind)].map((x) => (x.className = 'field', x))),
      field('Arguments', args, 'field'), hint, button), out);
  return {
    element,
    offer(names) {
      known.replaceChildren(...names.map((m) => el('option', { value: m })));
      fill(methods, names.length ? names.map((m) => el('button', { type: 'button', on: { click: () => {
        method.value = m;
        args.focus();
      } } }, m)) : el('p', { class: 'muted' }, 'It exports no function.'));
    },
  };
}

const logs = (all) => (all.length ? [el('p', { class: 'muted' }, count(all.length), all.length === 1 ? ' log' : ' logs'), el('pre', { tabindex: 0 }, all.slice(0, 200).join('\n').slice(0, 65536))] : null);

const PAGE = 50; // values

/** show returns bytes in one of three ways, cut to a number of them. */
export function show(b, way, most) {
  const part = b.subarray(0, most);
  const more = b.length > most ? `… ${bytes(b.length)} in all` : '';
  if (way === 'hex') return Array.from(part, (x) => x.toString(16).padStart(2, '0')).join(' ') + more;
  if (way === 'json') return readable(b, most);
  const escaped = (s) => s.replace(/[\u0000-\u001f\u007f-\uffff]/g, (c) => '\\x' + c.charCodeAt(0).toString(16).padStart(2, '0')); // eslint-disable-line no-control-regex
  try {
    const s = new TextDecoder('utf-8', { fatal: true }).decode(part, { stream: part.length < b.length });
    return s.replace(/[\u0000-\u001f\u007f]/g, escaped) + more; // eslint-disable-line no-control-regex
  } catch { /* it is no text */ }
  let s = '';
  for (const x of part) s += String.fromCharCode(x);
  return escaped(s) + more;
}

/** stateForm shows storage, a page at a time, behind a prefix. */
function stateForm(id, at) {
  const prefix = el('input', { name: 'prefix', spellcheck: 'false', placeholder: 'all keys' });
  const out = el('div', { 'aria-live': 'polite' });
  const more = el('button', { type: 'button', hidden: true }, 'More');
  let way = 'text';
  let rows = [];
  let after = null;
  const draw = () => {
    if (rows.length || after === null) fill(out, table(`${count(rows.length)}${after ? ' and more' : ''} values`, [['Key', 'mono entry'], ['Value', 'mono'], ['Size', 'num wide']],
      rows.map(([k, v]) => [show(k, way, 200), el('div', { class: 'value' }, show(v, way, 1000), way !== 'hex' && number(v) ? el('div', { class: 'muted' }, number(v)) : null), bytes(v.length)]), 'No key begins so.'));
  };
  const read = async () => {
    try {
      const r = await call('query', { request_type: 'view_state', ...at, prefix_base64: toBase64(prefix.value), limit: PAGE, ...(after && { after_key_base64: after }) });
      rows = rows.concat(r.values.map((v) => [fromBase64(v.key), fromBase64(v.value)]));
      after = r.last_key ?? null;
      more.hidden = !after;
      draw();
    } catch (e) {
      fill(out, el('p', { class: 'bad' }, e.message));
    }
  };
  more.addEventListener('click', read);
  const ways = segments('Keys and values as', [['text', 'Text'], ['json', 'JSON'], ['hex', 'Hex']], way, (v) => {
    way = v;
    if (rows.length) draw();
  });
  return el('section', { class: 'panel', id: 'storage' }, el('h2', null, 'Storage'), el('form', { class: 'row', on: { submit: (e) => {
    e.preventDefault();
    rows = [];
    after = null;
    read();
  } } }, el('label', null, 'Keys that begin with', prefix), el('button', { class: 'main' }, 'Show'), ways), out, more);
}
