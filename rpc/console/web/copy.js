// Buttons that copy what a page shows cut or in full: hashes, ids, keys, accounts.
import { el, say, svg } from './dom.js';

/** write puts a text into the clipboard. Over plain HTTP of another host browsers have no navigator.clipboard: there a selection is copied. */
async function write(s) {
  if (navigator.clipboard) return navigator.clipboard.writeText(s);
  const area = el('textarea', { class: 'hidden', 'aria-hidden': 'true', tabindex: '-1' });
  area.value = s;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  if (!done) throw new Error('the browser does not allow it');
}

/** icon is two sheets. It is drawn, since not every font has a sign for it. */
const icon = () => svg('svg', { viewBox: '0 0 16 16', width: 13, height: 13, 'aria-hidden': 'true' }, svg('path', { d: 'M5.5 5.5V2.5h8v8h-3M2.5 5.5h8v8h-8z', fill: 'none', stroke: 'currentColor', 'stroke-width': 1.4 }));

/** copy makes a button that copies a text. what names it for screen readers: "hash", "account". */
export function copy(s, what = 'text', props = {}) {
  const button = el('button', { type: 'button', class: 'copy', title: 'Copy', 'aria-label': `Copy ${what} ${s.length > 24 ? s.slice(0, 8) : s}`, ...props }, icon());
  button.addEventListener('click', async (e) => {
    e.preventDefault();
    let now = '✓';
    try {
      await write(s);
      say(`Copied the ${what}`);
    } catch (x) {
      now = '✕';
      say(`Not copied: ${x.message}`);
    }
    button.textContent = now;
    setTimeout(() => button.replaceChildren(icon()), 1500);
  });
  return button;
}

/** copied shows a text or element with a button behind it that copies s. */
export const copied = (s, what, shown) => el('span', { class: 'copied' }, shown ?? el('code', null, s), ' ', copy(s, what));
