package check

// kind is finite-wasm's InstrumentationKind: how a point may join the points beside it.
type kind byte

const (
	pure kind = iota
	dead      // cannot be reached: never charged
	pre       // before control flow or anything that can look at the gas
	post      // after it
	between
	bulk // charged by a count on the stack
)

// point is a place where gas is charged: before the instruction at off, for count instructions.
type point struct {
	off    uint32 // in the body
	count  uint32
	kind   kind
	linear bool // of a bulk instruction, dead or not: joins nothing
	whole  bool // may take in a like point that follows; see analysis.before
}

// analysis is finite-wasm's of one body: the points of gas and the height of the operand stack.
// Frames are the validator's, with fields for this.
type analysis struct {
	points []point
	after  kind // of the point that the next instruction must start with
	cost   uint32
	queued bool

	sizes     []byte // of the operands
	height    uint64 // their sum
	maxHeight uint64
	lost      bool // more popped than pushed: no valid body does that, but nearcore's analysis would refuse it
}

func (a *analysis) reset() {
	a.points, a.sizes = a.points[:0], a.sizes[:0]
	a.queued, a.lost, a.height, a.maxHeight = false, false, 0, 0
}

// before charges for the instruction at off. Runs of pure and of dead points are joined here
// already, which the joining below would do too; it keeps the list short.
func (a *analysis) before(off uint32, k kind, cost uint32, unreachable bool) {
	if unreachable {
		k = dead
	}
	if n := len(a.points); n > 0 && k <= dead && a.points[n-1].whole && a.points[n-1].kind == k {
		a.points[n-1].count += cost
		return
	}
	a.points = append(a.points, point{off: off, count: cost, kind: k, whole: k <= dead})
}

// beforeBulk charges for a bulk instruction.
func (a *analysis) beforeBulk(off uint32, unreachable bool) {
	k := bulk
	if unreachable {
		k = dead
	}
	a.points = append(a.points, point{off: off, kind: k, linear: true})
	a.then(post, 0)
}

// then queues a point for the next instruction.
func (a *analysis) then(k kind, cost uint32) { a.after, a.cost, a.queued = k, cost, true }

// flush is called with every instruction.
func (a *analysis) flush(off uint32) {
	if a.queued {
		a.queued = false
		a.points = append(a.points, point{off: off, count: a.cost, kind: a.after})
	}
}

// effects charges for an instruction that may trap, branch or call.
func (a *analysis) effects(off uint32, cost uint32, unreachable bool) {
	a.before(off, pre, cost, unreachable)
	a.then(post, 0)
}

// join merges points as finite-wasm does: first those of one place, then what lies between two that
// can be seen.
func (a *analysis) join() []point {
	a.merge(func(p, q point) (kind, bool) {
		if p.off != q.off {
			return 0, false
		}
		switch {
		case p.kind == dead || q.kind == dead:
			return dead, true
		case p.kind == pure:
			return q.kind, true
		case q.kind == pure || p.kind == q.kind:
			return p.kind, true
		}
		return between, true
	})
	a.merge(func(p, q point) (kind, bool) {
		switch {
		case p.kind == pure && (q.kind == pure || q.kind == pre), p.kind == dead && q.kind == dead:
			return q.kind, true
		case p.kind == post && q.kind == pure:
			return post, true
		case p.kind == post && q.kind == pre:
			return between, true
		}
		return 0, false
	})
	return a.points
}

// merge folds neighbours from the left; the joined point stands where the first stood.
func (a *analysis) merge(joined func(p, q point) (kind, bool)) {
	if len(a.points) == 0 {
		return
	}
	out := a.points[:1]
	for _, q := range a.points[1:] {
		p := &out[len(out)-1]
		if k, ok := joined(*p, q); ok && !p.linear && !q.linear {
			p.kind = k
			p.count += q.count
		} else {
			out = append(out, q)
		}
	}
	a.points = out
}

// push, pop and replace move the operand stack, if the frame can be reached.
func (a *analysis) push(t ValType, unreachable bool) {
	if unreachable {
		return
	}
	n := t.size()
	a.sizes = append(a.sizes, n)
	if a.height += uint64(n); a.height > a.maxHeight {
		a.maxHeight = a.height
	}
}

func (a *analysis) pop(n int, unreachable bool) {
	if unreachable {
		return
	}
	a.truncate(len(a.sizes) - n)
}

// truncate takes operands off until n are left.
func (a *analysis) truncate(n int) {
	if n < 0 {
		a.lost = true
		return
	}
	for _, size := range a.sizes[n:] {
		a.height -= uint64(size)
	}
	a.sizes = a.sizes[:n]
}
