// The page of actors: the tree live, and one of them followed.
import { el, fill, list, say, scroll, text } from './dom.js';
import { count, rate, time } from './format.js';
import { Chart } from './charts.js';
import { Grid } from './virtual.js';
import { Tree, measured } from './tree.js';
import { get } from './rpc.js';

const columns = [
  { name: 'name', title: 'Actor', width: 'minmax(10em, 2fr)' },
  { name: 'mailbox', title: 'Mailbox', width: '5em', class: 'num', about: 'Messages that wait' },
  { name: 'rate', title: 'Messages/s', width: '7em', class: 'num', about: 'Messages handled per second' },
  { name: 'oldest', title: 'Oldest', width: '5em', class: 'num wide extra', about: 'How long the oldest message has waited' },
  { name: 'wait', title: 'Wait p50 / p99', width: '10em', class: 'num wide', about: 'How long messages waited in the mailbox' },
  { name: 'work', title: 'Work p50 / p99', width: '10em', class: 'num wide', about: 'How long the actor worked on a message' },
  { name: 'restarts', title: 'Restarts', width: '5em', class: 'num wide extra', about: 'Restarts after a failure' },
];

/** about says what the actors of each kind do. */
export const about = {
  chain: 'The only actor that changes the chain: it imports blocks and moves the head. A replica takes them from its writer.',
  producer: 'Approves blocks and produces them, on a chain with one validator.',
  validator: 'Produces, approves and endorses blocks and chunks among other validators.',
  shard: 'Applies the chunks of one shard: its transactions and receipts.',
  'chunk-producer': 'Chooses the transactions of the next chunk of its shard.',
  mempool: 'Checks the transactions of one shard and keeps them until a chunk has them.',
  txtracker: 'Follows how far each transaction is, and informs the waiters.',
  streams: 'Starts a subscriber for each subscription.',
  subscriber: 'Sends one WebSocket subscription its events.',
  rpc: 'Starts a session for each client.',
  session: 'Takes the transactions and waits of one client, within its limits.',
  waiter: 'Waits until one transaction is as far as a client wants.',
  network: 'Exchanges blocks, chunks, transactions and states with peers.',
  meter: 'Writes the summary line of the log.',
};

const aboutOf = (n) => (n.group ? null : about[n.kind.kind]);

const pair = (p) => (p == null || p[1] == null ? '–' : time(p[0]) + ' / ' + time(p[1]));

/** cells are the texts of a row. */
function cells(n) {
  if (n.group) return [n.name + (n.below.length > 8 ? ` (${count(n.below.length)})` : ''), '', '', '', '', '', ''];
  const k = n.kind;
  const m = measured(n);
  const latencies = m ? [pair(m.wait), pair(m.work)] : ['–', '–'];
  return [n.name + (n.below.length > 8 ? ` (${count(n.below.length)})` : ''), count(n.mailbox), rate(n.rate), n.oldest ? time(n.oldest) : '–', ...latencies, count(k.restarts)];
}

/** actorsPage shows the tree; its list is asked for as long as it is in sight. */
export function actorsPage(main, [follow], life) {
  const tree = new Tree();
  const status = el('p', { class: 'muted', role: 'status' }, 'asking …');
  const panel = el('section', { class: 'panel', 'aria-label': 'Followed actor', hidden: true });
  const split = el('div', { class: 'split' });
  let followed = null;
  const grid = new Grid({
    label: 'Actors', columns, cells, about: aboutOf,
    sort(name) {
      const up = tree.by === name ? !tree.up : name === 'name';
      tree.order(name, up);
      grid.sorted(name, up);
      grid.set(tree.rows());
    },
    fold(n) {
      tree.fold(n);
      grid.set(tree.rows());
    },
    choose(n) { pick(n.id); },
  });
  grid.sorted('name', true);

  function pick(id) {
    grid.chosen = id;
    followed = new Followed(id, () => {
      followed = null;
      grid.chosen = null;
      panel.hidden = true;
      split.className = 'split';
      grid.draw();
    });
    panel.hidden = false;
    split.className = 'split follow';
    fill(panel, followed.element);
    followed.update(tree);
    grid.draw();
    say('Following ' + id);
  }

  const filter = el('input', { type: 'search', placeholder: 'session, shards/0, …', on: { input: (e) => {
    tree.search(e.target.value);
    grid.set(tree.rows());
  } } });
  const legend = el('details', { class: 'panel' }, el('summary', null, 'What each kind of actor does'), list(Object.entries(about).map(([k, v]) => [el('span', { class: 'mono' }, k), v])));
  split.append(el('div', null, el('form', { class: 'row filter', on: { submit: (e) => e.preventDefault() } }, el('label', null, 'Show only', filter)), grid.element, status, legend), panel);
  fill(main, el('h1', null, 'Actors'), split);
  if (follow) pick(follow);

  let every = 1000;
  async function ask() {
    const began = performance.now();
    const l = await get('console/api/actors');
    await sliced(tree.update(l, performance.now()), life);
    grid.set(tree.rows());
    followed?.update(tree);
    const shown = l.actors.length;
    text(status, `${count(l.total)} actors` + (shown < l.total ? `, of which ${count(shown)} are shown: those that have something to do come first` : '') +
      '. Latencies are measured by kind: several actors of one share the row "all …". They are of the last second with messages.');
    every = Math.max(1000, 4 * (performance.now() - began));
  }
  life.repeat(ask, () => every);
  life.grid = grid;
}

const SLICE = 4; // ms

/** sliced runs a generator to its end in parts, between which frames are drawn. */
async function sliced(steps, life) {
  for (let end = performance.now() + SLICE; !steps.next().done;) {
    if (performance.now() < end) continue;
    await new Promise(requestAnimationFrame);
    await new Promise((done) => setTimeout(done)); // behind what is drawn
    if (life.over.signal.aborted) return;
    end = performance.now() + SLICE;
  }
}

/** Followed is one actor with its charts. */
class Followed {
  constructor(id, close) {
    this.id = id;
    this.facts = el('div');
    this.rate = new Chart('Messages per second', { show: rate, every: ' s' });
    this.mailbox = new Chart('Mailbox', { show: count, every: ' s', whole: true });
    this.latency = new Chart('Work', { show: time, names: ['p50', 'p99'], every: ' s' });
    this.spread = el('div');
    this.element = el('div', null, el('div', { class: 'title' }, el('h2', { class: 'mono' }, id), el('button', { type: 'button', class: 'small', on: { click: close } }, 'Close')), this.facts,
      this.rate.element, this.mailbox.element, this.latency.element, this.spread);
  }

  update(tree) {
    const n = tree.get(this.id);
    if (!n || n.group) {
      fill(this.facts, el('p', { class: 'muted' }, n && n.below.length ? `A group of ${count(n.below.length)}.` : 'It has ended.'));
      return;
    }
    const k = n.kind;
    fill(this.facts, el('p', { class: 'muted' }, about[k.kind]), list([
      ['Kind', k.name + (k.alive > 1 ? ` (${count(k.alive)} of them)` : '')],
      ['Messages', count(n.messages)],
      ['In work', n.since ? 'for ' + time(n.since) : 'nothing'],
      ['Oldest waits', n.oldest ? time(n.oldest) : '–'],
      ['Of the kind', `${rate(k.rate)} messages/s, busy ${k.load == null ? '–' : (100 * k.load).toFixed(1) + ' %'}`],
      ['Restarts', count(k.restarts)],
      ['Dead letters', count(k.dead_letters)],
      ['Standstills', count(k.standstills)],
    ]));
    this.rate.add(n.rate);
    this.mailbox.add(n.mailbox);
    this.latency.element.hidden = this.spread.hidden = !measured(n);
    if (!measured(n)) return;
    this.latency.add(...k.work);
    const most = Math.max(1, ...k.handledNow, ...k.waitedNow);
    const bar = (v) => {
      const b = el('span', { class: 'bar' });
      b.style.width = (5 * v) / most + 'em';
      return [count(v), v ? b : null];
    };
    fill(this.spread, scroll(el('table', null, el('caption', null, 'Messages by duration, of the kind, since the last update'),
      el('thead', null, el('tr', null, ['up to', 'waited', 'worked on'].map((t) => el('th', { scope: 'col' }, t)))),
      el('tbody', null, k.handledNow.map((v, i) => (v || k.waitedNow[i]) ? el('tr', null, el('td', null, k.bounds[i] ? time(k.bounds[i]) : 'more'), el('td', null, bar(k.waitedNow[i])), el('td', null, bar(v))) : null)))));
  }
}
