package localnet

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/troupe-chain/troupe/internal/txtext"
)

// help is the last line of the screen.
const help = "up/down select  s stop, start  k kill  p pause, resume  l log  t load  c cut, heal  ? explain  q end all"

// heading names the columns.
var heading = []string{"", "node", "rpc", "role", "state", "height", "behind", "shards", "peers", "blocks", "chunks", "endorsed", "missed"}

// left columns are left-aligned, all other columns right-aligned.
var left = map[string]bool{"": true, "node": true, "role": true, "state": true, "shards": true, "rpc": true}

// Summary returns one line about the chain.
func (b *Board) Summary() string {
	blocks, transactions := b.rates()
	out := fmt.Sprintf("height %d  epoch %d  %.2f blocks/s  %.1f tx/s  missed: %s, %s",
		b.height(), b.epoch, blocks, transactions, count(b.missed.blocks, "block"), count(b.missed.chunks, "chunk"))
	if l := &b.loaded; b.Rate() > 0 || l.Sent+l.Refused > 0 {
		out += fmt.Sprintf("  load: %d/s, %d sent", b.Rate(), l.Sent)
		if l.Refused > 0 {
			out += fmt.Sprintf(", %d refused (%s)", l.Refused, l.Err)
		}
	}
	if b.cut > 0 {
		out += "  CUT: " + b.parts()
	}
	return out
}

func count(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatUint(n, 10) + " " + what + "s"
}

// cells returns a node's row.
func (b *Board) cells(i int) []string {
	r := &b.rows[i]
	mark, height, behind, peers := "", "-", "-", "-"
	if i == b.selected {
		mark = ">"
	}
	state := string(r.phase)
	if r.Program != "" {
		state += " (" + r.Program + ")"
	}
	switch {
	case r.phase == Up && r.last.Err != "":
		state += ", " + r.last.Err
	case r.phase == Up && r.last.Syncing:
		state += ", syncing"
	case r.phase == Failed:
		state += ": " + r.how
	}
	if r.last.Height > 0 {
		height, peers = strconv.FormatUint(r.last.Height, 10), strconv.Itoa(r.last.Peers)
		behind = strconv.FormatUint(b.height()-r.last.Height, 10)
	}
	shards, blocks, chunks, endorsed, missed := r.Tracks, "-", "-", "-", "-"
	if d, ok := b.duties[r.Name]; ok {
		if r.Tracks != "all" {
			shards = ids(d.Shards)
		}
		blocks, chunks, endorsed = ratio(d.Blocks, d.ExpectedBlocks), ratio(d.Chunks, d.ExpectedChunks), ratio(d.Endorsed, d.ExpectedEndorsements)
		missed = strconv.FormatUint(d.Missed(), 10)
	}
	return []string{mark, r.Name, r.RPC, r.Role, state, height, behind, shards, peers, blocks, chunks, endorsed, missed}
}

func ratio(done, expected uint64) string { return fmt.Sprintf("%d/%d", done, expected) }

func ids(shards []uint64) string {
	if len(shards) == 0 {
		return "none"
	}
	var out []string
	for _, s := range shards {
		out = append(out, strconv.FormatUint(s, 10))
	}
	return strings.Join(out, ",")
}

// Lines draws the board, or the page that covers the board, within width and height characters.
// Lines draws as many nodes as fit, including the selected one.
func (b *Board) Lines(title string, width, height int) []string {
	width, height = max(width, 1), max(height, 1)
	var out []string
	if b.view != viewNodes {
		out = b.pageLines(height)
	} else {
		out = b.nodeLines(title, height)
	}
	out = out[:min(len(out), height)]
	for i, l := range out {
		out[i] = cut(txtext.Line(l, maxLine), width)
	}
	return out
}

// maxLine is the maximum length of a line of the screen in bytes.
const maxLine = 1 << 16

// nodeLines draws the nodes. On a small screen, nodeLines leaves out the less important lines.
func (b *Board) nodeLines(title string, height int) []string {
	free := height - 1 // number of free lines; one line is reserved for a node
	has := func() bool {
		if free > 0 {
			free--
			return true
		}
		return false
	}
	heads, titled, summed, helped := has(), has(), has(), has()
	said := min(notes+1, free/2) // number of lines for messages and an empty line below the messages
	room := 1 + free - said

	table := [][]string{heading}
	for i := range b.rows {
		table = append(table, b.cells(i))
	}
	widths := make([]int, len(heading))
	for _, cells := range table {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var out []string
	if titled {
		out = append(out, title)
	}
	if summed {
		out = append(out, b.Summary())
	}
	if heads {
		out = append(out, line(table[0], widths))
	}
	first := min(max(b.selected-room+1, 0), max(len(b.rows)-room, 0))
	for _, cells := range table[1+first : 1+min(first+room, len(b.rows))] {
		out = append(out, line(cells, widths))
	}
	if said > 0 {
		out = append(append(out, b.said[max(len(b.said)-said+1, 0):]...), "")
	}
	if helped {
		out = append(out, help)
	}
	return out
}

func line(cells []string, widths []int) string {
	var out strings.Builder
	for i, c := range cells {
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
		if left[heading[i]] {
			c += pad
		} else {
			c = pad + c
		}
		if i > 0 {
			out.WriteString("  ")
		}
		out.WriteString(c)
	}
	return strings.TrimRight(out.String(), " ")
}

func cut(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:max(width, 0)])
	}
	return s
}

// Line returns the board as one line, for output that is not a terminal.
func (b *Board) Line() string {
	out := b.Summary()
	for _, r := range b.rows {
		switch {
		case r.phase != Up:
			out += fmt.Sprintf("  %s %s", r.Name, r.phase)
		case r.last.Err != "":
			out += fmt.Sprintf("  %s %s", r.Name, r.last.Err)
		default:
			out += fmt.Sprintf("  %s %d (%s)", r.Name, r.last.Height, count(uint64(r.last.Peers), "peer"))
		}
	}
	return out
}
