package localnet

import (
	"fmt"
	"strings"
)

// pager is a scrollable text that covers the screen.
type pager struct {
	lines  []string
	top    int  // first line on the screen
	left   int  // number of characters skipped at the start of each line
	follow bool // the last line stays on the screen when lines are added
	height int  // number of lines that were shown last
}

// sideways is the number of characters by which a key scrolls to the side.
const sideways = 20

// maxSideways is the maximum number of skipped characters.
const maxSideways = maxLogLine * len(`\U00000000`)

// key scrolls the text. Method key returns false if the key does not scroll.
func (p *pager) key(k rune) bool {
	last := max(len(p.lines)-p.height, 0)
	if p.follow {
		p.top = last
	}
	switch k {
	case KeyUp:
		p.top--
	case KeyDown:
		p.top++
	case KeyPageUp:
		p.top -= max(p.height-1, 1)
	case KeyPageDown, ' ':
		p.top += max(p.height-1, 1)
	case KeyHome, 'g':
		p.top = 0
	case KeyEnd, 'G':
		p.top = last
	case KeyLeft:
		p.left = max(p.left-sideways, 0)
		return true
	case KeyRight:
		p.left = min(p.left+sideways, maxSideways)
		return true
	default:
		return false
	}
	p.top = min(max(p.top, 0), last)
	p.follow = p.top == last
	return true
}

// window returns the lines for the screen.
func (p *pager) window(height int) []string {
	p.height = max(height, 0)
	last := max(len(p.lines)-p.height, 0)
	if p.top = min(p.top, last); p.follow {
		p.top = last
	}
	out := make([]string, 0, p.height)
	for _, l := range p.lines[p.top:min(p.top+p.height, len(p.lines))] {
		if p.left > 0 {
			r := []rune(l)
			l = string(r[min(p.left, len(r)):])
		}
		out = append(out, l)
	}
	return out
}

// pageKey executes a key on the page that covers the screen.
func (b *Board) pageKey(k rune) {
	switch {
	case b.page.key(k):
	case k == 'q' || k == KeyEscape || k == '?' && b.view == viewHelp || k == 'l' && b.view == viewLog:
		b.view, b.page = viewNodes, pager{}
	}
}

// ReadsLog returns whether the screen shows the end of a node's log. If so, the caller must read
// the log again. While the user looks at lines above the end, the caller need not read the log.
func (b *Board) ReadsLog() (node int, reads bool) {
	return b.logNode, b.view == viewLog && (b.page.follow || b.logPath == "")
}

func (b *Board) logRead(ev LogRead) {
	if node, reads := b.ReadsLog(); reads && node == ev.Node {
		b.page.lines, b.logPath, b.logErr = ev.Lines, ev.Path, ev.Err
	}
}

// pageLines draws the page.
func (b *Board) pageLines(height int) []string {
	head := "what columns and keys mean"
	if b.view == viewLog {
		r := &b.rows[b.logNode]
		head = fmt.Sprintf("%s %s  %s", r.Name, r.phase, b.logPath)
		if b.logErr != "" {
			head += ": " + b.logErr
		}
	}
	body := b.page.window(height - 2)
	first := min(b.page.top+1, len(b.page.lines))
	head += fmt.Sprintf("  lines %d-%d of %d", first, b.page.top+len(body), len(b.page.lines))
	if b.view == viewLog && !b.page.follow {
		head += ", End to follow"
	}
	out := append([]string{head}, body...)
	for len(out) < height-1 {
		out = append(out, "")
	}
	return append(out, "arrows, PgUp, PgDn, Home, End scroll   q back")
}

// explained is the help text that the key ? shows.
var explained = strings.Split(`columns
  node       name of the home folder; the name of the node's account, too
  rpc        address of its JSON-RPC
  role       validator, archival, rpc (tracks all shards), follower
  state      up; syncing: it is behind and fetches blocks; paused, ending, down, killed; failed: it ended by itself
  height     of the last block that it has
  behind     blocks below the highest node
  shards     that it tracks: by config.json, or for a validator those that it is assigned to
  peers      nodes that it is connected to
  blocks     produced, of those that it had to produce in this epoch
  chunks     the same for chunks
  endorsed   the same for endorsements: a validator endorses chunks of others that it has checked
  missed     the sum of what it did not produce and endorse

first line: height, epoch, blocks and transactions per second over the last minute, and since the start how
many heights had no block and how many shards of a block no new chunk. The chain continues without them.

keys
  up, down, 0-9   select a node
  s               stop it, or start it
  k               kill it (SIGKILL)
  p               pause it (SIGSTOP), or resume it
  l               its log, the end of run.log
  c               cut the network in two: the selected node and those below it are disconnected from those above
                  it; with the first node selected, in halves. Again: heal it. More than two thirds of the stake
                  must be connected for new blocks
  t               put load on: 10, 100, 500 transfers per second between the accounts of the nodes, then none
  ?               this page
  q, Ctrl-C       stop all nodes; again: kill them`, "\n")
