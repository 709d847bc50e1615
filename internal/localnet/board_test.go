package localnet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
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

// TestKeys presses keys and looks at what is to be done and what the nodes then are.
func TestKeys(t *testing.T) {
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

// TestUnattended: without a user to restart nodes, the board is done when no process is left.
func TestUnattended(t *testing.T) {
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

// TestRates counts each block of the last minute once, whichever node reports it, and counts blocks
// that no node reported by their ordinals.
func TestRates(t *testing.T) {
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
		t.Errorf("%v blocks a second of %d, want what is younger than a minute", blocks, len(b.blocks))
	}
}

// TestScreen draws a board.
func TestScreen(t *testing.T) {
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

up/down choose   s stop or start   k kill   p pause or go on   q end all`
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

// TestSmallScreen shows the selected node, whatever the height.
func TestSmallScreen(t *testing.T) {
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

func TestKeysOf(t *testing.T) {
	got := keysOf([]byte("s\x1b[A\x1b[Bq\x03\x1b["))
	if want := []rune{'s', KeyUp, KeyDown, 'q', ctrlC}; !slices.Equal(got, want) {
		t.Errorf("keys = %q, want %q", got, want)
	}
}
