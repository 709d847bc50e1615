// Numbers and bytes for people.

const grouped = new Intl.NumberFormat('en');

/** count is a whole number with its thousands apart. */
export const count = (n) => (n == null ? '–' : grouped.format(n));

/** near shows yoctoNEAR, with up to five places. */
export function near(yocto) {
  const v = BigInt(yocto ?? 0);
  const whole = v / 10n ** 24n;
  const rest = (v % 10n ** 24n) / 10n ** 19n;
  if (whole === 0n && rest === 0n && v > 0n) return grouped.format(v) + ' yocto';
  return grouped.format(whole) + (rest ? '.' + rest.toString().padStart(5, '0').replace(/0+$/, '') : '') + ' NEAR';
}

/** gas shows it in Tgas, or smaller units. */
export function gas(g) {
  const n = Number(g ?? 0);
  if (n >= 1e11) return trim(n / 1e12) + ' Tgas';
  if (n >= 1e8) return trim(n / 1e9) + ' Ggas';
  return n ? count(n) + ' gas' : '0';
}

const trim = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));

/** time shows a duration in ns. */
export function time(ns) {
  if (ns == null || !Number.isFinite(ns)) return '–';
  if (ns < 1e3) return ns.toFixed(0) + ' ns';
  if (ns < 1e6) return trim(ns / 1e3) + ' µs';
  if (ns < 1e9) return trim(ns / 1e6) + ' ms';
  if (ns < 6e10) return trim(ns / 1e9) + ' s';
  if (ns < 36e11) return Math.floor(ns / 6e10) + ' min';
  return (ns / 36e11).toFixed(1) + ' h';
}

/** rate shows how often in a second. */
export const rate = (x) => (x == null || !Number.isFinite(x) ? '–' : x >= 100 ? count(Math.round(x)) : x === 0 ? '0' : trim(x));

/** bytes shows a size. */
export function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (n = Number(n ?? 0); n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i ? trim(n) : n) + ' ' + units[i];
}

/** short cuts a hash. */
export const short = (h) => (h && h.length > 16 ? h.slice(0, 8) + '…' + h.slice(-5) : h);

/** clock shows when something was, in UTC. */
export function clock(ns) {
  const d = new Date(Number(BigInt(ns) / 1000000n));
  return d.toISOString().replace('T', ' ').slice(0, 23) + ' UTC';
}

/** ago shows how long ago something was, by the browser's clock; at what time it was if that is in the future, or more than a day ago. */
export function ago(ns, now = Date.now()) {
  const s = (now - Number(BigInt(ns) / 1000000n)) / 1000;
  if (s < -2 || s > 86400) return clock(ns).slice(0, 16);
  if (s < 60) return Math.max(0, Math.floor(s)) + ' s ago';
  return s < 3600 ? Math.floor(s / 60) + ' min ago' : Math.floor(s / 3600) + ' h ago';
}

/** cut shortens a text to so many characters, and says how long it was. */
export function cut(s, most) {
  s = String(s);
  if (s.length <= most) return s;
  const end = /[\ud800-\udbff]/.test(s[most - 1]) ? most - 1 : most; // a pair of surrogates stays whole
  return `${s.slice(0, end)}… (${count(s.length)} characters)`;
}

/** fromBase64 returns bytes. */
export function fromBase64(s) {
  const raw = atob(s);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

/** toBase64 takes a text or bytes. */
export function toBase64(v) {
  const b = typeof v === 'string' ? new TextEncoder().encode(v) : v;
  let s = '';
  for (let i = 0; i < b.length; i++) s += String.fromCharCode(b[i]);
  return btoa(s);
}

/** deep tells whether brackets stand in so many others that lines by depth would be longer by far than the text. */
export function deep(s) {
  let depth = 0;
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c === 91 || c === 123) {
      if (++depth > 32) return true;
    } else if (c === 93 || c === 125) depth--;
  }
  return false;
}

/** readable shows bytes as JSON, as text, or in hexadecimal, whichever they are, and not more than most of them. */
export function readable(b, most = 4096) {
  const cut = b.length > most;
  const part = cut ? b.subarray(0, most) : b;
  const more = cut ? `\n… ${count(b.length)} bytes in all` : '';
  try {
    const s = new TextDecoder('utf-8', { fatal: !cut }).decode(part);
    // eslint-disable-next-line no-control-regex
    if (!/[\u0000-\u0008\u000e-\u001f]/.test(s)) {
      try {
        return cut || deep(s) ? s + more : JSON.stringify(JSON.parse(s), null, 1);
      } catch {
        return s + more;
      }
    }
  } catch { /* it is no text */ }
  return Array.from(part.subarray(0, 512), (x) => x.toString(16).padStart(2, '0')).join(' ') + (b.length > 512 ? `\n… ${count(b.length)} bytes in all` : '');
}

/** number is what bytes are as an unsigned integer in borsh, of 32, 64 or 128 bits; null: they have another length, or are text. */
export function number(b) {
  if (![4, 8, 16].includes(b.length) || b.every((x) => x >= 32 && x < 127)) return null;
  let n = 0n;
  for (let i = b.length - 1; i >= 0; i--) n = n << 8n | BigInt(b[i]);
  return `u${8 * b.length} ${count(n)}`;
}
