package localnet

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Phase is the state of a node's process.
type Phase string

// The phases.
const (
	Down   Phase = "down"   // the node has no process
	Up     Phase = "up"     // the process runs
	Paused Phase = "paused" // the process is stopped by SIGSTOP
	Ending Phase = "ending" // a signal to end was sent to the process
	Failed Phase = "failed" // the process has ended although nothing requested that
	Killed Phase = "killed" // the user killed the process with a key
)

const (
	window  = time.Minute // period over which rates are computed
	notes   = 4           // number of recent messages on the screen
	maxSaid = 100
)

// Spec is the part of a node's configuration that the board displays.
type Spec struct {
	Name, Role, Tracks, Program string
	RPC                         string // host:port of the node's JSON-RPC server
}

// Answer is a node's status.
type Answer struct {
	Err     string // why the node did not answer; empty: the node answered
	Height  uint64
	Syncing bool
	Peers   int
}

// Duty contains a validator's expected and actual numbers of blocks, chunks and endorsements in
// this epoch.
type Duty struct {
	Shards                         []uint64
	Blocks, ExpectedBlocks         uint64
	Chunks, ExpectedChunks         uint64
	Endorsed, ExpectedEndorsements uint64
}

// Missed returns how many blocks, chunks and endorsements a validator missed.
func (d *Duty) Missed() uint64 {
	return gap(d.ExpectedBlocks, d.Blocks) + gap(d.ExpectedChunks, d.Chunks) + gap(d.ExpectedEndorsements, d.Endorsed)
}

func gap(expected, done uint64) uint64 {
	if done >= expected {
		return 0
	}
	return expected - done
}

// Block is an observed block of the chain.
type Block struct {
	Height, Ordinal      uint64
	Skipped              uint64 // number of heights without a block between this block and its parent
	At                   time.Time
	Chunks, MissedChunks int
	Transactions         int
}

// The events of a Board.
type (
	// Began: a process has started.
	Began struct{ Node int }
	// Ended: a process has ended.
	Ended struct {
		Node int
		How  string // exit status of the process as text
	}
	// Answered: a node's status has arrived, or the query failed.
	Answered struct {
		Node int
		Answer
	}
	// Seen: new blocks of the chain, lowest first.
	Seen struct{ Blocks []Block }
	// Epoch: the validators of the current epoch, by account.
	Epoch struct {
		Height uint64
		Duties map[string]Duty
	}
	// LogRead: the end of a node's log was read. Lines are escaped.
	LogRead struct {
		Node  int
		Path  string
		Lines []string
		Err   string
	}
	// Loaded counts the transactions of the load since the start.
	Loaded struct {
		Sent, Refused uint64
		Err           string // error of the last refused transaction
	}
	// CutFailed: a node cannot exclude peers.
	CutFailed struct {
		Node int
		Err  string
	}
	// Key: the user pressed a key.
	Key struct{ Key rune }
	// StopRequested: a signal or the context requested the end of the program.
	StopRequested struct{}
)

// Do is an action on a node's process.
type Do struct {
	Node int
	What What
}

// What is the kind of an action.
type What string

// Kinds of actions.
const (
	Start    What = "start"
	Stop     What = "stop"
	Kill     What = "kill"
	Pause    What = "pause"
	Continue What = "continue"
)

// row is the state of one node.
type row struct {
	Spec
	phase Phase
	alive bool // true: the node has a process
	last  Answer
	how   string
	cuts  string // error of the last request to exclude peers; empty: none
}

// view selects what the screen shows.
type view byte

const (
	viewNodes view = iota
	viewLog        // the log of one node
	viewHelp       // explanation of the columns and keys
)

// loadRates are the rates in transactions per second through which the key t cycles.
var loadRates = []int{0, 10, 100, 500}

// Board is the state of the network as shown on the screen. A Board is not safe for concurrent use.
type Board struct {
	rows       []row
	unattended bool // true: no keyboard is connected
	selected   int
	blocks     []Block // blocks of the last minute (window), from which rates are computed
	missed     struct{ blocks, chunks uint64 }
	epoch      uint64
	duties     map[string]Duty
	said       []string
	ending     bool

	view    view
	page    pager
	logNode int    // node whose log is shown
	logPath string // empty: the log was not read yet
	logErr  string

	accounts int // number of accounts that can send transactions

	// nodes below this index have no connections to the nodes from this index on; 0: all nodes are
	// connected
	cut    int
	load   int // index in loadRates of the current load
	loaded Loaded
}

// NewBoard returns the board of nodes that are not started yet. An unattended board is done when no
// process is left.
func NewBoard(nodes []Spec, unattended bool) *Board {
	b := &Board{unattended: unattended}
	for _, n := range nodes {
		b.rows = append(b.rows, row{Spec: n, phase: Down})
	}
	return b
}

// Begin returns the actions that start all nodes.
func (b *Board) Begin() (out []Do) {
	for i := range b.rows {
		out = append(out, b.start(i)...)
	}
	return out
}

// Done returns whether no process runs and none will be started.
func (b *Board) Done() bool {
	return (b.ending || b.unattended) && !slices.ContainsFunc(b.rows, func(r row) bool { return r.alive })
}

// Failures lists the nodes that ended without a request.
func (b *Board) Failures() (out []string) {
	for _, r := range b.rows {
		if r.phase == Failed {
			out = append(out, fmt.Sprintf("%s ended by itself: %s", r.Name, r.how))
		}
	}
	return out
}

// Highest lists the nodes that answer, in descending order of height.
func (b *Board) Highest() (out []int) {
	for i, r := range b.rows {
		if r.phase == Up && r.last.Err == "" {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(x, y int) int { return cmp.Compare(b.rows[y].last.Height, b.rows[x].last.Height) })
	return out
}

// Up lists the nodes whose process runs. Some of these nodes may not answer.
func (b *Board) Up() (out []int) {
	for i, r := range b.rows {
		if r.phase == Up {
			out = append(out, i)
		}
	}
	return out
}

// Top returns the height of the last block seen.
func (b *Board) Top() uint64 {
	if len(b.blocks) == 0 {
		return 0
	}
	return b.blocks[len(b.blocks)-1].Height
}

// Step applies an event and returns the actions to take, in order.
func (b *Board) Step(ev any) []Do {
	switch ev := ev.(type) {
	case Began:
		b.say("%s runs", b.rows[ev.Node].Name)
	case Ended:
		b.ended(ev)
	case Answered:
		if b.rows[ev.Node].phase == Up {
			b.rows[ev.Node].last = ev.Answer
		}
	case Seen:
		b.see(ev.Blocks)
	case Epoch:
		b.epoch, b.duties = ev.Height, ev.Duties
	case LogRead:
		b.logRead(ev)
	case Loaded:
		b.loaded = ev
	case CutFailed:
		b.cutFailed(ev)
	case Key:
		return b.key(ev.Key)
	case StopRequested:
		return b.end()
	default:
		panic(fmt.Sprintf("localnet: no case for %T", ev))
	}
	return nil
}

func (b *Board) start(i int) []Do {
	r := &b.rows[i]
	r.phase, r.alive, r.how, r.cuts, r.last = Up, true, "", "", Answer{Err: "no answer yet"}
	return []Do{{i, Start}}
}

func (b *Board) ended(ev Ended) {
	r := &b.rows[ev.Node]
	switch r.phase {
	case Ending:
		r.phase = Down
		b.say("%s has ended", r.Name)
	case Killed:
		b.say("%s is killed", r.Name)
	default:
		r.phase, r.how = Failed, ev.How
		b.say("%s ended by itself: %s", r.Name, ev.How)
	}
	r.alive, r.last = false, Answer{}
}

// see adds blocks above the last one. see ignores a block that any node has already reported.
func (b *Board) see(blocks []Block) {
	for _, x := range blocks {
		if n := len(b.blocks); n > 0 && x.Height <= b.blocks[n-1].Height {
			continue
		}
		b.blocks = append(b.blocks, x)
		b.missed.blocks += x.Skipped
		b.missed.chunks += uint64(x.MissedChunks)
	}
	for len(b.blocks) > 2 && b.blocks[len(b.blocks)-1].At.Sub(b.blocks[0].At) > window {
		b.blocks = b.blocks[1:]
	}
}

// rates returns blocks and transactions per second in the window. Blocks are counted by ordinal. If
// blocks come faster than the board reads them, rates scales up the transactions of the blocks that
// were read.
func (b *Board) rates() (blocks, transactions float64) {
	n := len(b.blocks)
	if n < 2 {
		return 0, 0
	}
	first, last := &b.blocks[0], &b.blocks[n-1]
	span := last.At.Sub(first.At).Seconds()
	if span <= 0 {
		return 0, 0
	}
	sum := 0
	for _, x := range b.blocks[1:] {
		sum += x.Transactions
	}
	blocks = float64(last.Ordinal-first.Ordinal) / span
	return blocks, blocks * float64(sum) / float64(n-1)
}

// height returns the highest height seen.
func (b *Board) height() uint64 {
	h := b.Top()
	for _, r := range b.rows {
		h = max(h, r.last.Height)
	}
	return h
}

// key executes a key press. The key applies to the page that covers the screen, or to the selected
// node.
func (b *Board) key(k rune) []Do {
	if b.view != viewNodes {
		if k == ctrlC {
			b.view = viewNodes
			return b.end()
		}
		b.pageKey(k)
		return nil
	}
	i := b.selected
	r := &b.rows[i]
	switch {
	case k == '?':
		b.view, b.page = viewHelp, pager{lines: explained}
	case k == 'l':
		b.view, b.page, b.logNode, b.logPath, b.logErr = viewLog, pager{follow: true}, i, "", ""
	case k == 'c' && !b.ending:
		b.cutOrHeal()
	case k == 't' && b.accounts == 0:
		b.say("no load: no home has a key of an account (validator_key.json)")
	case k == 't' && !b.ending:
		b.load = (b.load + 1) % len(loadRates)
	case k == KeyUp:
		b.selected = max(i-1, 0)
	case k == KeyDown:
		b.selected = min(i+1, len(b.rows)-1)
	case k >= '0' && k <= '9' && int(k-'0') < len(b.rows):
		b.selected = int(k - '0')
	case k == 'q' || k == ctrlC:
		return b.end()
	case k == 's' && !r.alive && !b.ending:
		return b.start(i)
	case k == 's' && (r.phase == Up || r.phase == Paused):
		return b.stop(i)
	case k == 'k' && r.alive:
		r.phase = Killed
		return []Do{{i, Kill}}
	case k == 'p' && r.phase == Up:
		r.phase = Paused
		b.say("%s stands still", r.Name)
		return []Do{{i, Pause}}
	case k == 'p' && r.phase == Paused:
		r.phase, r.last = Up, Answer{Err: "no answer yet"}
		b.say("%s goes on", r.Name)
		return []Do{{i, Continue}}
	}
	return nil
}

// stop ends a node. If the node is paused, stop first continues it, because a paused process does
// not handle the signal.
func (b *Board) stop(i int) (out []Do) {
	r := &b.rows[i]
	out = append(out, Do{i, Stop})
	if r.phase == Paused {
		out = append(out, Do{i, Continue})
	}
	r.phase = Ending
	return out
}

// end stops all nodes. The second call kills the nodes.
func (b *Board) end() (out []Do) {
	first := !b.ending
	b.ending, b.load = true, 0
	if first {
		b.say("all are told to end; q or Ctrl-C again kills them")
	}
	for i := range b.rows {
		switch r := &b.rows[i]; {
		case !r.alive || r.phase == Killed:
		case !first:
			r.phase = Killed
			out = append(out, Do{i, Kill})
		case r.phase != Ending:
			out = append(out, b.stop(i)...)
		}
	}
	return out
}

func (b *Board) say(format string, args ...any) {
	b.said = append(b.said, fmt.Sprintf(format, args...))
	b.said = b.said[max(len(b.said)-maxSaid, 0):]
}

// News returns and clears the messages since the last call.
func (b *Board) News() []string {
	out := b.said
	b.said = nil
	return out
}
