// A transaction's receipts drawn over shards and blocks: a column for each block, a lane for each shard, an arrow from each receipt to those that it made.
import { el, svg } from './dom.js';
import { count, gas, time } from './format.js';

const BOX = { h: 40, gap: 10, least: 136, most: 184 };
const BETWEEN = 40; // columns
const LEFT = 76; // names of the lanes
const TOP = 42; // heights of the columns
const PAD = 12; // of a lane, above and below
export const MOST = 80; // receipts that are drawn

const trim = (s, most) => (s.length > most ? s.slice(0, most - 1) + '…' : s);

/**
 * place gives each node a column, a lane and a place among those that share both. nodes: {id, parents, height, shard}, a parent before its children; a
 * height or shard that is not known is null, and comes last.
 */
export function place(nodes) {
  const sorted = (values) => [...new Set(values)].sort((a, b) => (a === null) - (b === null) || a - b);
  const heights = sorted(nodes.map((n) => n.height));
  const shards = sorted(nodes.map((n) => n.shard));
  const used = new Map();
  const at = new Map();
  for (const n of nodes) {
    const key = n.height + '/' + n.shard;
    const row = used.get(key) ?? 0;
    used.set(key, row + 1);
    at.set(n.id, { column: heights.indexOf(n.height), lane: shards.indexOf(n.shard), row });
  }
  const rows = shards.map((s) => Math.max(...heights.map((h) => used.get(h + '/' + s) ?? 0)));
  return { heights, shards, rows, at };
}

export const KINDS = { ok: ['✓', 'succeeded'], failed: ['✕', 'failed'], refund: ['↩', 'refund'], pending: ['…', 'has not run'] };

/**
 * timeline draws nodes: {id, parents, height, shard, kind, title, sub, gas, href}. times: of blocks by height, ns as BigInt. It returns an element with the
 * drawing, its legend, and a sentence that says the same. room: the width in px that the drawing fits into, if its columns are not too narrow then.
 */
export function timeline(nodes, times, room = 0) {
  const all = nodes.length;
  nodes = nodes.slice(0, MOST);
  const { heights, shards, rows, at } = place(nodes);
  const tops = [];
  let height = TOP;
  for (const r of rows) {
    tops.push(height);
    height += 2 * PAD + r * BOX.h + (r - 1) * BOX.gap;
  }
  const box = Math.min(BOX.most, Math.max(BOX.least, Math.floor((room - LEFT) / heights.length) - BETWEEN));
  const column = box + BETWEEN;
  const width = LEFT + heights.length * column;
  const xy = (id) => {
    const p = at.get(id);
    return p && [LEFT + p.column * column + 10, tops[p.lane] + PAD + p.row * (BOX.h + BOX.gap)];
  };
  const first = heights.map((h) => times.get(h)).find((t) => t !== undefined);
  const drawn = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'timeline', role: 'group', 'aria-label': words(nodes, heights, shards, times) });
  shards.forEach((s, i) => {
    const bottom = i + 1 < tops.length ? tops[i + 1] : height;
    drawn.append(svg('rect', { class: i % 2 ? 'lane odd' : 'lane', x: 0, y: tops[i], width, height: bottom - tops[i] }),
      svg('text', { class: 'axis', x: 8, y: (tops[i] + bottom) / 2 + 4, 'aria-hidden': 'true' }, s === null ? 'shard ?' : 'shard ' + s));
  });
  heights.forEach((h, i) => {
    const x = LEFT + i * column + 10;
    const t = times.get(h);
    drawn.append(svg('line', { class: 'grid', x1: x - 12, y1: 4, x2: x - 12, y2: height }),
      svg('text', { class: 'axis strong', x, y: 17, 'aria-hidden': 'true' }, h === null ? 'not yet' : '#' + count(h)),
      t === undefined ? '' : svg('text', { class: 'axis', x, y: 33, 'aria-hidden': 'true' }, t === first ? '+0' : '+' + time(Number(t - first))));
  });
  for (const n of nodes) {
    const to = xy(n.id);
    for (const parent of n.parents) {
      const from = xy(parent);
      if (from) drawn.append(arrow(from, to, n.kind, box));
    }
  }
  nodes.forEach((n, i) => {
    const [x, y] = xy(n.id);
    const [sign, said] = KINDS[n.kind];
    const label = `${i + 1} of ${nodes.length}: ${n.title}, ${n.sub}, ${n.shard === null ? '' : `shard ${n.shard}, `}${n.height === null ? '' : `block ${n.height}, `}${said}, ${gas(n.gas)}`;
    drawn.append(svg('a', { href: n.href, class: 'receipt ' + n.kind, 'aria-label': label },
      svg('title', null, label),
      svg('rect', { x, y, width: box, height: BOX.h, rx: 6 }),
      svg('text', { class: 'sign', x: x + 9, y: y + 17 }, sign),
      svg('text', { class: 'name', x: x + 26, y: y + 17 }, trim(n.title, Math.floor((box - 30) / 7.2))),
      svg('text', { class: 'sub', x: x + 26, y: y + 32 }, trim(n.sub, Math.floor((box - 30) / 6.2)))));
  });
  return el('figure', { class: 'timeline' }, el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Receipts over shards and blocks' }, drawn),
    el('figcaption', null, el('ul', { class: 'signs' }, Object.entries(KINDS).filter(([k]) => nodes.some((n) => n.kind === k)).map(([k, [sign, said]]) => el('li', { class: k }, sign + ' ' + said))),
      all > nodes.length ? `the first ${nodes.length} of ${count(all)} receipts` : null));
}

/** arrow is a curve from the right side of a receipt to the left side of another, or down to one that ran in the same block. */
function arrow([x1, y1], [x2, y2], kind, box) {
  const mid = BOX.h / 2;
  const same = x2 <= x1;
  const d = same ? `M${x1 + 16} ${y1 + (y2 > y1 ? BOX.h : 0)}V${y2 + (y2 > y1 ? -5 : BOX.h + 5)}` :
    `M${x1 + box} ${y1 + mid}C${x1 + box + 22} ${y1 + mid} ${x2 - 26} ${y2 + mid} ${x2 - 6} ${y2 + mid}`;
  const tip = same ? (y2 > y1 ? `M${x1 + 12} ${y2 - 6}l4 6l4 -6z` : `M${x1 + 12} ${y2 + BOX.h + 6}l4 -6l4 6z`) : `M${x2 - 7} ${y2 + mid - 4}l7 4l-7 4z`;
  return svg('g', { class: 'arrow ' + kind, 'aria-hidden': 'true' }, svg('path', { d }), svg('path', { class: 'tip', d: tip }));
}

/** words says what the drawing shows. */
export function words(nodes, heights, shards, times) {
  const of = (k) => nodes.filter((n) => n.kind === k).length;
  const known = heights.filter((h) => h !== null);
  const t = known.map((h) => times.get(h)).filter((x) => x !== undefined);
  const took = t.length > 1 ? `, ${time(Number(t.at(-1) - t[0]))} from the first to the last` : '';
  const counts = Object.keys(KINDS).filter(of).map((k) => `${of(k)} ${KINDS[k][1]}`).join(', ');
  return `${nodes.length} steps in ${known.length} ${known.length === 1 ? 'block' : 'blocks'} and ${shards.length} ${shards.length === 1 ? 'shard' : 'shards'}${took}: ${counts}`;
}

/** shardOf returns the shard of an account by a layout of EXPERIMENTAL_protocol_config; null: it is not known. */
export function shardOf(account, layout) {
  const [version, l] = Object.entries(layout ?? {})[0] ?? [];
  if (version === 'V0') return Number(l.num_shards) === 1 ? 0 : null; // by a hash
  if (!Array.isArray(l?.boundary_accounts)) return null;
  const index = l.boundary_accounts.filter((b) => b <= account).length; // names are ASCII, so this is the order of their bytes
  return l.shard_ids ? l.shard_ids[index] ?? null : index;
}
