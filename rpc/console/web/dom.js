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
  return e;
}

function put(e, children) {
  for (const c of children) {
    if (Array.isArray(c)) put(e, c);
    else if (c instanceof Node) e.append(c);
    else if (c != null && c !== false) e.append(document.createTextNode(plain(c)));
  }
}

/** plain shows characters that turn the direction of what stands beside them, or are not seen, by their numbers: whoever logs them would write over the page. */
export const plain = (s) => String(s).replace(/[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));

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

/** table makes one with a caption; columns are [title, class]; rows are lists of cells. */
export function table(caption, columns, rows, empty = 'none') {
  const body = el('tbody', null, rows.map((r) => row(columns, r)));
  if (!rows.length) body.append(el('tr', null, el('td', { colspan: columns.length, class: 'muted' }, empty)));
  return el('div', { class: 'scroll' }, el('table', null, caption && el('caption', null, caption),
    el('thead', null, el('tr', null, columns.map(([t, c]) => el('th', { scope: 'col', class: c }, t)))), body));
}

/** row makes a line of a table. */
export function row(columns, cells, cls) {
  return el('tr', { class: cls }, cells.map((c, i) => el('td', { class: columns[i][1] }, c)));
}

/** list makes a list of terms and what they are. */
export function list(pairs) {
  return el('dl', null, pairs.filter(Boolean).map(([k, v]) => [el('dt', null, k), el('dd', null, v)]));
}

/** say tells who does not see the page. */
export function say(s) {
  text(document.getElementById('say'), s);
}
