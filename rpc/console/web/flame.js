// A flame graph of the gas of a transaction, from the profile of a trace (the file format of speedscope).
import { el, fill, say, svg, table } from './dom.js';
import { count, cut, gas } from './format.js';

const ROW = 20;
const DEEP = 60; // levels that are drawn
const WIDE = 1000; // units of the drawing
const THIN = 0.6; // units below which nothing is drawn

/** merged makes one tree of a profile: calls of a function from the same stack are one node. {name, gas, own, calls, children} */
export function merged(file) {
  const root = { name: 'all', gas: 0, own: 0, calls: 1, children: new Map() };
  for (const p of file?.profiles ?? []) {
    const child = (of, name) => {
      if (!of.children.has(name)) of.children.set(name, { name, gas: 0, own: 0, calls: 0, children: new Map() });
      return of.children.get(name);
    };
    const top = child(root, p.name);
    const spent = p.endValue - p.startValue;
    top.calls++;
    top.gas += spent;
    root.gas += spent;
    const stack = [[top, p.startValue]];
    for (const e of p.events) {
      if (e.type === 'O') stack.push([child(stack.at(-1)[0], file.shared.frames[e.frame]?.name ?? '?'), e.at]);
      else if (stack.length > 1) {
        const [n, from] = stack.pop();
        n.calls++;
        n.gas += e.at - from;
      }
    }
  }
  const own = (n) => {
    n.own = n.gas;
    for (const c of n.children.values()) {
      own(c);
      n.own -= c.gas;
    }
  };
  own(root);
  return root;
}

/** hottest sums what functions burn by themselves, the most first. */
export function hottest(root, most = 15) {
  const by = new Map();
  const visit = (n) => {
    const x = by.get(n.name) ?? { name: n.name, own: 0, calls: 0 };
    x.own += n.own;
    x.calls += n.calls;
    by.set(n.name, x);
    for (const c of n.children.values()) visit(c);
  };
  for (const c of root.children.values()) visit(c);
  return [...by.values()].filter((x) => x.own > 0).sort((a, b) => b.own - a.own).slice(0, most);
}

/** boxes lays a tree out: [node, level, from, width] in units of the drawing. */
export function boxes(root) {
  const out = [];
  const visit = (n, level, from, width) => {
    out.push([n, level, from, width]);
    if (level + 1 >= DEEP) return;
    for (const c of [...n.children.values()].sort((a, b) => b.gas - a.gas)) {
      const w = n.gas > 0 ? (width * c.gas) / n.gas : 0;
      if (w < THIN) break; // the rest is smaller
      visit(c, level + 1, from, w);
      from += w;
    }
  };
  visit(root, 0, 0, WIDE);
  return out;
}

const hue = (name) => [...name].reduce((h, c) => (h * 31 + c.codePointAt(0)) % 5, 7) % 5;

/** flame shows a profile: a graph in which a click or Enter enlarges a function, and a table of what burns most. */
export function flame(file) {
  const root = merged(file);
  if (!root.gas) return el('p', { class: 'muted' }, 'No contract ran, so there is no gas by function.');
  const place = el('div', { class: 'scroll' });
  const back = el('button', { type: 'button', hidden: true, on: { click: () => show(root, true) } }, 'Whole graph');
  const show = (top, focus) => {
    const all = boxes(top);
    const height = (Math.max(...all.map(([, level]) => level)) + 1) * ROW;
    const drawn = svg('svg', { viewBox: `0 0 ${WIDE} ${height}`, class: 'flame', role: 'group', 'aria-label': `Gas by function of ${top.name}: ${gas(top.gas)}` });
    for (const [n, level, x, w] of all) {
      const said = `${n.name}: ${gas(n.gas)}, ${((100 * n.gas) / root.gas).toFixed(1)} %, ${count(n.calls)} calls`;
      const enter = () => {
        show(n, true);
        say(said);
      };
      drawn.append(svg('g', { role: 'button', tabindex: w > 12 ? '0' : '-1', 'aria-label': said, class: 'box h' + (n.children.size ? hue(n.name) : 'leaf'), on: { click: enter, keydown: (e) => {
        if (e.key === 'Enter' || e.key === ' ') {
          e.preventDefault();
          enter();
        }
      } } }, svg('title', null, said), svg('rect', { x, y: level * ROW, width: Math.max(w - 0.5, 0.4), height: ROW - 1 }),
      w > 40 ? svg('text', { x: x + 4, y: level * ROW + 14 }, cut1(n.name, Math.floor((w - 8) / 6.8))) : ''));
    }
    back.hidden = top === root;
    fill(place, drawn);
    if (focus) drawn.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
  };
  show(root, false);
  return el('div', null, place, el('p', null, back), table('What burns most by itself', [['Function', 'mono'], ['Gas', 'num'], ['Share', 'num'], ['Calls', 'num']],
    hottest(root).map((x) => [cut(x.name, 120), gas(x.own), ((100 * x.own) / root.gas).toFixed(1) + ' %', count(x.calls)])));
}

const cut1 = (s, n) => (s.length <= n ? s : n > 3 ? s.slice(0, n - 1) + '…' : '');
