package console

import "testing"

// charts is a script that tests the charts' figures. Each line that it prints is an error.
const charts = `
globalThis.matchMedia = () => ({ addEventListener() {} });
globalThis.ResizeObserver = class { observe() {} };
globalThis.requestAnimationFrame = () => 1;
const node = () => ({ setAttribute() {}, append() {}, replaceChildren() {}, addEventListener() {} });
globalThis.document = { createElement: node };
const { Chart, back } = await import('./charts.js');
const is = (what, got, want) => { if (JSON.stringify(got) !== JSON.stringify(want)) console.log(what + ': ' + JSON.stringify(got) + ', want ' + JSON.stringify(want)); };

for (const [ms, want] of [[0, 'now'], [-15000, '−15 s'], [-60000, '−1 min'], [-90000, '−1:30 min'], [-600000, '−10 min']]) is('' + ms, back(ms), want);

const times = new Chart('t');
for (const at of [5000, 1000, 3000]) times.addAt(at, at);
is('points in order', times.points.map((p) => [p.at, p[0]]), [[1000, 1000], [3000, 3000], [5000, 5000]]);
times.addAt(602000, 1);
is('ten minutes are kept', times.points.map((p) => p.at), [3000, 5000, 602000]);
const blocks = new Chart('b', { axis: 'block', most: 3 });
for (const [height, v] of [[7, 1], [8, 1], [8, 2], [9, 1], [10, 1]]) blocks.addAt(height, v);
is('each height once, the last ones', blocks.points.map((p) => [p.at, p[0]]), [[8, 2], [9, 1], [10, 1]]);
`

// TestChartPointsAreOrderedAndBounded: points are in the order of time or height, each height once.
// It needs Node.js.
func TestChartPointsAreOrderedAndBounded(t *testing.T) { runScript(t, charts) }
