package localnet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func specs() []Spec {
	return []Spec{{Name: "node0", Role: "validator", Tracks: "none", RPC: "[::1]:3030"}, {Name: "node1", Role: "validator", Tracks: "all", Program: "neard", RPC: "[::1]:3031"}, {Name: "node2", Role: "rpc", Tracks: "all", RPC: "[::1]:3032"}}
}

// begun is a board whose nodes run.
func begun(t *testing.T, unattended bool) *Board {
	t.Helper()
	b := NewBoard(specs(), unattended)
	if got, want := b.Begin(), []Do{{0, Start}, {1, Start}, {2, Start}}; !slices.Equal(got, want) {
		t.Fatalf("Begin = %v", got)
	}
	for i := range 3 {
		b.Step(Began{i})
		b.Step(Answered{i, Answer{Height: uint64(10 + i), Peers: 2}})
	}
	return b
}

// TestKeysActOnSelectedNode presses keys and checks the resulting actions and the states of the
// nodes.
func TestKeysActOnSelectedNode(t *testing.T) {
	b := begun(t, false)
	phases := func() (out []Phase) {
		for _, r := range b.rows {
			out = append(out, r.phase)
		}
		return out
	}
	for i, c := range []struct {
		ev   any
		do   []Do
		want []Phase
	}{
		{Key{KeyDown}, nil, []Phase{Up, Up, Up}},
		{Key{'p'}, []Do{{1, Pause}}, []Phase{Up, Paused, Up}},
		{Answered{1, Answer{Height: 99}}, nil, []Phase{Up, Paused, Up}},
		{Key{'p'}, []Do{{1, Continue}}, []Phase{Up, Up, Up}},
		{Key{'p'}, []Do{{1, Pause}}, []Phase{Up, Paused, Up}},
		{Key{'s'}, []Do{{1, Stop}, {1, Continue}}, []Phase{Up, Ending, Up}}, // one that stands still does not hear
		{Key{'s'}, nil, []Phase{Up, Ending, Up}},
		{Ended{1, "exit status 0"}, nil, []Phase{Up, Down, Up}},
		{Key{'k'}, nil, []Phase{Up, Down, Up}},
		{Key{'p'}, nil, []Phase{Up, Down, Up}},
		{Key{'s'}, []Do{{1, Start}}, []Phase{Up, Up, Up}},
		{Key{'s'}, []Do{{1, Stop}}, []Phase{Up, Ending, Up}},
		{Key{'k'}, []Do{{1, Kill}}, []Phase{Up, Killed, Up}},
		{Key{'s'}, nil, []Phase{Up, Killed, Up}}, // its process is still there
		{Ended{1, "signal: killed"}, nil, []Phase{Up, Killed, Up}},
		{Ended{2, "exit status 1"}, nil, []Phase{Up, Killed, Failed}},
		{Key{'2'}, nil, []Phase{Up, Killed, Failed}},
		{Key{KeyDown}, nil, []Phase{Up, Killed, Failed}},
		{Key{'s'}, []Do{{2, Start}}, []Phase{Up, Killed, Up}},
		{Key{'9'}, nil, []Phase{Up, Killed, Up}},
		{Key{'x'}, nil, []Phase{Up, Killed, Up}},
		{Key{'q'}, []Do{{0, Stop}, {2, Stop}}, []Phase{Ending, Killed, Ending}},
		{Key{'s'}, nil, []Phase{Ending, Killed, Ending}},
		{Ended{0, "exit status 0"}, nil, []Phase{Down, Killed, Ending}},
		{Key{ctrlC}, []Do{{2, Kill}}, []Phase{Down, Killed, Killed}},
		{Key{ctrlC}, nil, []Phase{Down, Killed, Killed}},
	} {
		if b.Done() {
			t.Fatalf("step %d: done", i)
		}
		if got := b.Step(c.ev); !slices.Equal(got, c.do) || !slices.Equal(phases(), c.want) {
			t.Fatalf("step %d, %v: %v, %v; want %v, %v", i, c.ev, got, phases(), c.do, c.want)
		}
	}
	if b.Step(Ended{2, "signal: killed"}); !b.Done() || b.Failures() != nil {
		t.Errorf("done %v, failures %v", b.Done(), b.Failures())
	}
}

// TestUnattendedBoardEndsWithLastNode: without a user to restart nodes, the board is done when no
// process is left.
func TestUnattendedBoardEndsWithLastNode(t *testing.T) {
	b := begun(t, true)
	for i := range 3 {
		if b.Done() {
			t.Errorf("done with %d nodes left", 3-i)
		}
		b.Step(Ended{i, "exit status 1; see x.log"})
	}
	want := []string{"node0 ended by itself: exit status 1; see x.log", "node1 ended by itself: exit status 1; see x.log", "node2 ended by itself: exit status 1; see x.log"}
	if !b.Done() || !slices.Equal(b.Failures(), want) {
		t.Errorf("done %v, failures %q", b.Done(), b.Failures())
	}
}

// TestRatesCountEachBlockOnce counts each block of the last minute once, whichever node reports it,
// and counts blocks that no node reported by their ordinals.
func TestRatesCountEachBlockOnce(t *testing.T) {
	b := begun(t, false)
	at := func(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }
	b.Step(Seen{[]Block{{Height: 100, Ordinal: 90, At: at(0), Transactions: 7000}}})
	b.Step(Seen{[]Block{{Height: 100, Ordinal: 90, At: at(0), Skipped: 5}, {Height: 103, Ordinal: 91, At: at(1), Skipped: 2, Chunks: 4, MissedChunks: 1, Transactions: 30}}})
	b.Step(Seen{[]Block{{Height: 112, Ordinal: 100, At: at(10), Transactions: 10}}})
	if blocks, transactions := b.rates(); blocks != 1 || transactions != 20 {
		t.Errorf("%v blocks, %v transactions a second, want 1 and 20", blocks, transactions)
	}
	if b.missed.blocks != 2 || b.missed.chunks != 1 || b.Top() != 112 {
		t.Errorf("missed %+v, top %d", b.missed, b.Top())
	}
	b.Step(Seen{[]Block{{Height: 150, Ordinal: 130, At: at(65), Transactions: 0}}})
	if blocks, _ := b.rates(); blocks != 30.0/55 || len(b.blocks) != 2 {
		t.Errorf("%v blocks a second, %d blocks kept, want only those of the last minute", blocks, len(b.blocks))
	}
}

// TestScreenShowsTheBoard draws a board.
func TestScreenShowsTheBoard(t *testing.T) {
	b := begun(t, false)
	b.Step(Epoch{3, map[string]Duty{"node0": {Shards: []uint64{0, 2}, Blocks: 4, ExpectedBlocks: 5, Chunks: 9, ExpectedChunks: 9, Endorsed: 17, ExpectedEndorsements: 20}, "node1": {Blocks: 1, ExpectedBlocks: 1}}})
	b.Step(Answered{2, Answer{Height: 6, Syncing: true, Peers: 1}})
	b.Step(Seen{[]Block{{Height: 10, Ordinal: 10, At: time.Unix(10, 0)}, {Height: 11, Ordinal: 11, At: time.Unix(12, 0), MissedChunks: 1, Transactions: 5}}})
	b.News()
	b.Step(Key{KeyDown})
	b.Step(Key{'p'})
	got := strings.Join(b.Lines("three nodes", 120, 20), "\n")
	want := `three nodes
height 11  epoch 3  0.50 blocks/s  2.5 tx/s  missed: 0 blocks, 1 chunk
   node   rpc         role       state           height  behind  shards  peers  blocks  chunks  endorsed  missed
   node0  [::1]:3030  validator  up                  10       1  0,2         2     4/5     9/9     17/20       4
>  node1  [::1]:3031  validator  paused (neard)      11       0  all         2     1/1     0/0       0/0       0
   node2  [::1]:3032  rpc        up, syncing          6       5  all         1       -       -         -       -
node1 stands still

up/down select  s stop, start  k kill  p pause, resume  l log  t load  c cut, heal  ? explain  q end all`
	if got != want {
		t.Errorf("screen:\n%s\nwant\n%s", got, want)
	}
	if got, want := b.Line(), "height 11  epoch 3  0.50 blocks/s  2.5 tx/s  missed: 0 blocks, 1 chunk  node0 10 (2 peers)  node1 paused  node2 6 (1 peer)"; got != want {
		t.Errorf("line = %s\nwant   %s", got, want)
	}
	for _, l := range b.Lines("title", 9, 8) {
		if len(l) > 9 {
			t.Errorf("%q is wider than the screen", l)
		}
	}
}

// TestSmallScreenShowsSelectedNode: the selected node is shown whatever the height of the screen.
func TestSmallScreenShowsSelectedNode(t *testing.T) {
	var many []Spec
	for i := range 50 {
		many = append(many, Spec{Name: fmt.Sprintf("node%d", i)})
	}
	b := NewBoard(many, false)
	b.Begin()
	for i := range 50 {
		lines := b.Lines("", 100, 15)
		if len(lines) > 15 || !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, fmt.Sprintf(">  node%d ", i)) }) {
			t.Fatalf("node %d is not among %q", i, lines)
		}
		b.Step(Key{KeyDown})
	}
}

// TestKeysAreDecodedFromAnyPieces: keys are decoded however their bytes arrive, and escape
// sequences of other keys are dropped.
func TestKeysAreDecodedFromAnyPieces(t *testing.T) {
	in := []byte("s\x1b[A\x1bOB\x1b[5~\x1b[1;5C\x1b[F\xffq\x03" + "\x1b[" + strings.Repeat("9", 100) + "~é\x1bq")
	want := []rune{'s', KeyUp, KeyDown, KeyPageUp, KeyEnd, utf8.RuneError, 'q', ctrlC, 'é', KeyEscape, 'q'}
	var whole keyReader
	if got := whole.keys(in); !slices.Equal(got, want) {
		t.Errorf("keys = %q, want %q", got, want)
	}
	var d keyReader // in parts that do not end within a character or after an escape
	var got []rune
	for _, part := range []string{"s\x1b[", "A\x1bO", "B\x1b[5", "~\x1b[1;5", "C\x1b[F\xffq\x03é\x1b",
		"q\x1b[" + strings.Repeat("9", 100), "x"} {
		got = append(got, d.keys([]byte(part))...)
		if len(d.rest) > maxSequence {
			t.Errorf("%d bytes are kept", len(d.rest))
		}
	}
	if want := append(slices.Clone(want), 'x'); !slices.Equal(got, want) {
		t.Errorf("in parts: keys = %q, want %q", got, want)
	}
}

// TestEveryViewFitsEverySize draws every view at every size: it has no more lines than the screen,
// and none is wider than the screen.
func TestEveryViewFitsEverySize(t *testing.T) {
	for _, keys := range []string{"", "l", "?"} {
		b := begun(t, false)
		b.Step(Key{'2'})
		for _, k := range keys {
			b.Step(Key{k})
		}
		b.Step(LogRead{Node: 2, Path: "/x/run.log", Lines: []string{"one", strings.Repeat("wide", 100), "three"}})
		for height := 0; height < 40; height++ {
			for _, width := range []int{0, 1, 3, 10, 80} {
				lines := b.Lines("a network", width, height)
				if len(lines) > max(height, 1) || len(lines) == 0 {
					t.Fatalf("%q: %d lines of %d", keys, len(lines), height)
				}
				for _, l := range lines {
					if utf8.RuneCountInString(l) > max(width, 1) {
						t.Fatalf("%q: %q is wider than %d", keys, l, width)
					}
				}
				if keys == "" && width == 10 && !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, ">  node2") }) {
					t.Fatalf("the selected node is not among %q, %d high", lines, height)
				}
			}
		}
	}
}

// TestCutExcludesNodeOrHalf cuts off the selected node, or cuts the network in halves, and ends the
// cut.
func TestCutExcludesNodeOrHalf(t *testing.T) {
	b := begun(t, false)
	excluded := func() (out [][]int) {
		for i := range b.rows {
			out = append(out, b.Excluded(i))
		}
		return out
	}
	for i, c := range []struct {
		keys, shows string
		want        string
	}{
		{"c", "CUT: node0 to node1 | node2", "[[2] [2] [0 1]]"},
		{"c", "healed", "[[] [] []]"},
		{"1c", "CUT: node0 | node1 to node2", "[[1 2] [0] [0]]"},
		{"2", "CUT: node0 | node1 to node2", "[[1 2] [0] [0]]"}, // the cut stays where it is
		{"cc", "CUT: node0 to node1 | node2", "[[2] [2] [0 1]]"},
	} {
		for _, k := range c.keys {
			b.Step(Key{k})
		}
		if screen := strings.Join(b.Lines("", 200, 20), "\n"); !strings.Contains(screen, c.shows) || fmt.Sprint(excluded()) != c.want {
			t.Errorf("step %d: excluded %v, want %s; screen\n%s", i, excluded(), c.want, screen)
		}
	}
	b.Step(CutFailed{0, "no such method"})
	if screen := strings.Join(b.Lines("", 200, 20), "\n"); !strings.Contains(screen,
		"node0 does not refuse its peers") || strings.Contains(screen, "not complete") {
		t.Errorf("one node that cannot:\n%s", screen)
	}
	b.Step(CutFailed{2, "no such method"})
	b.Step(CutFailed{2, "no such method"})
	said := strings.Join(b.News(), "\n")
	if strings.Count(said, "the cut is not complete: node0 and node2 stay connected") != 1 {
		t.Errorf("two nodes that cannot: %s", said)
	}
	one := NewBoard(specs()[:1], false)
	if one.Step(Key{'c'}); one.cut != 0 {
		t.Error("a network of one node is cut")
	}
	b.Step(Key{'q'})
	if b.Step(Key{'c'}); b.cut == 0 {
		t.Error("healed while it ends")
	}
}

// TestLoadKeyStepsThroughRates steps through the rates of the load, checks the displayed rate, and
// ends with no load.
func TestLoadKeyStepsThroughRates(t *testing.T) {
	b := begun(t, false)
	b.Step(Key{'t'})
	if got := b.News(); b.Rate() != 0 || !strings.Contains(strings.Join(got, "\n"), "no load") {
		t.Errorf("without accounts: %d/s, %q", b.Rate(), got)
	}
	b.accounts = 3
	for _, want := range []int{10, 100, 500, 0, 10} {
		if b.Step(Key{'t'}); b.Rate() != want {
			t.Errorf("%d/s, want %d", b.Rate(), want)
		}
	}
	b.Step(Loaded{Sent: 77, Refused: 2, Err: "\x1b[31mno"})
	if got := b.Lines("", 200, 20)[1]; !strings.HasSuffix(got, `load: 10/s, 77 sent, 2 refused (\x1b[31mno)`) {
		t.Errorf("the screen shows %s", got)
	}
	if b.Step(Key{'q'}); b.Rate() != 0 {
		t.Errorf("%d/s while the network ends", b.Rate())
	}
}

// TestLogViewFollowsUntilScrolled: new lines are followed until the user scrolls up; keys act on
// the page alone.
func TestLogViewFollowsUntilScrolled(t *testing.T) {
	b := begun(t, false)
	b.Step(Key{'1'})
	b.Step(Key{'l'})
	text := func(n int) (lines []string) {
		for i := range n {
			lines = append(lines, fmt.Sprint("line ", i))
		}
		return lines
	}
	read := func(node, n int) bool {
		b.Step(LogRead{Node: node, Path: "/x/run.log", Lines: text(n)})
		_, reads := b.ReadsLog()
		return reads
	}
	shows := func(first, last string) {
		t.Helper()
		lines := b.Lines("", 80, 12) // ten of them
		if lines[1] != first || lines[10] != last {
			t.Errorf("shows\n%s\nwant %s to %s", strings.Join(lines, "\n"), first, last)
		}
	}
	if node, reads := b.ReadsLog(); node != 1 || !reads {
		t.Errorf("reads %v of %d", reads, node)
	}
	if !read(1, 30) || !read(2, 3) {
		t.Error("the view does not follow the log")
	}
	shows("line 20", "line 29")
	read(1, 31)
	shows("line 21", "line 30")
	b.Step(Key{KeyUp})
	shows("line 20", "line 29")
	if read(1, 40) {
		t.Error("the log is read while the user looks at earlier lines")
	}
	shows("line 20", "line 29")
	b.Step(Key{KeyPageUp})
	shows("line 11", "line 20")
	b.Step(Key{KeyHome})
	shows("line 0", "line 9")
	b.Step(Key{KeyRight})
	shows("", "")
	b.Step(Key{KeyLeft})
	b.Step(Ended{1, "signal: killed"}) // the node may end meanwhile
	if got := b.Lines("", 80, 12)[0]; !strings.HasPrefix(got, "node1 failed  /x/run.log  lines 1-10 of 31, End to follow") {
		t.Errorf("head %s", got)
	}
	for _, k := range "skpct123" {
		if do := b.Step(Key{k}); do != nil || b.view != viewLog || b.cut != 0 {
			t.Errorf("key %c does %v", k, do)
		}
	}
	b.Step(Key{KeyEnd})
	if !read(1, 5) {
		t.Error("the view does not follow the log again")
	}
	if do := b.Step(Key{'q'}); do != nil || b.view != viewNodes || b.page.lines != nil {
		t.Errorf("q does %v", do)
	}
	b.Step(Key{'l'})
	b.Step(LogRead{Node: 1, Err: "not a regular file"})
	if got := b.Lines("", 80, 12)[0]; !strings.Contains(got, "not a regular file") {
		t.Errorf("head %s", got)
	}
	if do := b.Step(Key{ctrlC}); len(do) != 2 || b.view != viewNodes {
		t.Errorf("Ctrl-C does %v", do)
	}
}

// TestHelpExplainsColumnsAndKeys: the page of the key ? has every column and every key.
func TestHelpExplainsColumnsAndKeys(t *testing.T) {
	b := begun(t, false)
	b.Step(Key{'?'})
	page := strings.Join(b.Lines("", 120, 60), "\n")
	for _, column := range heading[1:] {
		if !strings.Contains(page, "\n  "+column+" ") {
			t.Errorf("the help does not mention %s", column)
		}
	}
	for _, key := range []string{"s", "k", "p", "l", "c", "t", "?"} {
		if !strings.Contains(page, "\n  "+key+" ") || !strings.Contains(help, "  "+key+" ") {
			t.Errorf("the help does not mention the key %s", key)
		}
	}
	if b.Step(Key{'?'}); b.view != viewNodes {
		t.Error("the page is still shown")
	}
}
