package flame

// Max is the default of Profile.Max. As JSON, Max calls take some 5 MB, far more than a person
// looks at.
const Max = 1 << 16

// Profile holds the function calls of one contract call, with the burnt gas as time axis.
type Profile struct {
	Name    string
	Max     int // maximum number of recorded calls; further calls count as part of their callers
	frames  []string
	indexes map[string]int
	events  []event
	stack   []int // frames of the open calls
	skipped int   // number of open calls that were not recorded
	at      uint64
	Dropped int // number of calls that were not recorded
}

type event struct {
	frame int
	open  bool
	at    uint64
}

// New returns an empty profile.
func New(name string) *Profile { return &Profile{Name: name, Max: Max, indexes: map[string]int{}} }

// Begin records that a function is entered when at gas has been burnt. If at is less than in the
// previous event, Begin uses the value of that event.
func (p *Profile) Begin(name string, at uint64) {
	p.at = max(p.at, at)
	if p.skipped > 0 || len(p.events) >= 2*p.Max {
		p.skipped++
		p.Dropped++
		return
	}
	i, ok := p.indexes[name]
	if !ok {
		i = len(p.frames)
		p.frames, p.indexes[name] = append(p.frames, name), i
	}
	p.stack = append(p.stack, i)
	p.events = append(p.events, event{i, true, p.at})
}

// End records that the function that was entered last returns when at gas has been burnt.
func (p *Profile) End(at uint64) {
	p.at = max(p.at, at)
	if p.skipped > 0 {
		p.skipped--
		return
	}
	if n := len(p.stack); n > 0 {
		p.events = append(p.events, event{p.stack[n-1], false, p.at})
		p.stack = p.stack[:n-1]
	}
}

// Close ends all functions that are still running, with at as the gas burnt. A trap ends running
// functions in the same way.
func (p *Profile) Close(at uint64) {
	for p.skipped > 0 || len(p.stack) > 0 {
		p.End(at)
	}
	p.at = max(p.at, at)
}

// Calls returns the number of recorded calls.
func (p *Profile) Calls() int { return len(p.events) / 2 }

// Gas returns the gas burnt at the last event.
func (p *Profile) Gas() uint64 { return p.at }

// Depth returns the number of functions that are running.
func (p *Profile) Depth() int { return len(p.stack) + p.skipped }

// sample is the gas that the innermost function of a stack burnt itself.
type sample struct {
	stack []int // indices of frames, the outermost first
	gas   uint64
	calls int64
}

// samples sums the events by stack, in the order in which the stacks first occur.
func (p *Profile) samples() []*sample {
	type node struct {
		sample   *sample
		children map[int]*node
		parent   *node
	}
	root := &node{children: map[int]*node{}}
	var all []*sample
	at, last := root, uint64(0)
	for _, e := range p.events {
		if at.sample != nil {
			at.sample.gas += e.at - last
		}
		last = e.at
		if !e.open {
			at = at.parent
			continue
		}
		next := at.children[e.frame]
		if next == nil {
			s := &sample{}
			if at.sample != nil {
				s.stack = append(s.stack, at.sample.stack...)
			}
			s.stack = append(s.stack, e.frame)
			next = &node{sample: s, children: map[int]*node{}, parent: at}
			at.children[e.frame], all = next, append(all, s)
		}
		next.sample.calls++
		at = next
	}
	return all
}
