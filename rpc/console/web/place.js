// Which chain this page shows: a node's own, a world of it, or a fork of another node's.
import { el } from './dom.js';
import { count } from './format.js';
import { root, call } from './rpc.js';
import { isSandbox } from './sandbox.js';

const IN_WORLD = /world\/([^/]+)\/$/;
const WORLD = /^[\w-]{1,64}$/;

/** worldOf is the world that a path of the RPC is of; null: none. */
export function worldOf(path) {
  const m = IN_WORLD.exec(path);
  return m && WORLD.test(m[1]) ? m[1] : null;
}

/** consoleOf is the address of the console of a world, or of the node that has the worlds. null: the id is none. */
export function consoleOf(id, from = root) {
  const base = new URL(from);
  base.pathname = base.pathname.replace(IN_WORLD, '');
  if (id == null) return new URL('console/', base);
  return WORLD.test(id) ? new URL(`world/${id}/console/`, base) : null;
}

/** elsewhere leads to the console of a world, or of the node that has the worlds: a page of its own. */
export function elsewhere(id, label) {
  const to = consoleOf(id);
  const a = el(to ? 'a' : 'span', { class: 'mono' }, label);
  if (to) a.href = to.href;
  return a;
}

/** identity says which chain it is: words for the title, none for a node's own chain, and parts for the header. */
export async function identity(chain) {
  const sandbox = await isSandbox();
  const world = worldOf(root.pathname) ?? (sandbox ? await call('sandbox_worlds').then((all) => all.find((w) => w.addr === location.host)?.id, () => null) : null);
  const fork = sandbox ? await call('sandbox_fork').catch(() => null) : null; // refused where it is none
  return {
    words: world == null && !fork ? '' : (world == null ? '' : `world ${world} of `) + (fork ? 'a fork of ' : '') + chain,
    parts: [
      world == null ? chain : [el('strong', null, 'world ', world), ' of ', worldOf(root.pathname) == null ? chain : elsewhere(null, chain)],
      fork && [' · ', el('strong', null, 'fork'), ' of ', el('code', null, fork.url), ' @ ', count(fork.block_height)],
    ],
  };
}
