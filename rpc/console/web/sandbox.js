// What a sandbox can be told to do, by the methods that it has.
import { el, fill, list, say, table } from './dom.js';
import { bytes, clock, count } from './format.js';
import { elsewhere } from './place.js';
import { Refused, call } from './rpc.js';

let known = null;

/** isSandbox tells whether the node has these methods. */
export function isSandbox() {
  known ??= call('sandbox_set_production').then(() => true, (e) => !(e instanceof Refused && e.code === -32601) && e instanceof Refused);
  return known;
}

const number = (name, title, value, extra = {}) => ({ name, title, value, type: 'number', read: Number, min: 0, ...extra });
const words = (name, title, extra = {}) => ({ name, title, type: 'text', read: (s) => s, ...extra });
const list0 = (name, title) => words(name, title, { read: (s) => s.split(/[\s,]+/).filter(Boolean) });

/** controls are forms, made of what their methods take. make turns the fields into params. */
const controls = [
  ['Blocks and time', [
    ['sandbox_mine', 'Make blocks', [number('blocks', 'Blocks', 1, { min: 1, max: 10000 })]],
    ['sandbox_fast_forward', 'Go heights on', [number('delta_height', 'Heights', 100, { min: 1 })]],
    ['sandbox_next_epoch', 'Go to the next epoch', []],
    ['sandbox_set_clock', 'Advance the clock', [number('advance_nanosec', 'Seconds', 3600, { read: (s) => String(BigInt(Math.round(Number(s))) * 1000000000n) })]],
    ['sandbox_set_production', 'Make blocks by themselves', [{ name: 'mode', title: 'When', choices: ['instant', 'interval', 'manual'], read: (s) => s }]],
  ]],
  ['Snapshots', [['sandbox_snapshot', 'Take a snapshot', [words('name', 'Name, if it is to have one', { optional: true })]]]],
  ['State', [
    ['sandbox_set_balance', 'Set a balance', [words('account_id', 'Account'), words('amount', 'NEAR', { pattern: '\\d{1,15}', read: (s) => s + '0'.repeat(24) })]],
    ['sandbox_impersonate', 'Take unsigned transactions of', [list0('account_ids', 'Accounts')]],
  ]],
  ['Faults', [
    ['sandbox_reorg', 'Reorganise the head', [number('blocks', 'Blocks', 1, { min: 1 })]],
    ['sandbox_miss_chunks', 'Miss chunks', [number('blocks', 'Of so many blocks', 1), words('shard_ids', 'Shards, if not all', { optional: true, read: (s) => s.split(/[\s,]+/).filter(Boolean).map(Number) })]],
  ]],
  ['Worlds', [['sandbox_new_world', 'Make a world that goes on from here', []]]],
];

/** sandboxPage: the controls, what came of the last one, snapshots, clock, worlds. */
export async function sandboxPage(main, args, life) {
  if (!(await isSandbox())) {
    fill(main, el('h1', null, 'Sandbox'), el('p', null, 'This node is none: it has no methods that begin with ', el('code', null, 'sandbox_'), '.'));
    return;
  }
  const done = el('div', { id: 'done', role: 'status' });
  const now = el('div');
  const run = async (method, params, title) => {
    fill(done, el('p', { class: 'muted' }, title, ' …'));
    try {
      const r = await call(method, params);
      fill(done, el('p', { class: 'good' }, title, ': done'), r && Object.keys(r).length ? el('pre', null, JSON.stringify(r, null, 1)) : null);
    } catch (e) {
      fill(done, el('p', { class: 'bad' }, title, ' was refused'), el('pre', null, (e.cause ? e.cause + ': ' : '') + e.message));
      say(title + ' was refused');
    }
    await state().catch(() => {});
  };
  const state = async () => {
    const [snapshots, time, production, worlds] = await Promise.all([call('sandbox_snapshots'), call('sandbox_set_clock'), call('sandbox_set_production'), call('sandbox_worlds')]);
    const button = (title, method, id, label) => el('button', { type: 'button', 'aria-label': label, on: { click: () => run(method, { id }, label) } }, title);
    fill(now, list([['Clock', clock(time.timestamp_nanosec) + (time.frozen ? ', stands still' : '')], ['Blocks', production.mode]]),
      table('Snapshots', [['Name'], ['Height', 'num'], ['']], snapshots.map((s) => [s.id, count(s.height),
        [button('Go back', 'sandbox_revert', s.id, 'Go back to ' + s.id), ' ', button('Give up', 'sandbox_drop_snapshot', s.id, 'Give up ' + s.id)]])),
      table('Worlds', [['Id'], ['Head', 'num'], ['From'], ['Memory', 'num'], ['']], worlds.map((w) => [w.id, count(w.height), count(w.begin.height), bytes(w.bytes),
        [elsewhere(w.id, w.path), ' ', button('End', 'sandbox_drop_world', w.id, 'End world ' + w.id)]])));
  };
  fill(main, el('h1', null, 'Sandbox'), done, controls.map(([title, forms]) => el('section', { class: 'panel' }, el('h2', null, title), forms.map((f) => form(f, run)))), now);
  life.repeat(state, () => 3000);
}

function form([method, title, fields], run) {
  const inputs = fields.map((f) => (f.choices ? el('select', { name: f.name }, f.choices.map((c) => el('option', null, c))) :
    el('input', { name: f.name, type: f.type, min: f.min, max: f.max, value: f.value, pattern: f.pattern, required: !f.optional, spellcheck: 'false', autocomplete: 'off' })));
  return el('form', { class: 'row', data: { method }, on: { submit: (e) => {
    e.preventDefault();
    const params = {};
    fields.forEach((f, i) => {
      const v = inputs[i].value.trim();
      if (v || !f.optional) params[f.name] = f.read(v);
    });
    run(method, fields.length ? params : null, title);
  } } }, fields.map((f, i) => el('label', null, f.title, inputs[i])), el('button', null, title));
}
