// How anything gets into the page: by elements and text. There is no way from a string to markup here, and links lead into this page only.

/**
 * el makes an element. Props: class, on (an object of listeners), data, and attributes; null and false are left out. Children: elements and
 * texts, in any depth of lists; null and false are left out.
 */
export function el(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props ?? {})) {
    if (v == null || v === false) continue;
    if (k === 'on') for (const [name, f] of Object.entries(v)) e.addEventListener(name, f);
    else if (k === 'class') e.className = v;
    else if (k === 'data') Object.assign(e.dataset, v);
    else if (k === 'href' && !String(v).startsWith('#')) throw new Error('a link that leaves the page: ' + v);
    else if (k.startsWith('on') || k === 'style') throw new Error('no attribute ' + k);
    else e.setAttribute(k, v === true ? '' : v);
  }
  put(e, children);
  if (props?.class === 'scroll') for (const x of [e, e.firstElementChild]) if (x) sizes?.observe(x);
  return e;
}

// The keyboard reaches what is scrolled: a box that does not show all of its content takes the focus.
const sizes = globalThis.ResizeObserver && new ResizeObserver((list) => {
  for (const { target } of list) {
    const box = target.closest('.scroll');
    if (!box) continue;
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute('tabindex');
  }
});

function put(e, children) {
  for (const c of children) {
    if (Array.isArray(c)) put(e, c);
    else if (c instanceof Node) e.append(c);
    else if (c != null && c !== false) e.append(document.createTextNode(plain(c)));
  }
}

// Control characters but tab and new line, those that turn the direction of what is beside them, and those that are not seen.
// eslint-disable-next-line no-control-regex
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb]|\udb40[\udc00-\udfff]/g;
const STACKED = /(\p{M}{4})\p{M}+/gu; // marks above each other run over the lines around them

/** plain shows hidden characters by their numbers, so that untrusted text cannot pretend to be something else. Of marks on one character four are shown. */
export const plain = (s) => String(s).replace(HIDDEN, (c) => [...c].map((x) => '\\u' + x.codePointAt(0).toString(16).padStart(4, '0')).join('')).replace(STACKED, '$1');

/** fill replaces what is in an element. The focus stays where it was, as far as that is there again. */
export function fill(e, ...children) {
  keeping(e, () => {
    e.replaceChildren();
    put(e, children);
  });
}

const reachable = 'a[href], button, input, select, textarea, summary';

/** named tells what one can go to from all others: what it is called, and in which line of which table it stands. */
function named(x) {
  const own = x.getAttribute('aria-label') ?? x.getAttribute('href') ?? x.getAttribute('name') ?? x.textContent;
  return [own, x.closest('tr')?.querySelector('a[href]')?.getAttribute('href')].join(' ');
}

/**
 * keeping does f, which replaces what is in an element, and gives the focus to what is the same as what had it. Where that is gone a link's goes to the one in its
 * place, and a button's to the page: who presses twice is not to have done what another button does.
 */
export function keeping(e, f) {
  const had = document.activeElement;
  if (!had || had === e || !e.contains(had)) {
    f();
    return;
  }
  const name = named(had);
  const at = [...e.querySelectorAll(reachable)].indexOf(had);
  f();
  if (had.isConnected) return;
  const now = [...e.querySelectorAll(reachable)];
  const instead = had.tagName === 'BUTTON' ? null : now[Math.min(at, now.length - 1)];
  (now.find((x) => named(x) === name) ?? instead ?? document.getElementById('main')).focus({ preventScroll: true });
}

/** text sets a text if it is another one. */
export function text(e, s) {
  const shown = plain(s);
  if (e.textContent !== shown) e.textContent = shown;
}

/** link leads to a page of the console; parts are escaped. */
export function link(page, id, label) {
  return el('a', { href: '#/' + page + '/' + [].concat(id).map(encodeURIComponent).join('/'), class: 'mono', title: String([].concat(id)[0]) }, label ?? [].concat(id)[0]);
}

/** SYSTEM is the sender of refunds and of other receipts of the protocol: no account of the state. */
export const SYSTEM = 'system';

/** party shows an account as a link, of a long name (an implicit account has 64 characters) its beginning and end; the protocol itself is no link. */
export const party = (id) => (id === SYSTEM ? el('span', { class: 'mono muted', title: 'the protocol itself' }, id) : link('account', id, id.length > 34 ? id.slice(0, 18) + '…' + id.slice(-12) : id));

const SVG = 'http://www.w3.org/2000/svg';

/** svg makes an element of a drawing. Links lead into this page only. */
export function svg(tag, props, ...children) {
  const e = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(props ?? {})) {
    if (v == null || v === false) continue;
    if (k === 'on') for (const [name, f] of Object.entries(v)) e.addEventListener(name, f);
    else if (k === 'href' && !String(v).startsWith('#')) throw new Error('a link that leaves the page: ' + v);
    else if (k.startsWith('on') || k === 'style') throw new Error('no attribute ' + k);
    else e.setAttribute(k, v);
  }
  put(e, children);
  return e;
}

/**
 * table makes one with a caption. columns are [title, class], where the class is one of num, hash, mono, keep (not broken into lines) and wide (not on a
 * phone); rows are lists of cells. stack: on a phone each row is a list of titles and cells.
 */
export function table(caption, columns, rows, empty = 'none', { stack = false } = {}) {
  const body = el('tbody', null, rows.map((r) => row(columns, r)));
  if (!rows.length) body.append(el('tr', null, el('td', { colspan: columns.length, class: 'muted' }, empty)));
  return scroll(el('table', { class: stack && 'stack' }, caption && el('caption', null, caption),
    el('thead', null, el('tr', null, columns.map(([t, c]) => el('th', { scope: 'col', class: c }, t)))), body));
}

/** row makes a line of a table. */
export function row(columns, cells, cls) {
  return el('tr', { class: cls }, cells.map((c, i) => el('td', { class: columns[i][1], data: { title: columns[i][0] } }, c)));
}

/** scroll makes a box in which something wide can be scrolled. */
export const scroll = (e) => el('div', { class: 'scroll' }, e);

/** list makes a list of terms and what they are. */
export function list(pairs) {
  return el('dl', null, pairs.filter(Boolean).map(([k, v]) => [el('dt', null, k), el('dd', null, v)]));
}

/** say tells who does not see the page. */
export function say(s) {
  text(document.getElementById('say'), s);
}

/** cards makes a row of headline figures. set shows a figure, with a remark below it. */
export function cards(names) {
  const all = new Map(names.map((k) => [k, { v: el('span', { class: 'v' }, '–'), s: el('span', { class: 's' }) }]));
  const element = el('ul', { class: 'cards' }, names.map((k) => el('li', null, el('span', { class: 'k' }, k), all.get(k).v, all.get(k).s)));
  return {
    element,
    set(k, v, remark = '') {
      const e = all.get(k).v;
      if (e.was !== v) {
        e.was = v;
        const unit = /^([\d.,:]+) (\S+)$/.exec(v); // a number with its unit
        fill(e, unit ? [unit[1], ' ', el('span', { class: 'unit' }, unit[2])] : v);
      }
      text(all.get(k).s, remark);
    },
  };
}

/** confirmed asks a question, and returns a promise of whether the answer is the verb. */
export function confirmed(question, verb) {
  return new Promise((done) => {
    const cancel = el('button', { type: 'button', on: { click: () => dialog.close() } }, 'Cancel');
    const dialog = el('dialog', { 'aria-labelledby': 'question', on: { close: () => {
      dialog.remove();
      done(dialog.returnValue === 'yes');
    } } }, el('p', { id: 'question' }, question), el('p', { class: 'choices' }, cancel, el('button', { type: 'button', class: 'danger main', on: { click: () => dialog.close('yes') } }, verb)));
    document.body.append(dialog);
    dialog.showModal();
    cancel.focus();
  });
}

/** segments makes a row of buttons of which one is pressed: choices are [value, title]. */
export function segments(label, choices, value, change) {
  const buttons = choices.map(([v, title]) => el('button', { type: 'button', 'aria-pressed': String(v === value), on: { click: () => {
    buttons.forEach((b, i) => b.setAttribute('aria-pressed', String(choices[i][0] === v)));
    change(v);
  } } }, title));
  return el('div', { class: 'segments', role: 'group', 'aria-label': label }, buttons);
}

// Icons, drawn on 18 by 18: lines of a path.
const icons = {
  overview: 'M2.5 2.5h5.5v5.5H2.5zM10 2.5h5.5v5.5H10zM2.5 10h5.5v5.5H2.5zM10 10h5.5v5.5H10z',
  actors: 'M9 2.5v4M9 6.5H4.5v3M9 6.5h4.5v3M3 9.5h3v3H3zM12 9.5h3v3h-3zM4.5 12.5v3M13.5 12.5v3',
  blocks: 'M9 1.8l6.2 3.6v7.2L9 16.2l-6.2-3.6V5.4zM2.8 5.4L9 9l6.2-3.6M9 9v7.2',
  transactions: 'M2.5 6h12M11.5 3l3 3-3 3M15.5 12h-12M6.5 9l-3 3 3 3',
  mempool: 'M2.5 4h13M2.5 7.5h13M2.5 11h9M2.5 14.5h5',
  validators: 'M9 1.8l6 2.2v4.6c0 3.6-2.4 6.2-6 7.6-3.6-1.4-6-4-6-7.6V4zM6.3 8.8l2 2 3.6-3.8',
  network: 'M9 2a7 7 0 1 0 0 14a7 7 0 1 0 0-14zM2 9h14M9 2c2.2 2 3.2 4.3 3.2 7S11.2 14 9 16M9 2C6.8 4 5.8 6.3 5.8 9s1 5 3.2 7',
  sandbox: 'M6.5 2h5M7.5 2v5L3.2 14.200c-.4.8.1 1.8 1 1.800h9.600c.9 0 1.4-1 1-1.800L10.5 7V2M5.5 11h7',
};

/** icon draws one of the icons; null: there is none of the name. It has no meaning of its own. */
export function icon(name) {
  if (!icons[name]) return null;
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 18 18');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', icons[name]);
  svg.append(path);
  return svg;
}
