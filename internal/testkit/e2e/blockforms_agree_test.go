//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// sendBlockForm sends a block to all honest nodes, each from a peer that is new to it, and waits
// until all have logged why they refuse it, or a while.
func (c *byzantineCluster) sendBlockForm(x *forgedBlock, j *blockVerdict, with []*messagePeer) {
	c.t.Helper()
	for i, w := range with {
		if err := w.send(rawBlock(x.raw)); err != nil {
			c.t.Errorf("%s: not sent to %s %d: %v", j.form.name, c.kind(i), i, err)
		}
	}
	for begun := time.Now(); time.Since(begun) < 150*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		all := true
		for i, w := range with {
			j.why[i] = c.reason(i, j.hash)
			j.banned[i] = j.banned[i] || w.closed.Load()
			all = all && j.why[i] != ""
		}
		if all && !j.form.right {
			break
		}
	}
}

// reason returns why a node refuses a block, from its log.
func (c *byzantineCluster) reason(i int, hash primitives.Hash) string {
	if c.reasons[i] == nil {
		c.reasons[i] = map[string]string{}
	}
	log := c.p[i].out.since(c.read[i])
	log = log[:strings.LastIndexByte(log, '\n')+1]
	c.read[i] += len(log)
	name, before, after := hash.String(), " hash=", "received bad block err="
	if c.kind(i) == "troupe" {
		name, before, after = name[:8], `error="block `, `\": `
	}
	for line := range strings.Lines(log) {
		_, about, ok := strings.Cut(line, before)
		_, why, is := strings.Cut(about, after)
		about, _, _ = strings.Cut(about, " ")
		if why = strings.TrimRight(strings.TrimPrefix(why, "chain: "), "\"\n"); ok && is && c.reasons[i][about] == "" {
			c.reasons[i][about] = why[:min(len(why), 120)]
		}
	}
	return c.reasons[i][name]
}

// since returns the output after the first n bytes.
func (o *output) since(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.b.Bytes()[min(n, o.b.Len()):])
}

// connect makes n peers of each honest node.
func (c *byzantineCluster) connect(n int) (out [][]*messagePeer) {
	c.t.Helper()
	out = make([][]*messagePeer, n)
	var group sync.WaitGroup
	for k := range out {
		out[k] = make([]*messagePeer, honestNodes)
		for i := range honestNodes {
			group.Go(func() {
				w, err := newMessagePeer(c.t, c.homes[i], c.genesis)
				if err != nil {
					c.t.Errorf("%s %d: error %v", c.kind(i), i, err)
				}
				out[k][i] = w
			})
		}
	}
	if group.Wait(); c.t.Failed() {
		c.t.FailNow()
	}
	return out
}

// atOnce is the most forms of one block that are sent: the other validators wait two seconds for a
// valid block and then skip the height. If all skip it although the block is valid, it was sent too
// late, and is sent again up to this number of times.
const (
	atOnce = 6
	again  = 4
)

// round takes the next block of the byzantine validator and sends it in invalid forms and then in a
// valid one, on which all validators are to build.
func (c *byzantineCluster) round(wrong, right []*blockForm) (list []*blockVerdict, todoWrong, todoRight []*blockForm) {
	c.t.Helper()
	with := c.connect(atOnce)
	all := with
	defer func() {
		for _, ws := range all {
			for _, w := range ws {
				_ = w.conn.Close()
			}
		}
	}()
	b, parent := c.next(6 * time.Minute)
	say := func(f *blockForm) bool {
		x := f.forge(b, parent, c.keys, c.by)
		if x == nil {
			return false
		}
		j := &blockVerdict{form: f, hash: x.hash, height: b.Header.Height}
		c.sendBlockForm(x, j, with[0])
		list, with = append(list, j), with[1:]
		return true
	}
	begun := time.Now()
	for _, f := range wrong {
		if len(with) == 1 || time.Since(begun) > 600*time.Millisecond || !say(f) {
			todoWrong = append(todoWrong, f)
		}
	}
	said := false
	for _, f := range append(right, &rightForms[0]) {
		if !said {
			if said = say(f); said {
				continue
			}
		}
		todoRight = append(todoRight, f)
	}
	for limit := time.Now().Add(15 * time.Second); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		on := true
		for _, p := range c.p[:honestNodes] {
			on = on && p.tip() > uint64(b.Header.Height)
		}
		if on {
			break
		}
	}
	if n := len(todoRight); n > 0 && todoRight[n-1] == &rightForms[0] {
		todoRight = todoRight[:n-1]
	}
	if last := list[len(list)-1]; last.form.right && !slices.ContainsFunc(c.p[:honestNodes], func(p *process) bool { return p.has(last.height, last.hash) }) {
		if c.late[last.form]++; c.late[last.form] < again && last.form != &rightForms[0] {
			return list[:len(list)-1], todoWrong, append([]*blockForm{last.form}, todoRight...)
		}
	}
	return list, todoWrong, todoRight
}

// has returns whether a block is part of a node's canonical chain.
func (p *process) has(height primitives.Height, hash primitives.Hash) bool {
	var h head
	r, err := p.call("block", map[string]any{"block_id": height})
	return err == nil && r.Error == nil && json.Unmarshal(r.Result, &h) == nil && h.Header.Hash == hash.String()
}

// TestNeardAndTroupeAgreeOnBlockForms: one of the validators sends blocks that nearcore's code
// never writes to two neards and a troupe, one form after the other. All must agree on each: if
// neards accept a block and troupes refuse it, all troupes fall behind the chain; the reverse is a
// fork.
func TestNeardAndTroupeAgreeOnBlockForms(t *testing.T) {
	c := newByzantineCluster(t, 2, 60, false)
	c.until(3, 2*time.Minute)
	c.forms(pointers(wrongHeaders, wrongBodies), pointers(rightForms), 6*time.Minute)
}

// TestNeardAndTroupeAgreeOnFirstBlocks is TestNeardAndTroupeAgreeOnBlockForms with the first blocks
// of epochs only. The byzantine validator produces one in about four epochs.
func TestNeardAndTroupeAgreeOnFirstBlocks(t *testing.T) {
	c := newByzantineCluster(t, 2, 50, false)
	c.mu.Lock()
	c.open, c.firsts = true, true
	c.mu.Unlock()
	c.until(3, 2*time.Minute)
	wrong := len(edgeForms) - 1 // the last one is valid
	c.forms(pointers(edgeForms[:wrong]), pointers(edgeForms[wrong:]), 8*time.Minute)
}

func pointers(lists ...[]blockForm) (out []*blockForm) {
	for _, l := range lists {
		for i := range l {
			out = append(out, &l[i])
		}
	}
	return out
}

// forms sends all forms and compares the results.
func (c *byzantineCluster) forms(wrong, right []*blockForm, within time.Duration) {
	t := c.t
	t.Helper()
	var list []*blockVerdict
	for begun := time.Now(); len(wrong)+len(right) > 0 && time.Since(begun) < within; {
		var said []*blockVerdict
		said, wrong, right = c.round(wrong, right)
		list = append(list, said...)
	}
	for _, f := range append(wrong, right...) {
		t.Errorf("%s: never sent", f.name)
	}
	c.until(c.highest()+5, time.Minute)
	c.verdicts(list)
}

// verdicts compares the honest nodes' results for each form.
func (c *byzantineCluster) verdicts(list []*blockVerdict) {
	t := c.t
	t.Helper()
	for _, j := range list {
		var words []string
		for i, p := range c.p[:honestNodes] {
			word := "refused"
			if j.taken[i] = p.hasBlock(j.hash); j.taken[i] {
				word = "taken"
			}
			if j.banned[i] {
				word += ", banned"
			}
			words = append(words, fmt.Sprintf("%s %s (%s)", c.kind(i), word, j.why[i]))
		}
		t.Logf("%-32s %v at %d: %s", j.form.name, j.hash.String()[:8], j.height, strings.Join(words, "; "))
		for i := range honestNodes {
			if j.taken[i] != j.form.right {
				t.Errorf("%s: accepted: want %v, %s %d: got %v", j.form.name, j.form.right, c.kind(i), i, j.taken[i])
			}
		}
	}
	c.agree()
}

// agree requires that all honest nodes have the same last block and are still connected: neards
// relay blocks that are wrong only in body or economics, and must not be banned for it.
func (c *byzantineCluster) agree() {
	t := c.t
	t.Helper()
	for i, p := range c.p[:honestNodes] {
		var info struct {
			Peers []struct {
				ID string `json:"id"`
			} `json:"active_peers"`
		}
		p.get("network_info", []any{}, &info)
		for k, s := range c.homes[:honestNodes] {
			id := keyOf(t, s.home).String()
			if k != i && !slices.ContainsFunc(info.Peers, func(x struct {
				ID string `json:"id"`
			}) bool {
				return x.ID == id
			}) {
				t.Errorf("%s %d lost its connection to %s %d", c.kind(i), i, c.kind(k), k)
			}
		}
	}
	var at [honestNodes]string
	height := c.highest()
	for i, p := range c.p[:honestNodes] {
		r, err := p.call("block", map[string]any{"block_id": height})
		var h head
		if err != nil || r.Error != nil || json.Unmarshal(r.Result, &h) != nil {
			t.Errorf("%s %d has no block %d: %v", c.kind(i), i, height, replyText(r))
		}
		at[i] = h.Header.Hash
		if at[i] != at[0] {
			t.Errorf("%s %d has another block of height %d", c.kind(i), i, height)
		}
	}
}
