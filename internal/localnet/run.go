package localnet

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

const (
	lookEvery = time.Second
	stopLimit = 15 * time.Second
)

// Node is a home and the command that runs it.
type Node struct {
	Spec
	Command []string
	URL     string // URL of the node's JSON-RPC server
	Log     string // path of the node's log file
	// Peer is the node's key, by which the other nodes know this node.
	Peer primitives.PublicKey
	// Exclude makes the running node close and refuse connections with these peers until the next
	// call. Exclude must return within a few seconds.
	Exclude func(peers []primitives.PublicKey) error
}

// Options configure Run.
type Options struct {
	Nodes []Node
	Title string
	// Accounts contains keys that sign the transactions of the load.
	Accounts []*primitives.KeyFile
	// Draw shows the screen. Size returns the size of the screen. If Draw is nil, there is no
	// screen, and Say gets status lines instead.
	Draw func(lines []string)
	Size func() (width, height int)
	Keys <-chan []byte // keyboard input
	// Signals ends all nodes, as the end of the context does. A second signal kills the nodes.
	Signals <-chan os.Signal
	Say     func(line string)
	// Every is the interval of status lines.
	Every time.Duration
}

// runner is the state of one Run.
type runner struct {
	Options
	board     *Board
	processes []*process
	events    chan any
	asking    map[int]bool
	looking   bool
	reading   bool // true: a goroutine reads a log
	hurried   bool // true: the time limit for the nodes to stop has started
	keys      keyReader
	loader    *loader // sends the load; nil: there are no accounts to send from
	// excluded contains, for each node, the peers that its process last confirmed to exclude.
	// excluding says whether a request to a node is in progress.
	excluded  [][]int
	excluding []bool
}

// excludedNow is the result of a request to exclude peers.
type excludedNow struct {
	node    int
	process *process // process that received the request
	list    []int
	err     error
}

// looked contains the events that a call of look has returned.
type looked struct{ found []any }

// Run starts all nodes and waits until all have ended, because of a user request or because ctx is
// done. Without a screen it also returns when every node has ended by itself. The error names the
// nodes that ended by themselves.
func Run(ctx context.Context, o Options) error {
	specs := make([]Spec, len(o.Nodes))
	for i, n := range o.Nodes {
		specs[i] = n.Spec
	}
	r := &runner{Options: o, board: NewBoard(specs, o.Draw == nil), processes: make([]*process, len(o.Nodes)),
		events: make(chan any), asking: map[int]bool{},
		excluded: make([][]int, len(o.Nodes)), excluding: make([]bool, len(o.Nodes))}
	r.loop(ctx)
	if failed := r.board.Failures(); len(failed) > 0 {
		return errors.New(strings.Join(failed, "; "))
	}
	return nil
}

func (r *runner) loop(ctx context.Context) {
	asks, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.board.accounts = len(r.Accounts)
	if len(r.Accounts) > 0 && r.Draw != nil {
		r.loader = newLoader(r.Accounts)
		go r.loader.run(asks)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	every := time.NewTicker(r.Every)
	defer every.Stop()
	var hurry <-chan time.Time
	told := ctx.Done()
	signals, over := 0, false // signals counts interrupts; the first one may also have canceled ctx
	r.do(r.board.Begin())
	r.look(asks)
	for r.show(); !r.board.Done(); r.show() {
		select {
		case <-told:
			told, over = nil, true
			if signals == 0 {
				r.do(r.board.Step(StopRequested{}))
			}
		case <-r.Signals:
			if signals++; signals > 1 || !over {
				r.do(r.board.Step(StopRequested{}))
			}
		case <-hurry:
			hurry = nil
			r.do(r.board.Step(StopRequested{}))
		case in, open := <-r.Keys:
			if !open {
				r.Keys = nil
			}
			for _, k := range r.keys.keys(in) {
				r.do(r.board.Step(Key{k}))
			}
			r.readLog(asks)
			r.exclude(asks)
		case ev := <-r.events:
			r.take(ev)
		case <-tick.C:
			r.look(asks)
			r.readLog(asks)
			r.exclude(asks)
		case <-every.C:
			if r.Draw == nil {
				r.Say(r.board.Line())
			}
		}
		if r.loader != nil {
			r.loader.rate.Store(int64(r.board.Rate()))
		}
		if r.board.ending && !r.hurried {
			r.hurried, hurry = true, time.After(stopLimit)
		}
	}
}

// take applies an event of a process or an answer of a node.
func (r *runner) take(ev any) {
	switch ev := ev.(type) {
	case looked:
		r.looking = false
		for _, f := range ev.found {
			r.board.Step(f)
		}
		return
	case LogRead:
		r.reading = false
	case excludedNow:
		r.excludeDone(ev)
		return
	case Answered:
		delete(r.asking, ev.Node)
	case Ended:
		r.processes[ev.Node] = nil
	}
	r.do(r.board.Step(ev))
}

func (r *runner) do(list []Do) {
	for _, d := range list {
		if p := r.processes[d.Node]; d.What != Start {
			if p != nil {
				p.send(d.What)
			}
			continue
		}
		n := &r.Nodes[d.Node]
		p, err := begin(n.Command, n.Log, func(how string) { r.events <- Ended{d.Node, how + "; see " + n.Log} })
		if err != nil {
			r.board.Step(Ended{d.Node, err.Error()})
			continue
		}
		r.processes[d.Node], r.excluded[d.Node] = p, nil
		r.board.Step(Began{d.Node})
	}
}

// look queries the status of every node, and reads the chain from the highest nodes. look starts no
// query while the previous query of the same node is in progress.
func (r *runner) look(ctx context.Context) {
	for _, i := range r.board.Up() {
		if r.asking[i] {
			continue
		}
		r.asking[i] = true
		go func() {
			a := ask(ctx, r.Nodes[i].URL)
			r.tell(ctx, Answered{i, a})
		}()
	}
	var urls []string
	for _, i := range r.board.Highest() {
		urls = append(urls, r.Nodes[i].URL)
	}
	if r.loader != nil {
		byNumber := slices.Sorted(slices.Values(urls)) // sorted, so that each account keeps its node
		r.loader.urls.Store(&byNumber)
		r.board.Step(r.loader.counts())
	}
	if r.looking {
		return
	}
	if len(urls) == 0 {
		return
	}
	r.looking = true
	after := r.board.Top()
	go func() { r.tell(ctx, looked{look(ctx, urls, after)}) }()
}

// readLog reads the displayed log, unless a read is in progress.
func (r *runner) readLog(ctx context.Context) {
	i, reads := r.board.ReadsLog()
	if !reads || r.reading {
		return
	}
	r.reading = true
	path := r.Nodes[i].Log
	go func() {
		ev := LogRead{Node: i, Path: path}
		lines, err := readLog(path)
		if ev.Lines = lines; err != nil {
			ev.Err = err.Error()
		}
		r.tell(ctx, ev)
	}()
}

// exclude makes the nodes exclude the other part of a cut network. During a cut, runner sends the
// request to every node again at every look, because a node may have restarted its network.
func (r *runner) exclude(ctx context.Context) {
	for _, i := range r.board.Up() {
		n, list := &r.Nodes[i], r.board.Excluded(i)
		if n.Exclude == nil || r.processes[i] == nil || r.excluding[i] || len(list) == 0 && len(r.excluded[i]) == 0 {
			continue
		}
		r.excluding[i] = true
		var peers []primitives.PublicKey
		for _, j := range list {
			peers = append(peers, r.Nodes[j].Peer)
		}
		p := r.processes[i]
		go func() { r.tell(ctx, excludedNow{i, p, list, n.Exclude(peers)}) }()
	}
}

func (r *runner) excludeDone(ev excludedNow) {
	r.excluding[ev.node] = false
	if r.processes[ev.node] != ev.process {
		return
	}
	failed := CutFailed{Node: ev.node}
	if ev.err != nil {
		failed.Err = ev.err.Error()
	} else {
		r.excluded[ev.node] = ev.list
	}
	r.board.Step(failed)
}

func (r *runner) tell(ctx context.Context, ev any) {
	select {
	case r.events <- ev:
	case <-ctx.Done():
	}
}

func (r *runner) show() {
	if r.Draw == nil {
		for _, n := range r.board.News() {
			r.Say(n)
		}
		return
	}
	width, height := r.Size()
	r.Draw(r.board.Lines(r.Title, width, height))
}
