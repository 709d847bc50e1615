package localnet

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"
)

const (
	lookEvery = time.Second
	stopLimit = 15 * time.Second
)

// Node is a home and the command that runs it.
type Node struct {
	Spec
	Command []string
	URL     string // of its JSON-RPC
	Log     string // file
}

// Options configure Run.
type Options struct {
	Nodes []Node
	Title string
	// Draw shows the screen, whose size Size returns. nil: there is no screen, and Say gets lines.
	Draw func(lines []string)
	Size func() (width, height int)
	Keys <-chan []byte // what is typed
	// Signals end all nodes, as the end of the context does. A second signal kills them.
	Signals <-chan os.Signal
	Say     func(line string)
	// Every is the time between two status lines.
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
	hurried   bool // the time for an end in order runs
}

// looked is the result of a look at the chain.
type looked struct{ found []any }

// Run starts all nodes and waits until all have ended, on the user's request or because ctx is
// done. Without a screen it also returns when every node has ended by itself. The error names the
// nodes that ended by themselves.
func Run(ctx context.Context, o Options) error {
	specs := make([]Spec, len(o.Nodes))
	for i, n := range o.Nodes {
		specs[i] = n.Spec
	}
	r := &runner{Options: o, board: NewBoard(specs, o.Draw == nil), processes: make([]*process, len(o.Nodes)), events: make(chan any), asking: map[int]bool{}}
	r.loop(ctx)
	if failed := r.board.Failures(); len(failed) > 0 {
		return errors.New(strings.Join(failed, "; "))
	}
	return nil
}

func (r *runner) loop(ctx context.Context) {
	asks, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	every := time.NewTicker(r.Every)
	defer every.Stop()
	var hurry <-chan time.Time
	told := ctx.Done()
	signals, over := 0, false // the first signal may end the context, too
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
			for _, k := range keysOf(in) {
				r.do(r.board.Step(Key{k}))
			}
		case ev := <-r.events:
			r.take(ev)
		case <-tick.C:
			r.look(asks)
		case <-every.C:
			if r.Draw == nil {
				r.Say(r.board.Line())
			}
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
		r.processes[d.Node] = p
		r.board.Step(Began{d.Node})
	}
}

// look queries every node's status, and the chain from the highest ones, unless earlier queries are
// still under way.
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
	if r.looking {
		return
	}
	var urls []string
	for _, i := range r.board.Highest() {
		urls = append(urls, r.Nodes[i].URL)
	}
	if len(urls) == 0 {
		return
	}
	r.looking = true
	after := r.board.Top()
	go func() { r.tell(ctx, looked{look(ctx, urls, after)}) }()
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
