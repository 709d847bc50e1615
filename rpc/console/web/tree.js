// The tree of actors: what comes of the node's list in what order. No page, no clock.
import { quantile } from './charts.js';

const natural = (a, b) => {
  const x = a.sort;
  const y = b.sort;
  return x.text < y.text ? -1 : x.text > y.text ? 1 : x.number - y.number;
};

/** sortKey has session-9 stand before session-10. */
function sortKey(name) {
  const m = /^(.*?)(\d*)$/.exec(name);
  return { text: m[1], number: m[2] ? Number(m[2]) : -1 };
}

/**
 * measured is the kind whose latencies a row shows: they are known by kind, so an actor has them if it is the only one of its kind, and else the row of all of
 * them. null: it shows none.
 */
export const measured = (n) => (n.all || n.kind?.alive === 1 ? n.kind : null);

/** common is the lowest node above two, or one of them. */
function common(a, b) {
  for (let x = b; x; x = x.parent) if (x === a) return a; // mostly
  const above = new Set();
  for (let x = a; x; x = x.parent) above.add(x);
  for (let x = b; x; x = x.parent) if (above.has(x)) return x;
  return null;
}

const STEP = 400; // nodes, some tenths of a ms

const sum = (a) => a.reduce((x, y) => x + y, 0);

/** Tree keeps the actors between two lists, so that what they did since is known. */
export class Tree {
  constructor() {
    this.nodes = new Map();
    this.top = this.node('node', null);
    this.folded = new Set();
    this.kinds = new Map();
    this.all = new Map(); // rows of all actors of a kind, by their ids
    this.by = 'name';
    this.up = true;
    this.filter = '';
    this.turn = 0;
    this.asked = 0;
  }

  node(id, parent) {
    const name = id.slice(id.lastIndexOf('/') + 1);
    const n = { id, key: id, name, sort: sortKey(name), parent, below: [], group: true, mailbox: 0, messages: 0, rate: null, oldest: 0, since: 0, kind: null, level: 0, open: null };
    this.nodes.set(id, n);
    if (parent) parent.below.push(n);
    return n;
  }

  /** find returns a node, made with those above it where they are no actors of the list. */
  find(id) {
    const known = this.nodes.get(id);
    if (known) return known;
    const slash = id.lastIndexOf('/');
    this.moved = true;
    return this.node(id, slash < 0 ? this.top : this.find(id.slice(0, slash)));
  }

  /** update takes a list; at is when it came, ms. It is a generator: each step is short, and the rows of before stay until the last. */
  * update(list, at) {
    const span = this.at == null ? null : (at - this.at) / 1000;
    const anew = this.uptime != null && list.uptime_ns < this.uptime; // another process
    this.at = at;
    this.uptime = list.uptime_ns;
    this.total = list.total;
    this.turn++;
    const kinds = list.kinds.map((k) => {
      const name = k.shard == null ? k.kind : k.kind + '/' + k.shard;
      const was = anew ? null : this.kinds.get(name);
      const since = (a, b) => (b ? a.map((n, i) => Math.max(0, n - b[i])) : a);
      const now = { ...k, name, span };
      now.rate = was && span ? (k.messages - was.messages) / span : null;
      now.load = was && span ? (k.busy_ns - was.busy_ns) / (span * 1e9) : null;
      now.waitedNow = since(k.waited, was?.waited);
      now.handledNow = since(k.handled, was?.handled);
      const last = (counts, before) => { // what was last said stays where nothing has happened
        if (!sum(counts)) return before ?? [null, null];
        return [quantile(counts, list.bounds_ns, 0.5), quantile(counts, list.bounds_ns, 0.99)];
      };
      now.wait = last(now.waitedNow, was?.wait);
      now.work = last(now.handledNow, was?.work);
      now.bounds = list.bounds_ns;
      this.kinds.set(name, now);
      return now;
    });
    let done = 0;
    for (const [id, kind, mailbox, messages, oldest, since] of list.actors) {
      if (++done % STEP === 0) yield;
      const n = this.find(id);
      n.rate = n.turn === this.turn - 1 && span && !anew ? Math.max(0, messages - n.messages) / span : null;
      n.kind = kinds[kind];
      if (n.group) n.group = false;
      n.mailbox = mailbox;
      n.messages = messages;
      n.oldest = oldest * 1e3;
      n.since = since * 1e3;
      n.turn = this.turn;
      if (n.kind.alive > 1) n.kind.home = n.kind.home == null || n.kind.home === n.parent ? n.parent : common(n.kind.home, n.parent);
    }
    this.together(kinds);
    yield* this.prune();
    if (!this.moved && this.by === 'name' && this.flat) return;
    this.moved = false;
    for (let out, asked = -1; asked !== this.asked; this.flat = out) { // again, if somebody folded or sorted meanwhile
      asked = this.asked;
      out = [];
      yield* this.walk(out);
    }
  }

  /** together makes the rows of kinds of which there are several: they stand below what all of them are below. */
  together(kinds) {
    const before = this.all;
    this.all = new Map();
    for (const k of kinds) {
      if (k.home == null) continue;
      const id = 'kind:' + k.name;
      const n = before.get(id) ?? { id, key: id, all: true, group: false, below: [], level: 0, open: null, parent: k.home };
      if (!before.has(id) || n.parent !== k.home) this.moved = true;
      Object.assign(n, { name: `all ${k.alive} of kind ${k.name}`, parent: k.home, kind: k, mailbox: k.mailbox, messages: k.messages, rate: k.rate, oldest: k.oldest_ns, since: k.since_ns });
      this.all.set(id, n);
    }
    if ([...before.keys()].some((id) => !this.all.has(id))) this.moved = true;
  }

  /** get is an actor, or the row of all of a kind. */
  get(id) {
    return this.nodes.get(id) ?? this.all.get(id);
  }

  /** prune takes away who has ended. */
  * prune() {
    let done = 0;
    let gone = false;
    for (const n of this.nodes.values()) {
      if (++done % STEP === 0) yield;
      if (n !== this.top && n.turn !== this.turn && !n.group) {
        n.group = true;
        gone = true;
        n.kind = null;
        n.mailbox = n.oldest = n.since = 0;
        n.rate = null;
      }
    }
    if (!gone) return;
    const keep = (n) => {
      if (n.below.length) {
        const left = n.below.filter(keep);
        if (left.length !== n.below.length) {
          n.below = left;
          this.moved = true;
        }
      }
      if (n !== this.top && n.group && !n.below.length) {
        this.nodes.delete(n.id);
        return false;
      }
      return true;
    };
    keep(this.top);
  }

  order(by, up) {
    this.by = by;
    this.up = up;
    this.changed();
  }

  fold(n) {
    if (!this.folded.delete(n.id)) this.folded.add(n.id);
    this.changed();
  }

  search(s) {
    this.filter = s.toLowerCase();
    this.changed();
  }

  changed() {
    this.flat = null;
    this.asked++;
  }

  value(n) {
    switch (this.by) {
      case 'mailbox': return n.mailbox;
      case 'rate': return n.rate ?? -1;
      case 'oldest': return n.oldest;
      case 'wait': return measured(n)?.wait[1] ?? -1;
      case 'work': return measured(n)?.work[1] ?? -1;
      default: return n.kind?.restarts ?? -1;
    }
  }

  /** rows are the nodes in the order in which they are shown. */
  rows() {
    if (this.flat) return this.flat;
    const out = [];
    for (const step of this.walk(out)) void step;
    this.flat = out;
    return out;
  }

  * walk(out) {
    const sign = this.up ? 1 : -1;
    const compare = this.by === 'name' ? (a, b) => sign * natural(a, b) : (a, b) => sign * (this.value(a) - this.value(b)) || natural(a, b);
    const shown = this.filter ? this.matching() : null;
    const ways = [[this.top, 0]]; // the next one last
    while (ways.length) {
      const [n, level] = ways.pop();
      if (shown && !shown.has(n)) continue;
      n.level = level;
      n.open = n.below.length ? shown != null || !this.folded.has(n.id) : null;
      out.push(n);
      if (out.length % STEP === 0) yield;
      if (!n.open) continue;
      for (const all of this.all.values()) {
        if (all.parent !== n || shown && !all.name.includes(this.filter)) continue;
        all.level = level + 1;
        out.push(all);
      }
      n.below.sort(compare);
      if (n.below.length > STEP) yield;
      for (let i = n.below.length - 1; i >= 0; i--) ways.push([n.below[i], level + 1]);
    }
  }

  matching() {
    const out = new Set();
    for (const n of this.nodes.values()) if (n.id.toLowerCase().includes(this.filter)) for (let x = n; x && !out.has(x); x = x.parent) out.add(x);
    out.add(this.top);
    return out;
  }
}
