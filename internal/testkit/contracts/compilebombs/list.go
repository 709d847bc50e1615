package compilebombs

import (
	"fmt"
	"math/rand/v2"
)

// Known returns the shapes that were found first. Before package compiler had limits, compiling
// one of them took seconds to minutes or hundreds of megabytes of memory, or its artifact had
// megabytes.
func Known() []Shape {
	return []Shape{
		{Name: "operands under ifs", Funcs: 1, Bytes: maxBody, Live: 2000, Live4: true, Units: units("if")},
		{Name: "operands under loads", Funcs: 1, Bytes: maxBody, Live: 2000, Live4: true, Units: units("load")},
		{Name: "operands under calls", Funcs: 1, Bytes: 132_000, Live: 2000, Live4: true, Units: units("call")},
		{Name: "square roots", Funcs: 1, Bytes: maxBody, Units: units("sqrt-chain")},
		{Name: "two far bytes of data", Funcs: 1, Datas: 2, Span: 16_776_900},
		{Name: "locals in loops", Funcs: 1, Bytes: 6_000, Locals: 400, Units: units("loop-set")},
		{Name: "ten of operands under ifs", Funcs: 10, Bytes: maxBody, Live: 2000, Live4: true, Units: units("if")},
	}
}

// Listed returns a systematic list: every unit alone, over many operands, with many locals, in deep
// blocks and in many functions; and modules with large sections other than code.
func Listed() []Shape {
	var list []Shape
	add := func(s Shape) { list = append(list, s) }
	for u := range Unit(Units()) {
		one := []Unit{u}
		add(Shape{Name: u.String() + " alone", Funcs: 1, Bytes: maxBody, Locals: 4, Mixed: true, Units: one})
		add(Shape{Name: u.String() + " over operands", Funcs: 1, Bytes: maxBody, Live: 1890, Live4: true, Locals: 4, Mixed: true, Units: one})
		add(Shape{Name: u.String() + " with locals in blocks", Funcs: 1, Bytes: maxBody, Locals: 1000, Depth: 100, Units: one})
	}
	for _, n := range []int{100, 9_990} {
		for _, p := range []int{0, 5} {
			add(Shape{Name: fmt.Sprintf("%d functions of %d parameters, exported", n, p), Funcs: n, Bytes: 10, Params: p,
				Exports: n, Units: units("nop")})
			add(Shape{Name: fmt.Sprintf("%d functions of %d parameters", n, p), Funcs: n, Bytes: 10, Params: p, Result: true,
				Elems: n, Units: units("nop")})
			add(Shape{Name: fmt.Sprintf("%d functions of %d parameters that call", n, p), Funcs: n, Bytes: 40, Params: p,
				Result: true, Units: units("call-args")})
		}
		add(Shape{Name: fmt.Sprintf("%d functions of 100 locals", n), Funcs: n, Bytes: 30, Locals: 100, Units: units("local-sum")})
		add(Shape{Name: fmt.Sprintf("%d functions that branch", n), Funcs: n, Bytes: 30, Locals: 5, Units: units("if-local", "loop-set")})
	}
	add(Shape{Name: "90 functions of call_indirect", Funcs: 90, Bytes: maxBody / 8, Units: units("call_indirect")})
	add(Shape{Name: "780 functions of 64 parameters", Funcs: 780, Bytes: 300, Params: 64, Result: true, Units: units("call-args")})
	add(Shape{Name: "64 parameters, all moved", Funcs: 1, Bytes: maxBody, Params: 64, Units: units("params")})
	add(Shape{Name: "64 arguments a call", Funcs: 1, Bytes: maxBody, Params: 64, Units: units("call-args")})
	add(Shape{Name: "64 arguments a call, over operands", Funcs: 1, Bytes: maxBody, Live: 1700, Live4: true, Params: 64,
		Units: units("call-args")})
	for _, nest := range []byte{2, 3, 4} {
		for _, inside := range []string{"nop", "br_if-out", "br_if-far", "br_table-32", "local-sum", "br_table-wide"} {
			add(Shape{Name: fmt.Sprintf("5000 deep in %d: %s", nest, inside), Funcs: 1, Bytes: maxBody, Depth: 4_900, Nest: nest,
				Locals: 5, Units: units(inside)})
		}
		add(Shape{Name: fmt.Sprintf("ten times 4900 deep in %d", nest), Funcs: 10, Bytes: 100_000, Depth: 4_900, Nest: nest,
			Locals: 50, Units: units("br_if-far", "local-sum")})
	}
	// functions of one megabyte, or as large as the limits on functions allow
	for _, u := range []string{"call", "f32-chain", "load-chain", "table.get", "f64-trunc", "memory.grow", "sqrt-chain"} {
		add(Shape{Name: "much " + u, Funcs: 5, Bytes: maxBody, Units: units(u)})
	}
	add(Shape{Name: "1.5 MB of floats", Funcs: 8, Bytes: maxBody, Units: units("f32-chain")})
	add(Shape{Name: "250,000 exports", Funcs: 1, Exports: 250_000})
	add(Shape{Name: "exports of long names", Funcs: 1, Exports: 10_000, Long: 300})
	add(Shape{Name: "1,000 types", Funcs: 1, Types: 1_000})
	add(Shape{Name: "60,000 globals", Funcs: 1, Globals: 60_000})
	add(Shape{Name: "30,000 imports", Funcs: 1, Imports: 9_900})
	add(Shape{Name: "one element at the table's end", Funcs: 1, Elems: 1})
	add(Shape{Name: "10,000 elements", Funcs: 9_990, Elems: 10_000})
	add(Shape{Name: "bytes of data everywhere", Funcs: 1, Datas: 50_000, Span: 1_300})
	add(Shape{Name: "a byte of data a page", Funcs: 1, Datas: 30_000, Span: 4_000})
	add(Shape{Name: "100,000 segments in one place", Funcs: 1, Datas: 99_000, Span: 1})
	add(Shape{Name: "two bytes 33 KB apart", Funcs: 1, Datas: 2, Span: 33_000})
	add(Shape{Name: "4 MB of data", Funcs: 1, Bulk: 4_000_000})
	return list
}

// Random returns a random shape.
func Random(r *rand.Rand) Shape {
	sizes := []int{1, 2, 5, 20, 100, 500, 2_000, 9_990}
	s := Shape{Name: "random", Funcs: sizes[r.IntN(len(sizes))], Locals: r.IntN(1 << r.IntN(14)),
		Live: r.IntN(1 << r.IntN(12)), Live4: r.IntN(3) > 0,
		Depth: r.IntN(1 << r.IntN(13)), Nest: 2 + byte(r.IntN(3)), Mixed: r.IntN(2) == 0, Result: r.IntN(2) == 0, Shift: r.IntN(100)}
	if r.IntN(3) == 0 {
		s.Params = r.IntN(maxParams + 1)
	}
	for range 1 + r.IntN(4) {
		s.Units = append(s.Units, Unit(r.IntN(Units())))
	}
	s.Bytes = min(maxBody, (50_000+r.IntN(350_000))/s.Funcs)
	if r.IntN(4) == 0 {
		s.Exports = r.IntN(1 << r.IntN(15))
	}
	if r.IntN(8) == 0 {
		s.Elems = r.IntN(10_001)
	}
	return s
}

// Mutate returns s with a small random change.
func Mutate(s Shape, r *rand.Rand) Shape {
	s.Name = "random"
	s.Units = append([]Unit(nil), s.Units...)
	scale := func(n, most int) int {
		switch r.IntN(4) {
		case 0:
			n *= 2
		case 1:
			n /= 2
		case 2:
			n = n*9/10 + r.IntN(4)
		default:
			n = n*11/10 + r.IntN(4)
		}
		return min(n, most)
	}
	for range 1 + r.IntN(3) {
		switch r.IntN(13) {
		case 0:
			before := max(1, s.Funcs)
			s.Funcs = max(1, scale(s.Funcs, maxFuncs))
			s.Bytes = min(maxBody, s.Bytes*before/s.Funcs)
		case 1:
			s.Bytes = max(20, scale(s.Bytes, maxBody))
		case 2:
			s.Locals = scale(s.Locals, oneLocals)
		case 3:
			s.Live = scale(s.Live, 2_000)
		case 4:
			s.Live4 = !s.Live4
		case 5:
			s.Depth = scale(s.Depth, maxBlocks-50)
		case 6:
			s.Nest = 2 + byte(r.IntN(3))
		case 7, 8:
			if len(s.Units) > 1 && r.IntN(2) == 0 {
				i := r.IntN(len(s.Units))
				s.Units = append(s.Units[:i], s.Units[i+1:]...)
			} else {
				s.Units = append(s.Units, Unit(r.IntN(Units())))
			}
		case 9, 10:
			if len(s.Units) > 0 {
				s.Units[r.IntN(len(s.Units))] = Unit(r.IntN(Units()))
			}
		case 11:
			s.Params = scale(s.Params, maxParams)
		case 12:
			s.Mixed = !s.Mixed
			s.Result = r.IntN(2) == 0
		}
	}
	return s
}
