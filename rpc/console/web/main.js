// The console: pages by what stands behind # in the address, the stream of blocks, the search.
import { el, fill, icon, link, say, text } from './dom.js';
import { Blocks, Lost, Refused, call } from './rpc.js';
import { identity } from './place.js';
import { actorsPage } from './actors.js';
import { Feed, blockPage, blocksPage, chunkPage, overviewPage } from './blocks.js';
import { transactionsPage } from './transactions.js';
import { receiptPage, txPage } from './tx.js';
import { accountPage } from './account.js';
import { mempoolPage, networkPage, validatorsPage } from './network.js';
import { isSandbox, sandboxPage } from './sandbox.js';
import { lookUp } from './search.js';

const feed = new Feed();

/** pages: name, title in the navigation (null: not there), what draws it. */
const pages = [
  ['', 'Overview', (m, a, l) => overviewPage(m, feed, l)],
  ['actors', 'Actors', actorsPage],
  ['blocks', 'Blocks', (m, a, l) => blocksPage(m, feed, l)],
  ['transactions', 'Transactions', (m, a, l) => transactionsPage(m, a, feed, l)],
  ['mempool', 'Mempool', mempoolPage],
  ['validators', 'Validators', validatorsPage],
  ['network', 'Network', networkPage],
  ['sandbox', 'Sandbox', sandboxPage],
  ['block', null, (m, a, l) => blockPage(m, a, l, feed)],
  ['chunk', null, chunkPage],
  ['tx', null, txPage],
  ['receipt', null, receiptPage],
  ['account', null, (m, a, l) => accountPage(m, a, l, feed)],
  ['search', null, (m, a) => lookUp(m, a[0], feed)],
];

function noPage(m) {
  fill(m, el('h1', null, 'No such page'), el('p', null, 'The console has no page of this address. ', el('a', { href: '#/' }, 'Overview')));
}

/** Life is a page's: what it repeats ends with it. */
class Life {
  constructor() {
    this.over = new AbortController();
    this.ends = [];
  }

  /** repeat calls f now and again every so many ms, as long as the page is there and in sight. */
  repeat(f, every = () => 2000) {
    const turn = async () => {
      if (this.over.signal.aborted) return;
      try {
        if (!document.hidden) await f();
        clearError();
      } catch (e) {
        if (!this.over.signal.aborted) showError(e);
      }
      if (!this.over.signal.aborted) this.timer = setTimeout(turn, every());
    };
    turn();
  }

  end() {
    this.over.abort();
    clearTimeout(this.timer);
    for (const f of this.ends) f();
  }
}

const main = document.getElementById('main');
const trouble = el('p', { class: 'bad panel', role: 'alert', hidden: true });
let life = null;
let first = true;

let lost = false; // whether the page could not be drawn, since the node did not answer

function showError(e) {
  text(trouble, (e instanceof Refused ? e.cause + ': ' : '') + e.message);
  trouble.hidden = false;
  if (!trouble.isConnected) main.prepend(trouble);
}

function clearError() {
  trouble.hidden = true;
}

let name = ''; // of the chain, as the header has it

function setTitle() {
  const h = main.querySelector('h1');
  document.title = [h?.textContent ?? 'Console', name, 'Troupe'].filter(Boolean).join(' – ');
}

async function show() {
  const parts = location.hash.replace(/^#\/?/, '').split('/');
  const [name, ...args] = parts.map((p) => {
    try {
      return decodeURIComponent(p);
    } catch {
      return p; // no escape that anybody would write
    }
  });
  const [page, title, draw] = pages.find(([p]) => p === name) ?? [name, null, noPage];
  life?.end();
  lost = false;
  const mine = life = new Life();
  for (const a of document.querySelectorAll('#nav a')) {
    if (a.getAttribute('href') === '#/' + page) {
      a.setAttribute('aria-current', 'page');
      const strip = document.getElementById('nav'); // on a phone it is wider than the page
      strip.scrollLeft += a.getBoundingClientRect().left + a.offsetWidth / 2 - innerWidth / 2;
    }
    else a.removeAttribute('aria-current');
  }
  if (page !== 'search') q.value = '';
  clearError();
  const into = el('div'); // a page that was left draws into what nobody sees
  fill(main, trouble, into);
  globalThis.consoleLife = mine; // for tests
  try {
    await draw(into, args, mine);
  } catch (e) {
    if (life !== mine) return;
    lost = e instanceof Lost;
    if (!into.firstChild) fill(into, el('h1', null, title ?? args[0] ?? page));
    showError(e);
  }
  if (life !== mine) return;
  const h = main.querySelector('h1');
  setTitle();
  say(h?.textContent ?? '');
  if (!first) main.focus({ preventScroll: true });
  first = false;
  scrollTo(0, 0);
}

const nav = document.getElementById('nav');
for (const [page, title] of pages) if (title) nav.append(el('li', null, el('a', { href: '#/' + page, id: 'nav-' + (page || 'overview') }, icon(page || 'overview'), title)));

const q = document.getElementById('q');
document.getElementById('search').addEventListener('submit', (e) => {
  e.preventDefault();
  const s = q.value.trim();
  if (!s) return;
  const to = '#/search/' + encodeURIComponent(s);
  if (location.hash === to) show();
  else location.hash = to;
});
document.addEventListener('keydown', (e) => {
  if (e.key === '/' && !e.ctrlKey && !e.metaKey && !e.altKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
    e.preventDefault();
    q.focus();
  }
});
document.getElementById('skip').addEventListener('click', (e) => {
  e.preventDefault();
  main.focus();
});
addEventListener('hashchange', show);

const state = document.getElementById('link');
new Blocks((b) => feed.add(b), (r) => feed.reverted(r), (s) => {
  state.className = 'state ' + s;
  text(state, s === 'live' ? 'live' : 'no connection');
  if (s === 'live' && lost) show();
});

(async () => {
  try {
    const s = await call('status');
    const { words, parts } = await identity(s.chain_id);
    name = words;
    setTitle();
    fill(document.getElementById('node'), parts, ' · ', el('span', { title: `build ${s.version.build}, commit ${s.version.commit ?? '–'}` }, 'version ', s.version.version), s.halted ? el('strong', { class: 'bad' }, ' · halted: ', s.halted.reason) : null,
      s.validator_account_id ? [' · ', link('account', s.validator_account_id)] : null);
  } catch (e) {
    showError(e);
  }
  document.getElementById('nav-sandbox').parentElement.hidden = !(await isSandbox());
})();
show();
