// An account: what it has, its keys, its contract, its storage, and a form that calls the contract's methods as reads.
import { el, fill, list, say, table } from './dom.js';
import { bytes, count, fromBase64, near, readable, toBase64 } from './format.js';
import { call } from './rpc.js';
import { SYSTEM } from './search.js';

const NO_CODE = '11111111111111111111111111111111';

/** accountPage shows one account at the head. */
export async function accountPage(main, [id], life) {
  if (id === SYSTEM) {
    fill(main, el('h1', null, 'Account ', id), el('p', null, 'The protocol itself: it sends refunds, and receipts that nobody signed. It has no balance, keys or contract, and no block has its state.'));
    return;
  }
  const signal = life.over.signal;
  const at = { finality: 'optimistic', account_id: id };
  const a = await call('query', { request_type: 'view_account', ...at }, signal);
  const hasCode = a.code_hash !== NO_CODE;
  const global = a.global_contract_hash ?? a.global_contract_account_id;
  const keys = el('div', null, 'asking …');
  const contract = el('div');
  const methods = el('datalist', { id: 'methods' });
  fill(main, el('h1', null, 'Account ', id), list([
    ['Has', near(a.amount)],
    a.locked !== '0' && ['Staked', near(a.locked)],
    a.state === 'uninitialized' && ['State', 'uninitialized: it was funded, and waits for its state init'],
    a.bootstrap_nonce != null && ['Nonce of the state init', `${count(a.bootstrap_nonce + 1)} (if one of its own keys signs it)`],
    ['Storage', bytes(a.storage_usage)],
    hasCode && ['Code', el('code', null, a.code_hash)],
    global && ['Global contract', el('code', null, global)],
    ['At block', count(a.block_height)],
  ]), keys, hasCode || global ? [callForm(id, methods), contract, stateForm(id, at)] : el('p', { class: 'muted' }, 'It has no contract.'));
  call('query', { request_type: 'view_access_key_list', limit: 200, ...at }, signal).then((r) => {
    fill(keys, table(`Keys (${count(r.keys.length)}${r.last_key ? ', and more' : ''})`, [['Key', 'hash'], ['Nonce', 'num'], ['May']],
      r.keys.map((k) => [k.public_key, count(k.access_key.nonce), permission(k.access_key.permission)])));
  }, (e) => fill(keys, el('p', { class: 'bad' }, 'keys: ', e.message)));
  if (hasCode) {
    call('query', { request_type: 'view_code', ...at }, signal).then((r) => {
      const code = fromBase64(r.code_base64);
      const found = exported(code);
      methods.replaceChildren(...found.map((m) => el('option', { value: m })));
      fill(contract, el('h2', null, 'Contract'), list([['Size', bytes(code.length)], ['Methods', found.length ? el('span', { class: 'mono' }, found.join(', ')) : 'none']]));
    }, (e) => fill(contract, el('p', { class: 'bad' }, 'code: ', e.message)));
  }
}

function permission(p) {
  if (typeof p === 'string') return p;
  const [kind, f] = Object.entries(p)[0];
  if (kind !== 'FunctionCall') return kind;
  return `call ${f.method_names.length ? f.method_names.join(', ') : 'anything'} of ${f.receiver_id}, ${f.allowance == null ? 'any amount' : 'for ' + near(f.allowance)} of gas`;
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

/** callForm calls a method on the state of the head, and shows what it returned. */
function callForm(id, methods) {
  const method = el('input', { name: 'method', list: 'methods', required: true, spellcheck: 'false', autocomplete: 'off' });
  const args = el('textarea', { name: 'args', spellcheck: 'false', placeholder: '{"account_id": "a.near"}' });
  const kind = el('select', { name: 'kind' }, [['text', 'JSON or text'], ['base64', 'base64']].map(([v, t]) => el('option', { value: v }, t)));
  const block = el('input', { name: 'block', placeholder: 'head', size: 12 });
  const out = el('div', { 'aria-live': 'polite', id: 'result' });
  const button = el('button', null, 'Call');
  const run = async (e) => {
    e.preventDefault();
    button.disabled = true;
    try {
      const raw = kind.value === 'base64' ? args.value.trim() : toBase64(args.value);
      const b = block.value.trim();
      const where = b ? { block_id: /^\d+$/.test(b) ? Number(b) : b } : { finality: 'optimistic' };
      const r = await call('query', { request_type: 'call_function', account_id: id, method_name: method.value, args_base64: raw, ...where });
      const result = Uint8Array.from(r.result);
      fill(out, el('p', null, `${bytes(result.length)} at block ${count(r.block_height)}`), el('pre', null, result.length ? readable(result, 65536) : 'nothing'),
        r.logs.length ? [el('p', { class: 'muted' }, count(r.logs.length), ' logs'), el('pre', null, r.logs.join('\n'))] : null);
    } catch (x) {
      fill(out, el('p', { class: 'bad' }, 'It failed.'), el('pre', null, x.message));
      say('The call failed.');
    }
    button.disabled = false;
  };
  return el('section', { class: 'panel' }, el('h2', null, 'Call a view'), el('form', { id: 'call', on: { submit: run } },
    el('label', null, 'Method ', method), methods, ' ', el('label', null, 'Arguments as ', kind), ' ', el('label', null, 'At block ', block),
    el('label', null, el('span', { class: 'hidden' }, 'Arguments'), args), button), out);
}

const PAGE = 100;

/** stateForm shows storage, a page at a time, behind a prefix. */
function stateForm(id, at) {
  const prefix = el('input', { name: 'prefix', spellcheck: 'false', placeholder: 'all keys' });
  const out = el('div', { 'aria-live': 'polite' });
  const more = el('button', { type: 'button', hidden: true }, 'More');
  let rows = [];
  let after = null;
  const read = async () => {
    try {
      const r = await call('query', { request_type: 'view_state', ...at, prefix_base64: toBase64(prefix.value), limit: PAGE, ...(after && { after_key_base64: after }) });
      rows = rows.concat(r.values.map((v) => [readable(fromBase64(v.key), 200), readable(fromBase64(v.value), 400)]));
      after = r.last_key ?? null;
      more.hidden = !after;
      fill(out, table(`${count(rows.length)}${after ? ' and more' : ''} values`, [['Key', 'mono'], ['Value', 'mono']], rows));
    } catch (e) {
      fill(out, el('p', { class: 'bad' }, e.message));
    }
  };
  more.addEventListener('click', read);
  return el('section', { class: 'panel' }, el('h2', null, 'Storage'), el('form', { class: 'row', on: { submit: (e) => {
    e.preventDefault();
    rows = [];
    after = null;
    read();
  } } }, el('label', null, 'Keys that begin with', prefix), el('button', null, 'Show')), out, more);
}
