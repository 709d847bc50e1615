// What the logs of a transaction say as events: transfers of tokens (NEP-141, NEP-171, NEP-245). A contract may log what it wants, so all of it is shown as its claim.
import { el, fill, party, table } from './dom.js';
import { count, cut } from './format.js';
import { units, view } from './transactions.js';

const PREFIX = 'EVENT_JSON:';
const MOST = 50; // transfers that are shown
const CONTRACTS = 10; // that are asked for their metadata
const ACCOUNT = /^[a-z\d][a-z\d._-]{0,62}[a-z\d]$/;
const FROM = { ft_transfer: 'old_owner_id', ft_burn: 'owner_id', nft_transfer: 'old_owner_id', nft_burn: 'owner_id', mt_transfer: 'old_owner_id', mt_burn: 'owner_id' };
const TO = { ft_transfer: 'new_owner_id', ft_mint: 'owner_id', nft_transfer: 'new_owner_id', nft_mint: 'owner_id', mt_transfer: 'new_owner_id', mt_mint: 'owner_id' };

/** parsed is an event as JSON; null: a log is none. */
export function parsed(log) {
  if (!log.startsWith(PREFIX) || log.length > 65536) return null;
  try {
    const e = JSON.parse(log.slice(PREFIX.length));
    return e !== null && typeof e === 'object' && typeof e.event === 'string' ? e : null;
  } catch {
    return null;
  }
}

const list = (v) => (Array.isArray(v) ? v : v === undefined ? [] : [v]).slice(0, MOST);

/** transfers are those that logs tell of: {contract, standard, from, to, amount, token}. logs: [executor, text]. from and to are null where tokens are minted and burnt. */
export function transfers(logs) {
  const out = [];
  for (const [contract, log] of logs) {
    const e = parsed(log);
    if (!e || !(e.event in FROM || e.event in TO)) continue;
    for (const d of list(e.data)) {
      if (d === null || typeof d !== 'object') continue;
      const tokens = e.event.startsWith('ft_') ? [[d.amount, null]] : list(d.token_ids).map((id, i) => [e.event.startsWith('mt_') ? list(d.amounts)[i] : '1', id]);
      for (const [amount, token] of tokens) {
        if (out.length > MOST) return out;
        const name = (k) => (k && d[k] !== undefined ? String(d[k]) : null);
        out.push({ contract, standard: String(e.standard), from: name(FROM[e.event]), to: name(TO[e.event]), amount: String(amount ?? ''), token: token === null ? null : String(token) });
      }
    }
  }
  return out;
}

const who = (id, none) => (id === null ? el('span', { class: 'muted' }, none) : ACCOUNT.test(id) ? party(id) : el('code', null, cut(id, 64)));

/** transferTable shows transfers of tokens, once the contracts have been asked for symbol and decimals. */
export function transferTable(all, signal) {
  const place = el('div', null);
  const draw = (known) => fill(place, table(`Token transfers (${all.length > MOST ? `the first ${MOST}` : count(all.length)}), as the contracts log them`, [['From', 'keep'], ['To', 'keep'], ['Amount', 'num'], ['Token'], ['Contract', 'keep']],
    all.slice(0, MOST).map((t) => {
      const m = known.get(t.contract);
      return [who(t.from, 'minted'), who(t.to, 'burnt'), t.standard === 'nep141' ? units(t.amount, m?.decimals) : cut(t.amount, 60), cut(t.token ?? m?.symbol ?? '', 64), party(t.contract)];
    }), 'none', { stack: true }));
  draw(new Map());
  const contracts = [...new Set(all.filter((t) => t.standard === 'nep141').map((t) => t.contract))].slice(0, CONTRACTS);
  Promise.all(contracts.map(async (c) => [c, await view(c, 'ft_metadata', {}, signal).catch(() => null)])).then((metadata) => {
    if (!signal.aborted && metadata.length) draw(new Map(metadata.map(([c, m]) => [c, m === null || typeof m !== 'object' ? null : { decimals: m.decimals, symbol: typeof m.symbol === 'string' ? cut(m.symbol, 24) : undefined }])));
  });
  return place;
}
