// A tree in rows of which only those in sight are in the page: some dozens of elements, however many rows there are.
import { el, text } from './dom.js';

const HEIGHT = 26; // of a row, as console.css has it
const HEAD = 32; // of the line of titles, which stays in sight
const SPARE = 8; // rows above and below what is in sight

/**
 * Grid shows rows: { key, level, open (null: nothing below) }; cells returns the texts of one, about what it is, as a tooltip. It is a treegrid: arrow keys, Home, End, PageUp and PageDown move, left
 * and right fold, Enter chooses.
 */
export class Grid {
  constructor({ label, columns, cells, about = () => null, sort, fold, choose }) {
    Object.assign(this, { columns, cells, about, fold, choose, rows: [], pool: [], active: 0, chosen: null, drawn: 0 });
    this.heads = columns.map((c) => el('button', { type: 'button', title: c.about, on: { click: () => sort(c.name) } }, c.title));
    this.head = el('div', { class: 'vt-row', role: 'row', 'aria-rowindex': 1 },
      columns.map((c, i) => el('span', { role: 'columnheader', class: c.class }, this.heads[i])));
    this.space = el('div', { class: 'vt-space', role: 'rowgroup' });
    this.scroll = el('div', { class: 'vt-scroll', role: 'presentation', on: { scroll: () => this.draw() } }, el('div', { class: 'vt-head', role: 'rowgroup' }, this.head), this.space);
    this.element = el('div', { class: 'vt', role: 'treegrid', 'aria-label': label, 'aria-readonly': 'true', 'aria-colcount': columns.length, on: { keydown: (e) => this.key(e) } }, this.scroll);
    const widths = (without) => columns.filter((c) => !without.test(c.class)).map((c) => c.width).join(' ');
    this.element.style.setProperty('--cols', widths(/^$/)); // console.css has which of them holds where
    this.element.style.setProperty('--cols-few', widths(/extra/));
    this.element.style.setProperty('--cols-phone', widths(/wide|extra/));
    this.space.addEventListener('click', (e) => {
      const line = e.target.closest('[role=row]');
      if (!line) return;
      this.active = line.row;
      if (e.target.classList.contains('fold')) this.fold(this.rows[line.row]);
      else this.choose(this.rows[line.row]);
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(this.scroll);
  }

  /** sorted marks the column that rows are sorted by. */
  sorted(name, up) {
    this.columns.forEach((c, i) => {
      const h = this.head.children[i];
      if (c.name === name) h.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      else h.removeAttribute('aria-sort');
      text(this.heads[i], c.title + (c.name === name ? (up ? ' ▲' : ' ▼') : ''));
    });
  }

  /** set takes the rows. The one that was active stays so. */
  set(rows) {
    const key = this.rows[this.active]?.key;
    this.rows = rows;
    if (rows[this.active]?.key !== key) this.active = Math.max(0, rows.findIndex((r) => r.key === key));
    this.element.setAttribute('aria-rowcount', rows.length + 1);
    const height = rows.length * HEIGHT + 'px';
    if (this.space.style.height !== height) this.space.style.height = height;
    this.draw();
  }

  /** draw has what is in sight be drawn in the next frame. */
  draw() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = null;
      this.render();
    });
  }

  render() {
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / HEIGHT) - SPARE);
    const most = Math.ceil(this.scroll.clientHeight / HEIGHT) + 2 * SPARE;
    const last = Math.min(this.rows.length, first + most);
    while (this.pool.length < last - first) this.pool.push(this.line());
    // Row i is in line i mod pool: when it scrolls, only what has come in changes.
    const n = this.pool.length;
    for (let i = first; i < first + n; i++) {
      const line = this.pool[i % n];
      if (i >= last) {
        if (!line.hidden) line.hidden = true;
        continue;
      }
      this.show(line, i);
    }
    this.drawn++;
  }

  line() {
    const cells = this.columns.map((c) => el('span', { role: 'gridcell', class: c.class }));
    const fold = el('span', { class: 'fold', 'aria-hidden': 'true' });
    const name = el('span');
    cells[0].append(fold, name);
    const e = el('div', { class: 'vt-row', role: 'row', tabindex: -1 }, cells);
    Object.assign(e, { fold, texts: [name, ...cells.slice(1)], was: {} });
    this.space.append(e);
    return e;
  }

  show(line, i) {
    const r = this.rows[i];
    if (line.hidden) line.hidden = false;
    const was = line.was;
    const set = (name, v, f) => {
      if (was[name] !== v) {
        was[name] = v;
        f(v);
      }
    };
    set('row', i, () => {
      line.row = i;
      line.style.transform = `translateY(${i * HEIGHT}px)`;
      line.setAttribute('aria-rowindex', i + 2);
    });
    set('level', r.level, (v) => {
      line.setAttribute('aria-level', v + 1);
      line.fold.style.marginLeft = v + 'em';
    });
    set('open', r.open, (v) => {
      text(line.fold, v == null ? '' : v ? '▾' : '▸');
      if (v == null) line.removeAttribute('aria-expanded');
      else line.setAttribute('aria-expanded', v);
    });
    set('chosen', r.key === this.chosen, (v) => line.setAttribute('aria-selected', v));
    set('active', i === this.active, (v) => { line.tabIndex = v ? 0 : -1; });
    const texts = this.cells(r);
    for (let c = 0; c < texts.length; c++) set(c, texts[c], (v) => { text(line.texts[c], v); });
    set('about', this.about(r), (v) => { line.title = v ?? ''; });
    set('class', r.group ? 'vt-row muted' : 'vt-row', (v) => { line.className = v; });
  }

  key(e) {
    const r = this.rows[this.active];
    const page = Math.max(1, Math.floor(this.scroll.clientHeight / HEIGHT) - 1);
    let to = null;
    if (!r || e.target.closest('.vt-head')) return;
    if (e.key === 'ArrowDown') to = this.active + 1;
    else if (e.key === 'ArrowUp') to = this.active - 1;
    else if (e.key === 'PageDown') to = this.active + page;
    else if (e.key === 'PageUp') to = this.active - page;
    else if (e.key === 'Home') to = 0;
    else if (e.key === 'End') to = this.rows.length - 1;
    else if (e.key === 'ArrowRight' && r.open === false) this.fold(r);
    else if (e.key === 'ArrowLeft' && r.open) this.fold(r);
    else if (e.key === 'ArrowLeft') {
      for (to = this.active; to > 0 && this.rows[to].level >= r.level; to--);
    } else if (e.key === 'Enter' || e.key === ' ') this.choose(r);
    else return;
    e.preventDefault();
    if (to != null) this.move(to);
    else this.draw();
  }

  /** move goes to a row, scrolls it into sight and gives it the focus. */
  move(to) {
    this.active = Math.min(Math.max(to, 0), this.rows.length - 1);
    const at = this.active * HEIGHT;
    const s = this.scroll;
    if (at < s.scrollTop) s.scrollTop = at;
    else if (at + HEIGHT + HEAD > s.scrollTop + s.clientHeight) s.scrollTop = at + HEIGHT + HEAD - s.clientHeight;
    this.render();
    this.pool[this.active % this.pool.length]?.focus({ preventScroll: true });
  }
}
