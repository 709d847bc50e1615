// The page of a sandbox: its state, and forms for the methods that control it, by task.
import { cards, confirmed, el, fill, link, list, say, table } from './dom.js';
import { bytes, clock, count, gas, near, toBase64 } from './format.js';
import { elsewhere } from './place.js';
import { Refused, call } from './rpc.js';

let known = null;

/** isSandbox returns whether the node has the methods that control a sandbox. */
export function isSandbox() {
  known ??= call('sandbox_set_production').then(() => true, (e) => !(e instanceof Refused && e.code === -32601) && e instanceof Refused);
  return known;
}

/** units reads a decimal amount with that many decimals, as whole units in a string. */
export function units(s, decimals) {
  const m = /^(\d{1,20})(?:\.(\d+))?$/.exec(s.replace(/_/g, ''));
  if (!m) throw new Error(`"${s}" is not an amount: write digits with at most one point, such as 12.5`);
  const rest = m[2] ?? '';
  if (rest.length > decimals) throw new Error(`"${s}" has ${rest.length} decimals, and ${decimals} is the most`);
  return (m[1] + rest.padEnd(decimals, '0')).replace(/^0+(?=\d)/, '');
}

/** seconds reads a decimal number of seconds, as nanoseconds in a string. */
const seconds = (s) => units(s, 9);

const words = (s) => s.split(/[\s,]+/).filter(Boolean);

/** fileBytes and fileText read the chosen file. */
const fileBytes = async (f) => new Uint8Array(await f.arrayBuffer());
const fileText = (f) => f.text();

// Fields: name, title, and how the value becomes a parameter. An empty optional field is no parameter.
const number = (name, title, value, extra = {}) => ({ name, title, value, type: 'number', read: Number, min: 1, ...extra });
const text = (name, title, extra = {}) => ({ name, title, type: 'text', read: (s) => s, ...extra });
const decimal = (name, title, read, extra = {}) => text(name, title, { inputmode: 'decimal', read, ...extra });
const account = (name, title = 'Account', extra = {}) => text(name, title, { placeholder: 'alice.test.near', ...extra });
const accounts = (name, title, extra = {}) => text(name, title, { placeholder: 'a.near, b.near', read: words, ...extra });
const check = (name, title, extra = {}) => ({ name, title, type: 'checkbox', ...extra });
const choice = (name, title, choices, extra = {}) => ({ name, title, choices, read: (s) => s, ...extra });

const DAY = 86400;
const UNITS = [['seconds', 1], ['minutes', 60], ['hours', 3600], ['days', DAY]];

/** save hands a text to the browser as a file. */
function save(name, body, kind = 'application/json') {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(new Blob([body], { type: kind }));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 60_000);
}

/**
 * Task is a form: { method, title, help, fields, button, params, warning, show }. params makes the parameters of the fields' values (default: the
 * values themselves); warning is a question to confirm, null: none; show is what the result looks like (default: JSON).
 */
const tasks = {
  blocks: [
    { method: 'sandbox_mine', title: 'Make blocks now', help: 'At once, in every mode of production.', fields: [number('blocks', 'Blocks', 1, { max: 10000 })], button: 'Make', show: (r) => ['The head is ', link('block', r.hash, count(r.height)), '.'] },
    { method: 'sandbox_set_production', title: 'When blocks are made', help: 'instant: as soon as a transaction waits; interval: at a steady pace; manual: only on request.',
      fields: [choice('mode', 'Mode', ['instant', 'interval', 'manual'], { id: 'mode' }), decimal('interval_nanosec', 'Seconds between idle blocks', seconds, { optional: true, placeholder: 'as now' }), check('quiet', 'No block while nothing waits')], button: 'Set', params: (v) => ({ quiet: false, ...v }) },
    { method: 'sandbox_fast_forward', title: 'Skip heights', help: 'Time passes as it would have. Only the blocks that this needs are made.', fields: [number('delta_height', 'Heights', 100)], button: 'Skip' },
    { method: 'sandbox_next_epoch', title: 'Next epoch', help: 'Skips to the first block of the next epoch.', fields: [], button: 'Go to the next epoch' },
    { method: 'sandbox_miss_chunks', title: 'Miss chunks', help: 'Leaves new chunks out of the next blocks, as if their producers failed. 0 blocks ends it.',
      fields: [number('blocks', 'Blocks', 1, { min: 0 }), text('shard_ids', 'Shards', { optional: true, placeholder: 'all', read: (s) => words(s).map(Number) })], button: 'Miss' },
    { method: 'sandbox_reorg', title: 'Reorganise', help: 'Another branch wins, as with a fork of the chain. Its transactions return to the pool.', fields: [number('blocks', 'Blocks to drop', 1)], button: 'Reorganise',
      warning: (v) => `The last ${v.blocks === 1 ? 'block' : count(v.blocks) + ' blocks'} will be dropped.` },
  ],
  time: [
    { method: 'sandbox_set_clock', id: 'advance', title: 'Move the clock forward', help: 'The next block is that much later.', fields: [decimal('amount', 'By', (s) => s, { value: '1' }), choice('unit', 'Unit', UNITS.map(([u]) => u), { value: 'hours' })], button: 'Move',
      params: (v) => ({ advance_nanosec: String(BigInt(seconds(v.amount)) * BigInt(UNITS.find(([u]) => u === v.unit)[1])) }) },
    { method: 'sandbox_set_clock', id: 'set', title: 'Set the clock', help: 'To a later time, in UTC. Only a snapshot leads back.', fields: [{ name: 'time', title: 'Time (UTC)', type: 'datetime-local', step: 1, read: (s) => s }], button: 'Set',
      params: (v) => ({ timestamp_nanosec: BigInt(Date.parse(v.time + 'Z')) * 1000000n + '' }) },
    { method: 'sandbox_set_clock', id: 'frozen', title: 'Freeze the clock', help: 'All blocks have the same time (and a nanosecond) until it runs again.', fields: [], button: 'Freeze', params: () => ({ frozen: true }), other: ['Run', () => ({ frozen: false })] },
    { method: 'sandbox_set_clock', id: 'interval', title: 'Fixed time between blocks', help: 'Whatever the clock says. 0 ends it.', fields: [decimal('interval_nanosec', 'Seconds', seconds, { value: '1' })], button: 'Set' },
  ],
  accounts: [
    { method: 'sandbox_set_balance', title: 'Set a balance', help: 'A missing account is created, without keys.', fields: [account('account_id'), decimal('amount', 'NEAR', (s) => units(s, 24), { placeholder: '12.5' })], button: 'Set' },
    { method: 'sandbox_deal', title: 'Set a token balance', help: 'Of a NEP-141 token, by the value that ft_balance_of reads. The total supply stays.',
      fields: [account('token_id', 'Token', { placeholder: 'token.test.near' }), account('account_id'), decimal('amount', 'Amount', (s) => s, { placeholder: '12.5' }), choice('unit', 'In', ['tokens', 'smallest units'])], button: 'Set',
      params: async ({ unit, amount, ...v }) => ({ ...v, amount: units(amount, unit === 'tokens' ? await decimals(v.token_id) : 0) }) },
    { method: 'sandbox_set_key', title: 'Add or remove a key', help: 'A new key has full access.', fields: [account('account_id'), text('public_key', 'Public key', { placeholder: 'ed25519:…' }), number('nonce', 'Nonce', '', { min: 0, optional: true, placeholder: '0' }), check('remove', 'Remove it')], button: 'Write',
      warning: (v) => (v.remove ? `The key ${v.public_key} of ${v.account_id} will be removed.` : null) },
    { method: 'sandbox_set_code', title: 'Set the code', help: 'Of an existing account. No function of it is called.', fields: [account('account_id'), { name: 'code', title: 'WebAssembly file', type: 'file', accept: '.wasm', optional: true, read: fileBytes }, check('remove', 'Remove the code')], button: 'Write',
      params: (v) => {
        if (!v.remove && !v.code) throw new Error('choose a file, or tick "Remove the code"');
        return { account_id: v.account_id, code_base64: v.remove ? null : toBase64(v.code) };
      },
      warning: (v) => `The present code of ${v.account_id} will be ${v.remove ? 'removed' : 'replaced'}.` },
    { method: 'sandbox_impersonate', title: 'Impersonate', help: 'Unsigned transactions of these accounts are accepted, and of no others. Leave it empty to end it.', fields: [accounts('account_ids', 'Accounts', { optional: true }), check('all', 'All accounts')], button: 'Set' },
    { method: 'sandbox_mock_verification', title: 'Accept signatures in contracts', help: 'These host functions accept every signature of the right form, until the node ends.',
      fields: [check('ed25519_verify', 'ed25519_verify'), check('p256_verify', 'p256_verify'), text('ecrecover', 'ecrecover returns', { optional: true, placeholder: 'secp256k1:…' })], button: 'Set' },
  ],
  worlds: [
    { method: 'sandbox_snapshot', title: 'Take a snapshot', help: 'Of state, waiting transactions, clock and epoch. A snapshot of the same name is replaced.', fields: [text('name', 'Name', { optional: true, placeholder: 'a number' })], button: 'Take' },
    { method: 'sandbox_new_world', title: 'Make a world', help: 'A chain in this process that continues from here, or from a snapshot. Neither sees later changes of the other.',
      fields: [text('snapshot', 'From', { optional: true, placeholder: 'the head' }), check('quiet', 'No block while nothing waits'), check('port', 'A port of its own')], button: 'Make',
      show: (r) => ['Its console: ', elsewhere(r.id, r.path)] },
    { method: 'sandbox_dump_state', title: 'Save the state', help: 'As records in a file, which the next form, sandbox_patch_state and genesis.json take.', fields: [accounts('account_ids', 'Accounts', { optional: true, placeholder: 'all' })], button: 'Save',
      show: (r) => {
        save(`state-${r.height}.json`, JSON.stringify({ records: r.records }));
        return `${count(r.records.length)} records of block ${count(r.height)}, in state-${r.height}.json.`;
      } },
    { method: 'sandbox_load_state', title: 'Load a state', help: 'Writes the records of a file. Accounts in it are then as they were when it was saved.', fields: [{ name: 'records', title: 'File', type: 'file', accept: '.json', read: fileText }], button: 'Load',
      params: (v) => {
        const all = JSON.parse(v.records);
        return { records: Array.isArray(all) ? all : all.records };
      },
      warning: () => 'All keys, code and data that the accounts in the file have now, and that are not in it, will be removed.' },
  ],
  gas: [
    { method: 'sandbox_tag', title: 'Open a tag', help: 'Transactions submitted from now on belong to it. An empty name closes the open one.', fields: [text('name', 'Name', { optional: true })], button: 'Open', params: (v) => (v.name ? v : null) },
  ],
  fork: [
    { method: 'sandbox_fork', id: 'reset', title: 'Reset accounts', help: 'To what they were when the fork was made.', fields: [accounts('reset', 'Accounts')], button: 'Reset', warning: (v) => `What this chain has changed at ${v.reset.join(', ')} will be lost.` },
    { method: 'sandbox_fork', id: 'cut', title: 'Cut accounts off', help: 'The other chain is hidden at them. Changes made here stay.', fields: [accounts('cut', 'Accounts')], button: 'Cut' },
    { method: 'sandbox_fork', id: 'live', title: 'Follow the other chain', help: 'At these accounts, until they are reset or cut.', fields: [accounts('live', 'Accounts')], button: 'Follow', warning: (v) => `What this chain has changed at ${v.live.join(', ')} will be lost.` },
  ],
};

/** decimals asks a token how many it has. */
async function decimals(token) {
  const r = await call('query', { request_type: 'call_function', account_id: token, method_name: 'ft_metadata', args_base64: '', finality: 'optimistic' });
  return JSON.parse(new TextDecoder().decode(Uint8Array.from(r.result))).decimals;
}

/** sandboxPage: the state of the sandbox, and its tasks. */
export async function sandboxPage(main, args, life) {
  if (!(await isSandbox())) {
    fill(main, el('h1', null, 'Sandbox'), el('p', null, 'This node is no sandbox: it has no methods that begin with ', el('code', null, 'sandbox_'), '.'));
    return;
  }
  const done = el('div', { id: 'done', role: 'status', hidden: true });
  const note = (...children) => {
    fill(done, el('button', { type: 'button', class: 'small', on: { click: () => { done.hidden = true; } } }, 'Close'), ...children);
    done.hidden = false;
  };
  const run = async (title, method, params, show) => {
    note(el('p', { class: 'muted' }, title, ' …'));
    try {
      const r = await call(method, typeof params === 'function' ? await params() : params);
      note(el('p', { class: 'good' }, title, ': done'), show ? el('p', null, show(r)) : r && Object.keys(r).length ? el('pre', { tabindex: 0 }, JSON.stringify(r, null, 1)) : null);
    } catch (e) {
      note(el('p', { class: 'bad' }, title, ' was refused'), el('p', { class: 'mono' }, (e.cause ? e.cause + ': ' : '') + e.message));
      say(title + ' was refused');
    }
    await state().catch(() => {});
  };
  const button = (title, label, cls, press) => el('button', { type: 'button', class: 'small ' + cls, 'aria-label': label, on: { click: press } }, title);
  const ask = (title, label, method, params, warning) => button(title, label, 'danger', async () => { if (await confirmed(warning, title)) run(label, method, params); });

  const now = cards(['Head', 'Blocks', 'Clock', 'Snapshots', 'Worlds', 'Mocked checks']);
  const lists = { worlds: el('div'), gas: el('div'), fork: el('div') };
  let first = true;
  const state = async () => {
    const [status, snapshots, time, production, worlds, tags] = await Promise.all(['status', 'sandbox_snapshots', 'sandbox_set_clock', 'sandbox_set_production', 'sandbox_worlds', 'sandbox_tags'].map((m) => call(m)));
    const fork = await call('sandbox_fork').catch(() => null); // refused where the chain is none
    now.set('Head', count(status.sync_info.latest_block_height), 'of ' + status.chain_id);
    now.set('Blocks', production.mode, production.mode === 'manual' ? 'on request only' : production.quiet ? 'none while nothing waits' : `idle: every ${Number(production.interval_nanosec) / 1e9} s`);
    now.set('Clock', clock(time.timestamp_nanosec).slice(11, 19), clock(time.timestamp_nanosec).slice(0, 10) + ' UTC' + (time.frozen ? ', frozen' : time.interval_nanosec !== '0' ? `, ${Number(time.interval_nanosec) / 1e9} s between blocks` : ''));
    now.set('Snapshots', count(snapshots.length), snapshots.length ? 'newest at ' + count(snapshots.at(-1).height) : 'none taken');
    now.set('Worlds', count(worlds.length), worlds.length ? bytes(worlds.reduce((s, w) => s + w.bytes, 0)) : 'none made');
    const mocked = status.mocked_verification ?? [];
    now.set('Mocked checks', count(mocked.length), mocked.join(', ') || 'signatures are verified');
    if (first) { // forms begin with what is set
      first = false;
      const form = main.querySelector('form[data-method=sandbox_set_production]');
      form.elements.mode.value = production.mode;
      form.elements.quiet.checked = production.quiet;
    }
    fill(lists.worlds,
      table('Snapshots', [['Name'], ['Height', 'num'], ['Action', 'keep num']], snapshots.map((s) => [s.id, count(s.height), [
        ask('Revert', 'Revert to ' + s.id, 'sandbox_revert', { id: s.id }, `The chain goes back to block ${count(s.height)}. Later blocks and later snapshots will be lost.`), ' ',
        ask('Drop', 'Drop snapshot ' + s.id, 'sandbox_drop_snapshot', { id: s.id }, `The snapshot ${s.id} will be dropped.`)]]), 'No snapshot has been taken.'),
      table('Worlds', [['Console'], ['Head', 'num'], ['From', 'num wide'], ['Memory', 'num wide'], ['Action', 'keep num']], worlds.map((w) => [elsewhere(w.id, w.path), count(w.height), count(w.begin.height), bytes(w.bytes),
        ask('End', 'End world ' + w.id, 'sandbox_drop_world', { id: w.id }, `World ${w.id} and all worlds that continue it will be lost.`)]), 'No world has been made.'));
    fill(lists.gas, table('Tags', [['Name'], ['Transactions', 'num'], ['Action', 'keep num']], tags.map((t) => [[t.name, t.open ? [' ', el('span', { class: 'tag good' }, 'open')] : null], count(t.transactions), [
      button('Gas', 'Gas of ' + t.name, '', () => run('Gas of ' + t.name, 'sandbox_profile', { name: t.name }, (r) => fill(profile, gasProfile(t.name, r)) ?? 'See below.')), ' ',
      ask('Drop', 'Drop tag ' + t.name, 'sandbox_drop_tag', { name: t.name }, `The tag ${t.name} will be dropped.`)]]), 'No tag has been opened.'));
    forkSection.hidden = !fork;
    if (fork) fill(lists.fork, forkFacts(fork));
  };
  const profile = el('div');
  const section = (title, key, ...more) => el('section', { class: 'panel', id: 'task-' + key }, el('h2', null, title), tasks[key].map((t) => form(t, run)), more);
  const forkSection = section('Fork', 'fork', lists.fork);
  forkSection.hidden = true;
  fill(main, el('h1', null, 'Sandbox'), now.element, el('div', { class: 'columns' },
    el('div', null, section('Make blocks', 'blocks'), section('Time', 'time'), section('Gas by tag', 'gas', lists.gas, profile)),
    el('div', null, section('Snapshots and worlds', 'worlds', lists.worlds), section('Accounts', 'accounts'), forkSection)), done);
  life.repeat(state, () => 3000);
}

/** gasProfile shows the gas of a tag by function. */
function gasProfile(name, r) {
  const rows = r.functions.slice(0, 30).map((f) => [link('account', f.account_id), el('span', { class: 'mono' }, f.name), count(f.calls), gas(f.gas), gas(f.gas_total)]);
  return [list([['Transactions', count(r.transactions) + (r.waiting ? `, and ${count(r.waiting)} not yet run` : '')], ['Gas burnt', gas(r.gas_burnt)], ['Of it in contracts', gas(r.gas_calls)]]),
    table('Functions in ' + name, [['Account', 'wide'], ['Function'], ['Calls', 'num'], ['Own gas', 'num'], ['With callees', 'num wide']], rows, 'No contract was called.'),
    table('Host functions in ' + name, [['Function', 'mono'], ['Calls', 'num'], ['Gas', 'num']], r.host_functions.slice(0, 20).map((f) => [f.name, count(f.calls), gas(f.gas)]), 'None was called.')];
}

/** forkFacts shows what the chain is a fork of, and what was asked of the other node. */
function forkFacts(f) {
  return list([
    ['Of', el('code', null, f.url)],
    ['Chain', f.chain_id],
    ['At block', count(f.block_height)],
    ['Requests', `${count(f.requests)}, ${bytes(f.bytes)}` + (f.failures ? `; ${count(f.failures)} failed` : '')],
    ['Answers', `${count(f.answers.proven)} proven, ${count(f.answers.unproven)} not, ${count(f.answers.from_disk)} from disk, ${count(f.answers.from_memory)} from memory`],
    f.cut.length && ['Cut off', f.cut.join(', ')],
    f.live.length && ['Live', f.live.join(', ')],
    f.last_error && ['Last error', el('span', { class: 'bad' }, f.last_error)],
  ]);
}

/** input makes the element of a field. */
function input(f) {
  if (f.choices) {
    const s = el('select', { name: f.name }, f.choices.map((c) => el('option', null, c)));
    if (f.value) s.value = f.value;
    return s;
  }
  return el('input', { name: f.name, type: f.type, min: f.min, max: f.max, step: f.step, value: f.value, accept: f.accept, placeholder: f.placeholder, inputmode: f.inputmode,
    required: !f.optional && f.type !== 'checkbox', spellcheck: 'false', autocomplete: 'off' });
}

/** form makes the form of a task. */
function form(t, run) {
  const inputs = t.fields.map(input);
  const values = async () => {
    const out = {};
    for (const [i, f] of t.fields.entries()) {
      const x = inputs[i];
      if (f.type === 'checkbox') {
        if (x.checked) out[f.name] = true;
      } else if (f.type === 'file') {
        if (x.files[0]) out[f.name] = await f.read(x.files[0]);
      } else {
        const v = x.value.trim();
        if (v || !f.optional) out[f.name] = f.read(v);
      }
    }
    return out;
  };
  const submit = async (params = t.params) => {
    let v;
    try {
      v = await values();
    } catch (e) {
      run(t.title, t.method, () => { throw e; });
      return;
    }
    const warning = t.warning?.(v);
    if (warning && !(await confirmed(warning, t.button))) return;
    run(t.title, t.method, () => (params ? params(v) : t.fields.length ? v : null), t.show);
  };
  return el('div', { class: 'task' }, el('p', null, el('strong', null, t.title), t.help),
    el('form', { class: 'row', data: { method: t.method, task: t.id ?? t.method }, on: { submit: (e) => {
      e.preventDefault();
      submit();
    } } }, t.fields.map((f, i) => (f.type === 'checkbox' ? el('label', { class: 'check' }, inputs[i], f.title) : el('label', null, f.title, inputs[i]))),
    el('button', { class: 'main' }, t.button), t.other ? el('button', { type: 'button', on: { click: () => submit(t.other[1]) } }, t.other[0]) : null));
}
