package check

// kind is finite-wasm's InstrumentationKind. The kind of a point determines how the point can be
// merged with its neighbours.
type kind byte

const (
	pure kind = iota
	dead      // the point is in unreachable code, so it is never charged
	pre       // the point is before control flow, or before an instruction that can observe the gas
	post      // the point is after control flow, or after an instruction that can observe the gas
	between
	bulk // the charge depends on a count on the stack
)

// point is a position at which gas is charged: before the instruction at off, for count
// instructions.
type point struct {
	off    uint32 // offset in the body
	count  uint32 // number of instructions
	kind   kind
	linear bool // the point of a bulk instruction, which is never merged with other points
	whole  bool // analysis.before may merge the next point into this point if both have one kind
}

// analysis is finite-wasm's analysis of one body: the points at which gas is charged, and the
// height of the operand stack in bytes. The analysis's data about blocks is in the validator's
// frames.
type analysis struct {
	points []point
	// If queued is set, flush adds a point before the next instruction: of kind after, for cost
	// instructions.
	after  kind
	cost   uint32
	queued bool

	sizes     []byte // size of each operand on the stack, in bytes
	height    uint64 // height of the stack in bytes: the sum of sizes
	maxHeight uint64
	// lost is set if more operands were popped than pushed. A valid body cannot do that. nearcore's
	// analysis would reject the body.
	lost bool
}

func (a *analysis) reset() {
	a.points, a.sizes = a.points[:0], a.sizes[:0]
	a.queued, a.lost, a.height, a.maxHeight = false, false, 0, 0
}

// before adds a point before the instruction at off. To keep the list short, it already merges
// adjacent pure points and adjacent dead points, as join would do afterwards.
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

// beforeBulk adds the point of a bulk instruction.
func (a *analysis) beforeBulk(off uint32, unreachable bool) {
	k := bulk
	if unreachable {
		k = dead
	}
	a.points = append(a.points, point{off: off, kind: k, linear: true})
	a.then(post, 0)
}

// then sets the point that flush will add before the next instruction.
func (a *analysis) then(k kind, cost uint32) { a.after, a.cost, a.queued = k, cost, true }

// flush adds the pending point, which the method `then` has set. The validator calls flush with
// every instruction.
func (a *analysis) flush(off uint32) {
	if a.queued {
		a.queued = false
		a.points = append(a.points, point{off: off, count: a.cost, kind: a.after})
	}
}

// effects adds the points before and after an instruction that may trap, branch or call.
func (a *analysis) effects(off uint32, cost uint32, unreachable bool) {
	a.before(off, pre, cost, unreachable)
	a.then(post, 0)
}

// join merges points as finite-wasm does. First it merges points at the same position, then the
// points between two positions at which gas can be observed.
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

// merge merges neighbouring points from the left. A merged point has the position of the first.
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

// push, pop and replace update the operand stack if the frame is reachable.
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

// truncate removes operands until n are left.
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
