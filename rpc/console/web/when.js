// Times in tables and lists: how long ago they were, which goes on by itself, or the time in UTC. A button in the head of each table switches all of them.
import { el, text } from './dom.js';
import { ago, clock } from './format.js';

let exact = false; // whether tables show the time itself

const shown = (e) => (exact && !e.dataset.ago ? clock(e.dataset.ns).slice(0, 19) : ago(e.dataset.ns));
const title = () => (exact ? 'Time (UTC)' : 'Age');

function renew() {
  for (const e of document.querySelectorAll('time[data-ns]')) text(e, shown(e));
}

if (globalThis.document) setInterval(() => { if (!document.hidden && !exact) renew(); }, 1000);

function time(ns, data) {
  const e = el('time', { datetime: new Date(Number(BigInt(ns) / 1000000n)).toISOString(), title: clock(ns), data: { ns, ...data } });
  text(e, shown(e));
  return e;
}

/** when shows a time in a table, and to the millisecond on request. */
export const when = (ns) => time(ns, {});

/** at shows a time to the millisecond, and how long ago that was. */
export const at = (ns) => [clock(ns), ' (', time(ns, { ago: 1 }), ')'];

/** heads makes the head of a table. The column Age has the button. */
export function heads(columns) {
  const button = () => el('button', { type: 'button', class: 'link age', title: 'Show the age or the time', on: { click: () => {
    exact = !exact;
    for (const b of document.querySelectorAll('button.age')) text(b, title());
    renew();
  } } }, title());
  return el('thead', null, el('tr', null, columns.map(([t, c]) => el('th', { scope: 'col', class: c }, t === 'Age' ? button() : t))));
}
