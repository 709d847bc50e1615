// Line charts on a canvas, drawn by hand, and said in words to who does not see them.

const colors = () => {
  const s = getComputedStyle(document.documentElement);
  const c = (n) => s.getPropertyValue(n).trim();
  return { ink: c('--muted'), line: c('--line'), series: [c('--chart'), c('--chart2')] };
};

const all = new Set();

// Another colour scheme: what is in the page is drawn again.
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const c of all) {
    if (c.canvas.isConnected) c.redraw();
    else all.delete(c);
  }
});

/** Chart shows the last points of one or two series over each other. */
export class Chart {
  /** show: a number as text; names: of the series; most: how many points are kept. */
  constructor(title, { show = String, names = [''], most = 120, every = '' } = {}) {
    Object.assign(this, { title, show, names, most, every, points: [] });
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
    this.words();
    all.add(this);
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
  }

  /** add takes a value of each series; null: none. */
  add(...values) {
    this.points.push(values);
    if (this.points.length > this.most) this.points.shift();
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

  words() {
    const last = this.points.at(-1) ?? [];
    const said = this.names.map((n, i) => (n ? n + ' ' : '') + (last[i] == null ? '–' : this.show(last[i]))).join(', ');
    this.now.textContent = said;
    const known = this.points.map((p) => p[0]).filter((v) => v != null);
    const range = known.length ? `; lowest ${this.show(Math.min(...known))}, highest ${this.show(Math.max(...known))} of ${known.length}${this.every}` : '';
    this.canvas.setAttribute('aria-label', `${this.title}: now ${said}${range}`);
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
    let top = 0;
    for (const p of points) for (const v of p) if (v > top) top = v;
    top = nice(top);
    const pad = 4;
    const x = (i) => pad + ((w - 2 * pad) * (i + this.most - points.length)) / Math.max(this.most - 1, 1);
    const y = (v) => h - pad - ((h - 18) * v) / top;
    g.strokeStyle = c.line;
    g.lineWidth = 1;
    g.beginPath();
    for (const v of [0, top / 2, top]) {
      g.moveTo(pad, Math.round(y(v)) + 0.5);
      g.lineTo(w - pad, Math.round(y(v)) + 0.5);
    }
    g.stroke();
    g.fillStyle = c.ink;
    g.font = '11px system-ui, sans-serif';
    g.fillText(this.show(top), pad, 10);
    this.names.forEach((_, s) => {
      g.strokeStyle = c.series[s];
      g.lineWidth = 1.6;
      g.setLineDash(s ? [4, 3] : []); // told apart without colour, too
      g.beginPath();
      let drawn = false;
      points.forEach((p, i) => {
        if (p[s] == null) drawn = false;
        else if (drawn) g.lineTo(x(i), y(p[s]));
        else {
          g.moveTo(x(i), y(p[s]));
          drawn = true;
        }
      });
      g.stroke();
    });
    g.setLineDash([]);
  }
}

/** nice is a round number at or above v. */
function nice(v) {
  if (!(v > 0)) return 1;
  const step = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].map((m) => m * step).find((x) => x >= v);
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
