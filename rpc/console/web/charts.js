// Line and bar charts on a canvas, with axes, and a text alternative for screen readers.
import { plain } from './dom.js';

const colors = () => {
  const s = getComputedStyle(document.documentElement);
  const c = (n) => s.getPropertyValue(n).trim();
  return { ink: c('--muted'), line: c('--line'), series: [c('--chart'), c('--chart2')] };
};

const all = new Set();

/** redrawAll draws the charts that are in the page again, and forgets the others. */
function redrawAll() {
  for (const c of all) {
    if (c.canvas.isConnected) c.redraw();
    else all.delete(c);
  }
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);

const heightOf = (p) => p.at.toLocaleString('en');

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const KEPT = 10 * MINUTE; // of a time axis
const FONT = '11px Inter, system-ui, sans-serif';
const BELOW = 20; // room for the labels of the horizontal axis
const ABOVE = 8;

/**
 * Chart shows the last points of one or two series. axis 'time': points stand where their time is, and the axis counts
 * back from now; 'block': points stand side by side, and the axis shows heights.
 */
export class Chart {
  /** show: a number as text; names: of the series; most: how many points are kept; span: ms that a time axis shows at least; bars: draw bars; whole: values are whole numbers. */
  constructor(title, { show = String, names = [''], axis = 'time', most = axis === 'time' ? 600 : 120, every = '', span = MINUTE, bars = false, whole = false } = {}) {
    Object.assign(this, { title, show, names, most, every, axis, span, bars, whole, points: [], over: null });
    this.canvas = document.createElement('canvas');
    this.canvas.setAttribute('role', 'img');
    this.now = document.createElement('span');
    this.now.className = 'now';
    const cap = document.createElement('figcaption');
    const name = document.createElement('strong');
    name.textContent = title;
    cap.append(name, this.now);
    this.element = document.createElement('figure');
    this.element.append(cap, this.canvas);
    this.canvas.addEventListener('pointermove', (e) => this.point(e.offsetX));
    this.canvas.addEventListener('pointerleave', () => this.point(null));
    this.words();
    all.add(this);
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
  }

  /** add appends a value of each series, null for none, at the present time. */
  add(...values) { this.addAt(Date.now(), ...values); }

  /** addAt adds values at a time in ms, or at a height, in the order of these. A height that is known has the new values. */
  addAt(at, ...values) {
    const point = Object.assign(values, { at });
    let i = this.points.length;
    while (i > 0 && this.points[i - 1].at > at) i--;
    this.points.splice(i, 0, point);
    if (this.axis === 'block' && i > 0 && this.points[i - 1].at === at) this.points.splice(i - 1, 1);
    while (this.points.length > this.most || this.axis === 'time' && this.points[0].at < this.points.at(-1).at - KEPT) this.points.shift();
    this.words();
    this.redraw();
  }

  /** redraw draws in the next frame. */
  redraw() {
    this.asked ||= requestAnimationFrame(() => {
      this.asked = 0;
      this.draw();
    });
  }

  /** point shows the values nearest to a place of the canvas; null: the last ones. */
  point(x) {
    let found = null;
    if (x != null && this.x) this.points.forEach((p, i) => { if (found == null || Math.abs(this.x(i) - x) < Math.abs(this.x(found) - x)) found = i; });
    if (found === this.over) return;
    this.over = found;
    this.words();
    this.redraw();
  }

  words() {
    const p = this.points[this.over ?? this.points.length - 1];
    const shown = (i) => (p?.[i] == null ? '–' : this.show(p[i]));
    const parts = this.names.map((n, i) => {
      const e = document.createElement('span');
      if (n) {
        const key = document.createElement('span');
        key.className = 'muted key' + (i ? ' second' : '');
        key.textContent = n + ' ';
        e.append(key);
      }
      e.append(plain(shown(i)));
      return e;
    });
    if (this.over != null) {
      const when = document.createElement('span');
      when.className = 'muted';
      when.textContent = this.axis === 'block' ? 'block ' + heightOf(p) : back(p.at - this.points.at(-1).at);
      parts.push(when);
    }
    this.now.replaceChildren(...parts);
    const known = this.points.map((q) => q[0]).filter((v) => v != null);
    const range = known.length ? `; lowest ${this.show(Math.min(...known))}, highest ${this.show(Math.max(...known))} of ${known.length}${this.every}` : '';
    this.canvas.setAttribute('aria-label', `${this.title}: now ${this.names.map((n, i) => (n ? n + ' ' : '') + shown(i)).join(', ')}${range}`);
  }

  draw() {
    const { canvas, points } = this;
    const w = canvas.clientWidth;
    const h = canvas.clientHeight;
    if (!w || !h) return;
    const dpr = devicePixelRatio || 1;
    if (canvas.width !== Math.round(w * dpr) || canvas.height !== Math.round(h * dpr)) {
      canvas.width = Math.round(w * dpr);
      canvas.height = Math.round(h * dpr);
    }
    const g = canvas.getContext('2d');
    const c = colors();
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    g.clearRect(0, 0, w, h);
    g.font = FONT;
    let top = 0;
    for (const p of points) for (const v of p) if (v > top) top = v;
    top = nice(this.whole ? Math.max(2, top) : top);
    const known = points.some((p) => p.some((v) => v != null));
    const marks = [0, top / 2, top].map((v) => [v, v ? (known ? this.show(v) : '') : '0']);
    const left = Math.ceil(Math.max(...marks.map(([, s]) => g.measureText(s).width))) + 10;
    const right = w - 4;
    const y = (v) => h - BELOW - ((h - BELOW - ABOVE) * v) / top;
    this.x = this.scale(left, right);
    g.strokeStyle = c.line;
    g.fillStyle = c.ink;
    g.lineWidth = 1;
    g.textAlign = 'right';
    g.textBaseline = 'middle';
    g.beginPath();
    for (const [v, s] of marks) {
      const at = Math.round(y(v)) + 0.5;
      g.moveTo(left, at);
      g.lineTo(right, at);
      g.fillText(s, left - 6, at);
    }
    g.stroke();
    g.textBaseline = 'alphabetic';
    for (const [at, s, align] of this.ticks(left, right)) {
      g.textAlign = align;
      g.fillText(s, at, h - 5);
    }
    if (this.bars) this.drawBars(g, c, y, left, right);
    else this.names.forEach((_, s) => this.drawLine(g, c.series[s], s, y));
    if (this.over != null) {
      const at = Math.round(this.x(this.over)) + 0.5;
      g.strokeStyle = c.ink;
      g.beginPath();
      g.moveTo(at, ABOVE);
      g.lineTo(at, h - BELOW);
      g.stroke();
    }
  }

  /** scale returns where on the canvas the points stand, by index. */
  scale(left, right) {
    const { points, most } = this;
    if (this.axis === 'block') {
      const step = (right - left) / most;
      return (i) => right - step * (points.length - i - 0.5);
    }
    const last = points.at(-1)?.at ?? 0;
    this.shown = Math.max(this.span, last - (points[0]?.at ?? 0));
    return (i) => right - ((right - left) * (last - points[i].at)) / this.shown;
  }

  /** ticks are the labels of the horizontal axis: place, text, alignment. */
  ticks(left, right) {
    const { points } = this;
    if (!points.length) return [];
    if (this.axis === 'block') {
      const first = this.x(0);
      const out = [[right, '#' + heightOf(points.at(-1)), 'right']];
      if (right - first > 130) out.unshift([first, '#' + heightOf(points[0]), 'left']);
      return out;
    }
    const step = [10 * SECOND, 15 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE].find((s) => (s / this.shown) * (right - left) > 62) ?? 60 * MINUTE;
    const out = [[right, 'now', 'right']];
    for (let t = step; t <= this.shown; t += step) {
      const at = right - ((right - left) * t) / this.shown;
      if (at - left >= 24) out.push([at, back(-t), 'center']);
      else if (t === step || out.at(-1)[0] - left > 90) out.push([at, back(-t), 'left']); // two labels are not to run into each other
    }
    return out;
  }

  drawLine(g, color, s, y) {
    const { points } = this;
    g.strokeStyle = g.fillStyle = color;
    g.lineWidth = 1.6;
    g.setLineDash(s ? [4, 3] : []); // distinct without colour, too
    g.lineJoin = 'round';
    let from = null; // first point of a run of values
    const end = (i) => {
      if (from == null) return;
      g.beginPath();
      for (let j = from; j < i; j++) g.lineTo(this.x(j), y(points[j][s]));
      if (i - from === 1) g.lineTo(this.x(from) + 2, y(points[from][s])); // a single point is visible
      g.stroke();
      if (!s) {
        g.lineTo(this.x(i - 1), y(0));
        g.lineTo(this.x(from), y(0));
        g.globalAlpha = 0.12;
        g.fill();
        g.globalAlpha = 1;
      }
      from = null;
    };
    points.forEach((p, i) => {
      if (p[s] == null) end(i);
      else from ??= i;
    });
    end(points.length);
    g.setLineDash([]);
  }

  drawBars(g, c, y, left, right) {
    const width = Math.max(1, (right - left) / this.most - 1);
    g.fillStyle = c.series[0];
    this.points.forEach((p, i) => {
      if (!(p[0] > 0)) return;
      const top = Math.min(y(p[0]), y(0) - 1);
      g.globalAlpha = this.over == null || this.over === i ? 0.85 : 0.45;
      g.fillRect(this.x(i) - width / 2, top, width, y(0) - top);
    });
    g.globalAlpha = 1;
  }
}

/** back shows how long before now a time is, ms (not above 0). */
export function back(ms) {
  const s = Math.round(-ms / SECOND);
  if (s <= 0) return 'now';
  return s % 60 === 0 || s >= 600 ? `−${Math.round(s / 60)} min` : s < 60 ? `−${s} s` : `−${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')} min`;
}

/** nice is a round number at or above v. */
function nice(v) {
  if (!(v > 0)) return 1;
  const step = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 4, 5, 8, 10].map((m) => m * step).find((x) => x >= v);
}

/** quantile of a histogram: counts by bucket, the last above all bounds; between two bounds in the proportion of their logarithms. */
export function quantile(counts, bounds, share) {
  let all = 0;
  for (const n of counts) all += n;
  if (!all) return null;
  let left = share * all;
  for (let i = 0; i < counts.length; i++) {
    if (counts[i] && left <= counts[i]) {
      const high = bounds[i] ?? 4 * bounds[bounds.length - 1];
      const low = i ? bounds[i - 1] : high / 4;
      return low * (high / low) ** (left / counts[i]);
    }
    left -= counts[i];
  }
  return 4 * bounds[bounds.length - 1];
}
