package localnet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// help is the last line of the screen.
const help = "up/down choose   s stop or start   k kill   p pause or go on   q end all"

// heading names the columns.
var heading = []string{"", "node", "rpc", "role", "state", "height", "behind", "shards", "peers", "blocks", "chunks", "endorsed", "missed"}

// wide columns are left-aligned, others right-aligned.
var left = map[string]bool{"": true, "node": true, "role": true, "state": true, "shards": true, "rpc": true}

// Summary returns one line about the chain.
func (b *Board) Summary() string {
	blocks, transactions := b.rates()
	return fmt.Sprintf("height %d  epoch %d  %.2f blocks/s  %.1f tx/s  missed: %s, %s",
		b.height(), b.epoch, blocks, transactions, count(b.missed.blocks, "block"), count(b.missed.chunks, "chunk"))
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

// Lines draws the board within width and height characters, with as many nodes as fit. The selected
// one is always among them.
func (b *Board) Lines(title string, width, height int) []string {
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
	news := b.said[max(len(b.said)-notes, 0):]
	room := max(height-5-notes, 1) // two lines above the table, its heading, an empty one and the help below
	first := min(max(b.selected-room+1, 0), max(len(b.rows)-room, 0))
	out := []string{cut(title, width), cut(b.Summary(), width), line(table[0], widths, width)}
	for _, cells := range table[1+first : 1+min(first+room, len(b.rows))] {
		out = append(out, line(cells, widths, width))
	}
	for _, n := range news {
		out = append(out, cut(n, width))
	}
	return append(out, "", cut(help, width))
}

func line(cells []string, widths []int, width int) string {
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
	return cut(strings.TrimRight(out.String(), " "), width)
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

// keysOf decodes key presses from terminal input. It drops truncated escape sequences.
func keysOf(in []byte) (out []rune) {
	for len(in) > 0 {
		if slices.Equal(in[:min(2, len(in))], []byte("\x1b[")) {
			if len(in) > 2 {
				switch in[2] {
				case 'A':
					out = append(out, KeyUp)
				case 'B':
					out = append(out, KeyDown)
				}
			}
			in = in[min(3, len(in)):]
			continue
		}
		r, n := utf8.DecodeRune(in)
		out, in = append(out, r), in[n:]
	}
	return out
}
